"""Scripts in real children: whatever they do, one clear sentence, and what was learnt is kept."""

from __future__ import annotations

import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("torch")

from watching import TARGETS, line_of

from feedrate.measure import wire
from feedrate.measure.executor import Outcome, SubprocessExecutor
from feedrate.measure.manager import make_run
from feedrate.settings import LoaderSettings

pytestmark = pytest.mark.torch
LOOK = wire.Look(seconds=0.1)
WHOLE = wire.Look(seconds=1000)
STATIC = wire.Static(seconds=0.1, loader=0)


def execute(
    file: str,
    *argv: str,
    session: wire.Session = LOOK,
    settings: LoaderSettings | None = None,
    timeout: float = 60,
) -> Outcome:
    script = wire.ScriptSpec(place=str(TARGETS / file), argv=argv)
    spec = wire.ChildSpec(target=file, settings=settings, epochs=1, script=script, session=session)
    return SubprocessExecutor().execute(spec, timeout=timeout, on_message=lambda _: None)


def test_a_script_is_looked_at_and_ended() -> None:
    outcome = execute("script_plain.py", "1000", "400")
    assert outcome.error is None
    run = make_run(outcome, position=0, repeat=0)
    assert [window.phase for window in run.windows] == ["own", "cached"]
    assert run.training_loader == 1  # a test comes first
    test, train = run.loaders
    assert train.file == str(TARGETS / "script_plain.py")
    assert train.line == line_of("script_plain.py", " loader = DataLoader(")
    assert test.line == line_of("script_plain.py", "test_loader = DataLoader(")
    assert (train.facts.length, test.optimizer_steps) == (100, 0)
    assert run.facts == train.facts
    assert run.startup_seconds is not None
    assert outcome.ready is not None
    assert outcome.ready.versions["torch"]


def test_a_script_that_ends_before_keeps_its_epochs() -> None:
    outcome = execute("script_plain.py", "3", "40", session=wire.Look(seconds=1000))
    assert outcome.error is None
    assert outcome.windows[0].batches == 20  # two whole epochs after the first
    assert outcome.used is not None
    assert outcome.used.loaders[1].complete_epochs == 3


def test_a_script_with_given_settings() -> None:
    settings = LoaderSettings(num_workers=2, prefetch_factor=3)
    session = wire.Static(seconds=0.1, loader=1, trained=True)
    outcome = execute("script_plain.py", "1000", "400", session=session, settings=settings)
    assert outcome.error is None
    (window,) = outcome.windows
    assert (window.level, window.prefetch, window.phase) == (2, 3, "static")
    assert window.worker_cpu_seconds is not None


def test_a_script_on_feedrates_loader() -> None:
    settings = LoaderSettings(num_workers=2, loader="feedrate")
    session = wire.Static(seconds=0.1, loader=1, trained=True)
    outcome = execute("script_plain.py", "1000", "400", session=session, settings=settings)
    assert outcome.error is None
    (window,) = outcome.windows
    assert (window.level, window.phase) == (2, "static")
    assert outcome.used is not None
    assert [each.facts.loader for each in outcome.used.loaders] == [None, "feedrate"]


def test_a_ramp_of_a_script() -> None:
    session = wire.Ramp(seconds=60, loader=1, most_workers=2, tolerance=0.03, trained=True)
    outcome = execute("script_plain.py", "1000", "4000", session=session)
    assert outcome.error is None
    assert [window.level for window in outcome.windows][:2] == [1, 2]
    assert outcome.choices
    assert outcome.used is not None
    assert outcome.used.training_loader == 1


def test_a_factory_under_a_session() -> None:
    spec = wire.ChildSpec(
        target=f"{TARGETS / 'basic_factories.py'}:make_pair",
        settings=LoaderSettings(num_workers=1),
        epochs=1,
        session=STATIC,
    )
    outcome = SubprocessExecutor().execute(spec, timeout=60, on_message=lambda _: None)
    assert outcome.error is None
    (window,) = outcome.windows
    assert (window.level, window.phase) == (1, "static")
    assert outcome.used is not None
    assert outcome.used.training_loader == 0


UNMEASURED = [
    ("exits_at_once", "exited", r"ended before it iterated a DataLoader \(no data folder\)"),
    ("crashes", "exception", r"RuntimeError: loss is NaN \(script_odd.py, line \d+, in crash"),
    ("never", "no_batches", "ended without iterating a DataLoader"),
    ("empty", "no_batches", "drop_last is on"),
    ("daemon", "exited", "process ended before it was measured"),
]


def test_what_cannot_be_measured_is_one_sentence() -> None:
    # Two at a time: nearly all of what each takes is the import of torch, on one CPU.
    with ThreadPoolExecutor(2) as pool:
        ran = list(
            pool.map(lambda each: execute("script_odd.py", each[0], session=WHOLE), UNMEASURED)
        )
    for outcome, (name, kind, says) in zip(ran, UNMEASURED, strict=True):
        assert outcome.error is not None, name
        assert outcome.error.kind == kind, (name, outcome.error.sentence)
        assert re.search(says, outcome.error.sentence), (name, outcome.error.sentence)
        assert "\n" not in outcome.error.sentence
        if name == "crashes":  # what it had shown is kept
            assert outcome.used is not None
            assert outcome.used.training_loader == 0
            assert outcome.windows[0].batches > 30


def test_what_was_learnt_before_ctrl_c_is_kept() -> None:
    pids: list[int] = []

    def interrupt_after_some(message: wire.Message) -> None:
        if isinstance(message, wire.Started):
            pids.append(message.pid)
        elif isinstance(message, wire.Progress) and message.batches > 30:
            while pids:
                os.kill(pids.pop(), signal.SIGINT)

    script = wire.ScriptSpec(place=str(TARGETS / "script_plain.py"), argv=("1000", "400"))
    spec = wire.ChildSpec(
        target="", settings=None, epochs=1, script=script, session=wire.Look(seconds=1000)
    )
    outcome = SubprocessExecutor().execute(spec, timeout=60, on_message=interrupt_after_some)
    assert outcome.error is not None
    assert outcome.used is not None
    assert outcome.used.training_loader == 1
    assert outcome.windows[0].batches > 20


def test_scripts_that_are_measured_whatever_they_do() -> None:
    names = ["swallows", "moves", "forks", "three_batches_and_out"]
    with ThreadPoolExecutor(2) as pool:
        ran = list(pool.map(lambda name: execute("script_odd.py", name), names))
    for name, outcome in zip(names, ran, strict=True):
        assert outcome.error is None, (name, outcome.error)
        assert outcome.used is not None, name
        assert outcome.used.training_loader is not None, name
        assert outcome.windows, name


def test_workers_that_would_run_the_script_again() -> None:
    outcome = execute("script_unguarded.py")
    assert outcome.error is not None
    assert 'if __name__ == "__main__"' in outcome.error.sentence


def test_a_worker_that_dies_at_some_level_leaves_the_windows_before() -> None:
    session = wire.Ramp(seconds=60, loader=0, most_workers=4, tolerance=0.03)
    outcome = execute("script_odd.py", "workers_die_at_three", session=session)
    assert outcome.error is not None
    assert outcome.error.kind == "worker_died"
    assert {window.level for window in outcome.windows} <= {1, 2}
    assert outcome.windows
    assert outcome.choices[-1].level > 2


def test_a_script_that_is_not_there_or_no_python(tmp_path: Any) -> None:
    outcome = execute("nowhere.py")
    assert outcome.error is not None
    assert "cannot be read (No such file or directory)" in outcome.error.sentence
    broken = tmp_path / "broken.py"
    broken.write_text("for:\n")
    outcome = execute(str(broken))
    assert outcome.error is not None
    assert "SyntaxError: invalid syntax" in outcome.error.sentence
