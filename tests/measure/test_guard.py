"""Scripts without ``if __name__ == "__main__"``, where workers would run them again."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

pytest.importorskip("torch")

from watching import TARGETS

from feedrate.cli.running import command
from feedrate.measure import guard, wire
from feedrate.measure.executor import Outcome, SubprocessExecutor
from feedrate.settings import LoaderSettings

pytestmark = pytest.mark.torch

FILE = "script_unguarded_alone.py"


@pytest.mark.parametrize(
    ("source", "has"),
    [
        ("train()", False),
        ("def main():\n    if __name__ == '__main__': pass\nmain()", False),
        ("if __name__ == '__main__':\n    train()", True),
        ("if '__main__' == __name__ and True: train()", True),
        ("if True:\n    pass\nelse:\n    pass", False),
        ("train(", True),
        ("\0", True),
        ("", False),
    ],
)
def test_a_guard_asks_for_the_name_at_the_top(source: str, has: bool) -> None:
    assert guard.has_guard(source) is has


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver", None])
@pytest.mark.parametrize("kind", ["plain", "guarded", "package", "no file", "gone"])
def test_only_what_is_run_again_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str | None, kind: str
) -> None:
    file = tmp_path / "train.py"
    file.write_text("if __name__ == '__main__': train()" if kind == "guarded" else "train()")
    main = ModuleType("__main__")
    if kind != "no file":
        main.__file__ = str(file)
    if kind == "package":
        main.__spec__ = SimpleNamespace(name="package.__main__")  # type: ignore[assignment]
    if kind == "gone":
        file.unlink()
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setattr(guard, "default_start_method", lambda: "spawn")
    context = None if method is None else SimpleNamespace(get_start_method=lambda: method)
    reason = guard.missing_guard(SimpleNamespace(multiprocessing_context=context))
    if kind == "plain" and method != "fork":
        assert reason is not None
        assert f"the start method {method or 'spawn'} " in reason
        assert 'below if __name__ == "__main__": first' in reason
    else:
        assert reason is None


def execute(session: wire.Session, settings: LoaderSettings | None = None) -> Outcome:
    script = wire.ScriptSpec(place=str(TARGETS / FILE))
    spec = wire.ChildSpec(target=FILE, settings=settings, epochs=1, script=script, session=session)
    return SubprocessExecutor().execute(spec, timeout=60, on_message=lambda _: None)


def test_no_worker_is_started_that_would_train_itself() -> None:
    ramp = wire.Ramp(seconds=10, loader=0, most_workers=2, tolerance=0.03)
    static = wire.Static(seconds=0.1, loader=0)
    with ThreadPoolExecutor(2) as pool:
        ran = [pool.submit(execute, ramp)]
        ran += [pool.submit(execute, static, LoaderSettings(num_workers=count)) for count in (1, 0)]
    for each in ran[:2]:
        error = each.result().error
        assert error is not None
        assert error.kind == "exception"
        assert error.sentence.startswith("workers cannot be tried")
    assert ran[2].result().error is None


def test_run_leaves_such_a_script_without_workers() -> None:
    for words in ([sys.executable, str(TARGETS / FILE)], command(str(TARGETS / FILE))):
        done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=100)
        assert (done.returncode, done.stdout, done.stderr) == (0, "trained 50\n", "")
