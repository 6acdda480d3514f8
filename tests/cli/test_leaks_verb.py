"""``feedrate leaks``, as it is called; the children are made up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from builders import make_facts
from fakes import FakeExecutor, Script, fail
from feedrate import check_leaks, leak_api, store
from feedrate.cli.main import app
from feedrate.errors import (
    FeedrateError,
    Interrupted,
    MeasuringTimeout,
    MissingExtra,
    NothingMeasured,
    TargetError,
    UsageError,
)
from feedrate.measure import wire
from feedrate.measure.causes import native
from feedrate.measure.executor import Outcome
from feedrate.memory_records import (
    MemoryLook,
    MemoryReading,
    MemoryRoom,
    MemoryWatch,
    ProcessReading,
)
from feedrate.records import ErrorKind, LoaderUse, RunError, Window

MIB = 2**20
FACTORY = Path(__file__).parents[1] / "targets" / "leak_factories.py"


def a_watch(*, epochs: int = 12, growth: float = 0.0) -> MemoryWatch:
    """Return a watch of a main process that grows by so much an epoch."""

    def look(epoch: int, phase: float) -> MemoryLook:
        own = round(300 * MIB + growth * (epoch + phase))
        memory = MemoryReading(rss=own + 50 * MIB, pss=own, uss=own, anonymous=own)
        return MemoryLook(
            at=60.0 * (epoch + phase),
            epoch=epoch,
            phase=phase,
            items=round(1000 * (epoch + phase)),
            main=ProcessReading(pid=1, memory=memory, virtual=4000 * MIB),
        )

    return MemoryWatch(
        looks=tuple(look(epoch, phase) for epoch in range(epochs) for phase in (0.0, 1.0)),
        complete_epochs=epochs,
        num_workers=0,
        room=MemoryRoom(memory=8 * 2**30),
        seconds=60.0 * epochs,
        spent_seconds=0.1,
    )


def watched(watch: MemoryWatch, error: RunError | None = None) -> Script:
    facts = make_facts(0)
    loader = LoaderUse(
        number=0,
        file="train.py",
        line=3,
        facts=facts,
        epochs=12,
        complete_epochs=12,
        batches=120,
        optimizer_steps=0,
    )
    window = Window(
        level=0, batches=120, items=12_000, seconds=10.0, wait_seconds=1.0, step_seconds=9.0,
        phase="own",
    )  # fmt: skip

    def script(spec: wire.ChildSpec) -> Outcome:
        del spec
        return Outcome(
            seconds=12.0,
            ready=wire.Ready(setup_seconds=0.5, facts=facts, versions={"torch": "2.6.0"}),
            facts=facts,
            windows=(window,),
            used=wire.Used(loaders=(loader,), training_loader=0),
            error=error,
            watch=watch,
        )

    return script


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('trains')\n")
    return tmp_path


def executes(monkeypatch: pytest.MonkeyPatch, script: Script) -> FakeExecutor:
    made = FakeExecutor(script)
    monkeypatch.setattr(leak_api, "SubprocessExecutor", lambda *observer: made)
    return made


def leaks(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["leaks", *arguments])


@pytest.mark.usefixtures("folder")
def test_a_leak_ends_with_exit_code_3_and_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    executes(monkeypatch, watched(a_watch(growth=20 * MIB)))
    result = leaks("train.py")
    assert result.exit_code == 3, result.output
    verdict = next(line for line in result.stdout.splitlines() if "grows" in line)
    assert verdict.startswith("Memory grows: ")
    assert "20.0 MiB an epoch" in result.stdout


@pytest.mark.usefixtures("folder")
def test_no_leak_ends_with_0_and_says_what_could_hide(monkeypatch: pytest.MonkeyPatch) -> None:
    executes(monkeypatch, watched(a_watch()))
    result = leaks("train.py")
    assert result.exit_code == 0, result.output
    assert "No leak" in result.stdout
    assert "could hide" in result.stdout


@pytest.mark.usefixtures("folder")
def test_too_short_a_watch_is_not_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    executes(monkeypatch, watched(a_watch(epochs=4)))
    result = leaks("--seconds", "5", "train.py")
    assert result.exit_code == 0, result.output
    assert "Not decided" in result.stdout
    assert "more epochs would tell" in result.stdout.replace("\n", " ")


@pytest.mark.usefixtures("folder")
def test_the_options_reach_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    executor = executes(monkeypatch, watched(a_watch()))
    result = leaks("--epochs", "40", "--seconds", "2m", "--loader", "1", "train.py", "--lr", "1")
    assert result.exit_code == 0, result.output
    (spec,) = executor.specs
    assert spec.session == wire.Leaks(seconds=120.0, fewest=9, loader=1, epochs=40)
    assert spec.script == wire.ScriptSpec(place="train.py", argv=("--lr", "1"))
    assert (spec.seed, spec.settings) == (None, None)


@pytest.mark.usefixtures("folder")
def test_a_function_is_seeded_cut_and_given_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    executor = executes(monkeypatch, watched(a_watch()))
    target = f"{FACTORY}:still"
    assert leaks("--max-batches", "7", "--workers", "3", target).exit_code == 0
    (spec,) = executor.specs
    assert isinstance(spec.session, wire.Leaks)
    assert spec.session.max_batches == 7
    assert spec.seed == 0
    assert spec.settings is not None
    assert spec.settings.num_workers == 3


def test_the_result_is_a_file_that_report_shows_again(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    executes(monkeypatch, watched(a_watch(growth=20 * MIB)))
    shown = leaks("-o", "leaks.json", "train.py").stdout
    suite = store.load(folder / "leaks.json")
    assert suite.kind == "leaks"
    assert suite.watch is not None
    assert len(suite.watch.looks) == 24
    again = CliRunner().invoke(app, ["report", "leaks.json"])
    assert again.exit_code == 0, again.output
    assert again.stdout == shown


@pytest.mark.usefixtures("folder")
def test_json_is_the_files_content_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    executes(monkeypatch, watched(a_watch()))
    document = json.loads(leaks("--json", "train.py").stdout)
    assert (document["kind"], len(document["watch"]["looks"])) == ("leaks", 24)


def test_the_figure_of_a_watch(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    executes(monkeypatch, watched(a_watch(growth=20 * MIB)))
    leaks("-o", "leaks.json", "train.py")
    drawn = CliRunner().invoke(app, ["report", "leaks.json", "-o", "memory.svg"])
    assert drawn.exit_code == 0, drawn.output
    assert "main process" in (folder / "memory.svg").read_text("utf-8")


@pytest.mark.usefixtures("folder")
def test_ctrl_c_keeps_and_shows_what_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    error = RunError(kind="interrupted", sentence="interrupted by Ctrl-C")
    executes(monkeypatch, watched(a_watch(epochs=4), error))
    result = leaks("-o", "leaks.json", "train.py")
    assert isinstance(result.exception, Interrupted)
    assert "Not decided" in result.stdout
    assert store.load("leaks.json").watch is not None


@pytest.mark.usefixtures("folder")
def test_a_target_that_fails_later_is_judged_and_its_failure_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    error = RunError(kind="out_of_memory", sentence="the kernel killed it for memory")
    executes(monkeypatch, watched(a_watch(growth=20 * MIB), error))
    result = leaks("train.py")
    assert result.exit_code == 3
    assert "the kernel killed it for memory" in result.output


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("kind", "raised"),
    [
        ("out_of_memory", NothingMeasured),
        ("exception", NothingMeasured),
        ("timeout", MeasuringTimeout),
    ],
)
def test_a_target_that_fails_before_anything_grew_has_not_passed(
    monkeypatch: pytest.MonkeyPatch, kind: ErrorKind, raised: type[FeedrateError]
) -> None:
    error = RunError(kind=kind, sentence="it ended early")
    executes(monkeypatch, watched(a_watch(epochs=12), error))
    result = leaks("-o", "leaks.json", "train.py")
    assert isinstance(result.exception, raised)
    assert str(result.exception) == "not decided, for the target failed meanwhile: it ended early"
    assert "Not decided: it ended early" in result.stdout, "what was seen is shown"
    assert store.load("leaks.json").watch is not None


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("kind", "raised"), [("exception", NothingMeasured), ("target", TargetError)]
)
def test_a_target_that_gives_nothing_is_an_error(
    monkeypatch: pytest.MonkeyPatch, kind: str, raised: type[FeedrateError]
) -> None:
    executes(monkeypatch, lambda spec: fail(kind, "no such data"))
    result = leaks("train.py")
    assert isinstance(result.exception, raised)
    assert "no such data" in str(result.exception)


@pytest.mark.usefixtures("folder")
def test_epochs_without_a_batch_are_nothing_to_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = a_watch()
    none = tuple(msgspec.structs.replace(look, items=0) for look in seen.looks)
    executes(monkeypatch, watched(msgspec.structs.replace(seen, looks=none)))
    result = leaks("train.py")
    assert isinstance(result.exception, NothingMeasured)
    assert str(result.exception) == "nothing could be watched: no batch came"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--max-batches", "3", "train.py"), "--seconds"),
        (("--seconds", "0.1", "train.py"), "1 s or more"),
        (("-o", "train.py", "train.py"), "the target itself"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments: tuple[str, ...], words: str) -> None:
    result = leaks(*arguments)
    assert isinstance(result.exception, UsageError), result.output
    assert words in str(result.exception)


@pytest.mark.usefixtures("folder")
def test_from_python_the_leaks_are_the_findings_that_grow() -> None:
    saved: list[Any] = []
    suite = check_leaks(
        "train.py", executor=FakeExecutor(watched(a_watch(growth=20 * MIB))), save=saved.append
    )
    assert [finding.code for finding in suite.leaks] == ["memory.main_step_growth"]
    assert "Memory grows" in suite.table()
    assert "memory.main_step_growth" in repr(suite)
    assert len(saved) == 1
    still = check_leaks("train.py", executor=FakeExecutor(watched(a_watch())))
    assert not still.leaks


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("options", [{"seconds": 0.0}, {"epochs": 0}, {"workers": -1}])
def test_bounds_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        check_leaks("train.py", **options)


@pytest.mark.usefixtures("folder")
def test_verbose_has_evidence_and_causes_are_shown_with_their_chain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from feedrate.memory_records import Cause

    cause = Cause(
        process="main",
        file="train.py",
        line=9,
        type_name="Tensor",
        count=125.0,
        bytes_per_epoch=20.0 * MIB,
        held_by=("module train.LOSSES", "list"),
    )
    watch = msgspec.structs.replace(a_watch(growth=20 * MIB), objects=(cause,))
    executes(monkeypatch, watched(watch))
    text = " ".join(leaks("-v", "train.py").stdout.split())
    assert "Tensor made at train.py:9, 125 more each epoch (20.0 MiB)" in text
    assert "module train.LOSSES → list" in text
    assert "growth of the memory of the main process per item" in text


@pytest.mark.usefixtures("folder")
def test_memray_that_is_not_installed_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    made = executes(monkeypatch, watched(a_watch()))
    monkeypatch.setattr(native, "is_installed", lambda: False)
    result = leaks("--memray", "train.py")
    assert isinstance(result.exception, MissingExtra)
    assert "pip install 'feedrate[memray]'" in str(result.exception)
    assert made.specs == [], "it is said before anything is measured"


@pytest.mark.usefixtures("folder")
def test_memray_that_is_not_needed_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    executes(monkeypatch, watched(a_watch()))
    monkeypatch.setattr(native, "is_installed", lambda: True)
    assert leaks("--memray", "train.py").exit_code == 0
