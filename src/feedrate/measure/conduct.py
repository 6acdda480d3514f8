"""Running a target under a session: a script as it is, or the loop around a factory's loader."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from feedrate.measure import wire
from feedrate.measure.after_import import after_import
from feedrate.measure.blame import one_line, text_of
from feedrate.measure.causes.inspection import Causes
from feedrate.measure.script import run_script
from feedrate.records import LoaderFacts, RunError

if TYPE_CHECKING:
    from feedrate.measure.device import Device
    from feedrate.measure.hook import Hook

Send = Callable[[wire.Message], None]
Step = Callable[[Any], object]

_NO_TORCH = "the script ended without importing torch: does it need arguments to train?"
_GUARD = (
    "a worker could not start: with the start method {method} it runs the script again, so put "
    'what the script does below if __name__ == "__main__":'
)


class Conductor:
    """Runs one script under its session.

    ``facts`` are those of the loader that is asked for, as soon as it was iterated.
    """

    def __init__(self, spec: wire.ChildSpec, send: Send) -> None:
        self._spec = spec
        self._send = send
        self._started = time.perf_counter()
        self._owner = os.getpid()
        self._hook: Hook | None = None

    @property
    def is_copy(self) -> bool:
        """Whether this process is one that the script forked: its end is its own."""
        return os.getpid() != self._owner

    def run_script(self, script: wire.ScriptSpec) -> None:
        """Run the script until its session is complete or it ends; its errors pass through."""
        after_import("torch", self._install)
        try:
            run_script(script)
        except SystemExit as end:
            if self.is_copy:
                raise
            if end.code not in (None, 0) and not self._is_over():
                self._flush()
                self._send(wire.Failed(error=self._exited(end)))
                return
        except BaseException:
            if self._is_over():
                return
            self._flush()
            raise
        self._ended()

    def _install(self) -> None:
        from feedrate.measure.hook import Hook

        session = make_session(self._spec, self._send, is_script=True, started=self._started)
        self._hook = Hook(session)
        if isinstance(self._spec.session, wire.Examine):
            session.attach(self._hook)
        self._hook.install()

    def _is_over(self) -> bool:
        """Tell whether the session has ended the target, whatever error came of it on the way."""
        return self._hook is not None and self._hook.session.is_over and self._hook.is_active()

    def _ended(self) -> None:
        hook = self._hook
        if hook is None:
            self._send(wire.Failed(error=RunError(kind="no_batches", sentence=_NO_TORCH)))
        elif hook.is_active() and not hook.session.is_over:
            if hook.session.close():
                self._send(wire.Finished(device=hook.session.device_peaks()))
            else:
                self._send(wire.Failed(error=hook.session.explain_nothing()))
            hook.remove()

    def _flush(self) -> None:
        if self._hook is not None and self._hook.is_active():
            self._hook.session.close()
            self._hook.remove()

    def _exited(self, end: SystemExit) -> RunError:
        code = end.code
        words = f"exit code {code}" if isinstance(code, int) else one_line(text_of(end))
        batches = self._hook.session.batches if self._hook is not None else 0
        when = f"after {batches} batch{'es' if batches != 1 else ''}"
        if not batches:
            when = "before it iterated a DataLoader"
        return RunError(
            kind="exited",
            sentence=f"the script ended {when} ({words}): run it without feedrate first, or see "
            "its output with -v",
        )

    def explained(self, error: RunError) -> RunError:
        """Return an error with what is known of the script."""
        facts = self.facts
        if (
            error.kind == "worker_died"
            and facts is not None
            and facts.start_method in ("spawn", "forkserver")
            and self._hook is not None
            and self._hook.session.batches == 0
        ):
            sentence = _GUARD.format(method=facts.start_method)
            return msgspec.structs.replace(error, kind="exception", sentence=sentence)
        return error

    @property
    def facts(self) -> LoaderFacts | None:
        """Those of the loader that was iterated last."""
        session = self._hook.session if self._hook is not None else None
        uses = [use for use in session.uses.all if session.concerns(use)] if session else []
        return uses[-1].facts if uses else None


def make_session(
    spec: wire.ChildSpec,
    send: Send,
    *,
    is_script: bool,
    synchronize: Callable[[], None] | None = None,
    started: float | None = None,
) -> Any:
    """Return the session that a spec asks for."""
    from feedrate.measure.causes.session import CausesSession
    from feedrate.measure.examining.session import ExamineSession
    from feedrate.measure.look import LookSession
    from feedrate.measure.memory_session import MemorySession
    from feedrate.measure.ramp import RampSession
    from feedrate.measure.static import StaticSession

    options: dict[str, Any] = {
        "is_script": is_script,
        "synchronize": synchronize,
        "started": started,
    }
    session = spec.session
    if isinstance(session, wire.Look):
        return LookSession(send, session, **options)
    if isinstance(session, wire.Ramp):
        return RampSession(send, session, **options)
    if isinstance(session, wire.Static):
        return StaticSession(send, session, spec.settings, **options)
    if isinstance(session, wire.Leaks):
        return MemorySession(send, session, spec.settings, **options)
    if isinstance(session, Causes):
        return CausesSession(send, session, spec.settings, **options)
    if isinstance(session, wire.Examine):
        return ExamineSession(send, session, **options)
    raise TypeError("the spec names no session")


def run_factory(
    spec: wire.ChildSpec, send: Send, loader: Iterable[Any], step: Step | None, device: Device
) -> None:
    """Iterate a factory's loader, epoch after epoch, until its session is complete."""
    from feedrate.measure.hook import Hook
    from feedrate.measure.loop import run_unmeasured
    from feedrate.measure.sessions import Enough

    session = make_session(spec, send, is_script=False, synchronize=device.synchronize)
    asked = spec.session
    limit = asked.max_batches if isinstance(asked, wire.Leaks | Causes) else None
    hook = Hook(session)
    hook.install()
    try:
        while True:
            batches = session.batches
            run_unmeasured(loader, step, limit)
            if session.batches == batches:
                session.close()
                send(wire.Failed(error=session.explain_nothing()))
                return
    except Enough:
        return
    except BaseException:
        session.close()
        raise
