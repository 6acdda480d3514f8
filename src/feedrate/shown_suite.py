"""What every result has that Python code gets: it can show and save itself."""

from __future__ import annotations

import os

from feedrate import store
from feedrate.errors import UsageError
from feedrate.records import Suite


class ShownSuite(Suite, frozen=True, kw_only=True):
    """A suite that can show and save itself; each verb has a kind of its own."""

    def table(self, width: int = 100, *, verbose: bool = False) -> str:
        """Return the report as text, ``width`` columns wide.

        ``verbose`` adds the evidence, what lies behind the answer, and whole tracebacks.
        """
        from feedrate.report.text import suite_text

        return suite_text(self, width=width, verbose=verbose)

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the suite to a file that ``feedrate report`` reads.

        Raises:
            UsageError: the file exists and ``force`` is false.
            OutputError: it cannot be written.
        """
        if not force and os.path.lexists(path):
            raise UsageError(f"{os.fspath(path)} exists; name another file, or pass force=True")
        store.save(self, path, force=force)
