"""Running a function under a session in the test's own process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from feedrate.measure import wire
from feedrate.records import Choice, RunError, Window
from feedrate.settings import LoaderSettings

TARGETS = Path(__file__).parents[1] / "targets"
M = TypeVar("M")


@dataclass
class Said:
    """What a session sent, by kind."""

    messages: list[wire.Message] = field(default_factory=list)
    is_complete: bool = False

    def of(self, kind: type[M]) -> list[M]:
        return [message for message in self.messages if isinstance(message, kind)]

    @property
    def windows(self) -> list[Window]:
        return [message.window for message in self.of(wire.WindowDone)]

    @property
    def choices(self) -> list[Choice]:
        return [message.choice for message in self.of(wire.Chosen)]

    @property
    def used(self) -> wire.Used:
        (used,) = self.of(wire.Used)
        return used

    @property
    def error(self) -> RunError:
        (failed,) = self.of(wire.Failed)
        return failed.error


def watch(
    spec: wire.Session,
    function: Callable[[], object],
    settings: LoaderSettings | None = None,
    *,
    is_script: bool = True,
) -> Said:
    """Run a function until the session is complete or it returns."""
    from feedrate.measure.conduct import make_session
    from feedrate.measure.hook import Hook
    from feedrate.measure.sessions import Enough

    said = Said()
    child = wire.ChildSpec(target="", settings=settings, epochs=1, session=spec)
    hook = Hook(make_session(child, said.messages.append, is_script=is_script))
    hook.install()
    try:
        function()
        hook.session.close()
    except Enough:
        said.is_complete = True
    finally:
        hook.remove()
    return said


def line_of(file: str, words: str) -> int:
    """Return the number of the line of a script that holds the words."""
    lines = (TARGETS / file).read_text("utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if words in line)


def target(name: str) -> Any:
    """Import one of the scripts as a module; what they share lies beside them."""
    sys.path.insert(0, str(TARGETS))
    try:
        module: ModuleType = __import__(name)
    finally:
        sys.path.remove(str(TARGETS))
    return module
