"""Everything that can go wrong, each with the exit code that the command ends with.

An error's text is one sentence (or two) that says what happened and names the way out;
`feedrate.cli.main` prints it on stderr, without a traceback.

Exit codes: 0 ok · 1 nothing could be measured, or another error · 2 usage · 3 a finding that
needs action · 4 the target cannot be used · 5 a file cannot be written · 6 a file cannot be
read as a result · 124 timeout · 130 interrupted.
"""

from __future__ import annotations


class FeedrateError(Exception):
    """Any error that feedrate raises on purpose.

    ``details`` is what ``-v`` shows below the sentence: a traceback of the user's code, say.
    ``suite`` is what had been measured until then (a `feedrate.records.Suite`), if anything.
    """

    exit_code = 1

    def __init__(self, sentence: str, *, details: str = "", suite: object = None) -> None:
        super().__init__(sentence)
        self.details = details
        self.suite = suite


class NothingMeasured(FeedrateError):
    """No setting at all could be measured."""


class UsageError(FeedrateError):
    """An option or argument that cannot be meant."""

    exit_code = 2


class TargetError(FeedrateError):
    """The target cannot be found, imported, or does not return what a target returns."""

    exit_code = 4


class OutputError(FeedrateError):
    """A file that was asked for cannot be written."""

    exit_code = 5


class FormatError(FeedrateError):
    """A file is missing, truncated, newer, or not one of feedrate's."""

    exit_code = 6


class MissingExtra(FeedrateError):
    """A package that this verb needs is not installed."""


class BrokenImage(FeedrateError):
    """A file that was to be an image is missing or cannot be decoded."""


class MeasuringTimeout(FeedrateError):
    """Every setting stopped delivering batches."""

    exit_code = 124


class Interrupted(FeedrateError):
    """The user pressed Ctrl-C; what was measured is kept."""

    exit_code = 130
