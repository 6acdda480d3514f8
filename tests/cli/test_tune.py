"""``feedrate tune``, as it is called; the children are made up."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from builders import make_facts
from feedrate import store, tune_api
from feedrate.cli import output
from feedrate.cli.dry_run import copied_folder, in_copy
from feedrate.cli.main import app
from feedrate.cli.tune_options import parse_names, parse_seconds, parse_size
from feedrate.errors import FeedrateError, Interrupted, TargetError, UsageError
from feedrate.measure.asked import asked
from feedrate.measure.continuing import Found
from feedrate.measure.wire import ScriptSpec
from feedrate.settings import LoaderSettings
from tune_builders import Executed, Loop

LONG = 10**6


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    made = Loop(own=make_facts(2, length=LONG))
    monkeypatch.setattr(tune_api, "SubprocessExecutor", lambda **_: Executed(made))
    return made


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    (work / "train.py").write_text("print('trains')\n")
    return work


def tune(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["tune", *arguments])


def refused(*arguments: str) -> str:
    result = tune(*arguments)
    assert isinstance(result.exception, FeedrateError), result.output
    return str(result.exception)


def test_a_script_is_tuned_with_its_own_arguments(loop: Loop, folder: Path) -> None:
    result = tune("--max-workers", "5", "train.py", "--epochs", "3", "-v", "--", "x")
    assert result.exit_code == 0, result.output
    assert "num_workers=5" in result.output
    spec = loop.seen[0]
    assert spec.script == ScriptSpec(place="train.py", argv=("--epochs", "3", "-v", "--", "x"))
    assert spec.seed is None
    assert spec.settings is None


def test_a_function_is_tuned_seeded(loop: Loop, folder: Path) -> None:
    (folder / "data.py").write_text("def make(): ...\n")
    result = tune("--step-ms", "2", "data.py:make")
    assert result.exit_code == 0, result.output
    spec = loop.seen[0]
    assert (spec.target, spec.script, spec.seed, spec.step_seconds) == (
        "data.py:make",
        None,
        0,
        0.002,
    )


def test_a_module_is_tuned_as_python_runs_it(loop: Loop, folder: Path) -> None:
    result = tune("-m", "package.train", "--epochs", "3")
    assert result.exit_code == 0, result.output
    assert loop.seen[0].script == ScriptSpec(
        place="package.train", argv=("--epochs", "3"), module=True
    )
    assert "-m package.train --epochs 3" in result.output


def test_the_result_is_saved_and_shown_again(loop: Loop, folder: Path) -> None:
    result = tune("-o", "x.json", "--figure", "x.svg", "train.py")
    assert result.exit_code == 0, result.output
    suite = store.load("x.json")
    assert suite.kind == "tune"
    assert suite.recommendation is not None
    assert suite.procedure.budget_seconds == 60
    assert Path("x.svg").stat().st_size
    again = CliRunner().invoke(app, ["report", "x.json"])
    assert "▸ num_workers=5" in again.output
    drawn = CliRunner().invoke(app, ["report", "x.json", "-o", "y.svg"])
    assert drawn.exit_code == 0, drawn.output


def test_json_is_the_file_and_nothing_else(loop: Loop, folder: Path) -> None:
    result = tune("--json", "-o", "x.json", "train.py")
    assert result.stdout_bytes == Path("x.json").read_bytes()


def test_a_second_tune_only_confirms_and_fresh_searches_again(loop: Loop, folder: Path) -> None:
    def children(*options: str) -> int:
        loop.seen.clear()
        assert tune(*options, "train.py").exit_code == 0
        return len(loop.seen)

    first = children()
    assert children() == first - 1
    assert children("--fresh") == first
    assert children("--max-workers", "6") == first
    (folder / "train.py").write_text("print('trains otherwise')\n")
    assert children() == first


def test_ctrl_c_shows_and_keeps_what_was_learnt(loop: Loop, folder: Path) -> None:
    loop.interrupt_at = 4
    result = tune("-o", "x.json", "train.py")
    assert isinstance(result.exception, Interrupted)
    assert "not confirmed against your settings" in " ".join(result.output.split())
    suite = store.load("x.json")
    assert suite.recommendation is None
    assert len(suite.benchmarks[1].runs[0].windows) == 4


def test_ctrl_c_before_the_first_child_is_one_sentence(
    loop: Loop, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tune_api, "gather", interrupted)
    assert "before anything was measured" in refused("train.py")


def test_ctrl_c_within_a_save_keeps_what_was_saved_before(
    loop: Loop, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    write_through = os.fsync

    def interrupted(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 3:
            raise KeyboardInterrupt
        write_through(descriptor)

    monkeypatch.setattr(os, "fsync", interrupted)
    (folder / "out").mkdir()
    result = tune("-o", "out/x.json", "train.py")
    assert isinstance(result.exception, Interrupted)
    suite = store.load("out/x.json")
    assert [benchmark.part for benchmark in suite.benchmarks][:2] == ["look", "ramp"]
    assert sum(len(benchmark.runs) for benchmark in suite.benchmarks) == 3
    assert [path.name for path in (folder / "out").iterdir()] == ["x.json"]


def test_ctrl_c_while_the_result_is_shown_says_where_it_is(
    loop: Loop, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(output, "print_result", interrupted)
    result = tune("-o", "x y.json", "train.py")
    assert isinstance(result.exception, Interrupted)
    assert "feedrate report 'x y.json' shows it" in str(result.exception)
    assert store.load("x y.json").recommendation is not None


def test_limits_reach_the_children(loop: Loop, folder: Path) -> None:
    tune("--max-workers", "3", "--max-ram", "1.5M", "--max-shm", "4k", "train.py")
    ramp: Any = loop.seen[1].session
    assert (ramp.most_workers, ramp.ram_bytes, ramp.shm_bytes) == (3, 3 * 2**19, 4096)


def test_what_is_allowed_is_kept_in_the_result(loop: Loop, folder: Path) -> None:
    assert tune("--allow", "in_order", "-o", "x.json", "train.py").exit_code == 0
    assert store.load("x.json").procedure.allow == ("in_order",)


def test_names_are_separated_by_commas_or_the_option_repeated() -> None:
    assert parse_names(["a, b", "c", "a"]) == ("a", "b", "c")
    assert parse_names([]) == ()


def test_a_dry_run_leaves_the_folder_as_it_is(
    loop: Loop, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places: list[Path] = []
    look = loop._look

    def writing() -> Any:
        places.append(Path.cwd())
        Path("written.txt").write_text("by the script")
        return look()

    monkeypatch.setattr(loop, "_look", writing)
    result = tune("--dry", "-o", "x.json", str(folder / "train.py"))
    assert result.exit_code == 0, result.output
    assert loop.seen[0].script == ScriptSpec(place="train.py")
    assert places[0] not in (folder, folder.resolve())
    assert not places[0].exists()
    assert sorted(path.name for path in folder.iterdir()) == ["train.py", "x.json"]


def test_what_is_made_in_a_copy_is_told_by_its_own_place(folder: Path) -> None:
    from tune_builders import tuned_suite, use

    with copied_folder() as copied:
        loop = Loop(own=make_facts(2, length=LONG))
        inside = str(Path.cwd() / "train.py")
        outcome = loop._outcome

        def placed(*arguments: Any, **changes: Any) -> Any:
            import dataclasses

            made = outcome(*arguments, **changes)
            used = msgspec.structs.replace(made.used, loaders=(use(loop.own, file=inside),))
            return dataclasses.replace(made, used=used)

        loop._outcome = placed  # type: ignore[method-assign]
        told = copied.told(tune_api.answered(tuned_suite(loop)))
    assert told.recommendation is not None
    assert told.recommendation.file == str(folder / "train.py")
    assert told.benchmarks[0].runs[0].loaders[0].file == str(folder / "train.py")


def test_git_and_virtual_environments_are_not_copied(folder: Path) -> None:
    (folder / ".git").mkdir()
    (folder / "env").mkdir()
    (folder / "env" / "pyvenv.cfg").touch()
    (folder / "data").mkdir()
    with copied_folder():
        assert sorted(path.name for path in Path.cwd().iterdir()) == ["data", "train.py"]
    assert Path.cwd() == folder


def test_paths_outside_stay_as_they_are(folder: Path, tmp_path: Path) -> None:
    assert in_copy(str(folder / "train.py")) == "train.py"
    assert in_copy(str(tmp_path / "other.py")) == str(tmp_path / "other.py")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.py"], "there is no file none.py"),
        (["train"], "write train.py for a script"),
        (["-m", "no/module"], "is no module's name"),
        (["train.py:make", "--epochs", "3"], "leave --epochs 3 out"),
        (["--continue", "--dry", "train.py"], "leave one of them out"),
        (["--continue", "--json", "train.py"], "leave one of them out"),
        (["--step", "step", "train.py"], "a script has its own"),
        (["--budget", "soon", "train.py"], "--budget takes a time such as 60s"),
        (["--allow", "in_order,order", "train.py"], "allow takes in_order"),
        (["--max-ram", "much", "train.py"], "--max-ram takes a size such as 4G"),
        (["-o", "train.py", "--force", "train.py"], "is the target itself"),
        (["train.py:none"], "none"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(
    loop: Loop, folder: Path, arguments: list[str], words: str
) -> None:
    assert words in refused(*arguments)
    assert not loop.seen


def test_the_script_goes_on_with_what_was_found(
    loop: Loop, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _, words: begun.append(words))
    result = tune("--continue", "train.py", "--epochs", "3")
    assert result.exit_code == 0, result.output
    (words,) = begun
    assert words[-3:] == ["train.py", "--epochs", "3"]
    found = msgspec.json.decode(words[-4], type=Found)
    assert found == Found(loader=0, settings=LoaderSettings(num_workers=5))
    assert tune("--continue", "train.py").exit_code == 0


def test_the_script_goes_on_as_it_is_where_nothing_is_to_change(
    loop: Loop, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _, words: begun.append(words))
    loop.step = 1.0
    assert tune("--continue", "-m", "package.train", "x").exit_code == 0
    assert begun == [[sys.executable, "-m", "package.train", "x"]]


def test_a_function_cannot_go_on(loop: Loop, folder: Path) -> None:
    (folder / "data.py").write_text("def make(): ...\n")
    assert "--continue runs a script" in refused("--continue", "data.py:make")


@pytest.mark.parametrize(
    ("text", "size"), [("512", 512), ("4k", 4096), ("1.5 MiB", 3 * 2**19), ("2GB", 2**31)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text, "--max-ram") == size


@pytest.mark.parametrize("text", ["", "-1", "0", "many", "4X", "1e9"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(UsageError, match="--max-ram takes a size"):
        parse_size(text, "--max-ram")


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("60s", 60), ("1.5m", 90), ("1h", 3600)])
def test_times(text: str, seconds: float) -> None:
    assert parse_seconds(text, "--budget") == seconds


@pytest.mark.parametrize("text", ["", "0s", "s", "1d", "-3"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(UsageError, match="--budget takes a time"):
        parse_seconds(text, "--budget")


def test_a_loader_is_tuned_from_python(folder: Path) -> None:
    loop = Loop(own=make_facts(2, length=LONG))
    suite = tune_api.tune("train.py", executor=Executed(loop), budget=60)
    assert suite.recommendation is not None
    assert "num_workers=5" in suite.table()
    assert repr(suite) == "<TuneSuite of train.py: num_workers=5; .table() shows it>"
    suite.save("x.json")
    with pytest.raises(UsageError, match="force=True"):
        suite.save("x.json")


def test_an_object_is_handed_over_and_no_profile_kept(folder: Path) -> None:
    loop = Loop(own=make_facts(2, length=LONG))
    tune_api.tune([1, 2, 3], executor=Executed(loop))
    assert loop.seen[0].pickled is not None
    assert not (folder.parent / "cache").exists()


@pytest.mark.parametrize("budget", [0, -1, float("inf"), float("nan")])
def test_a_budget_is_a_time(folder: Path, budget: float) -> None:
    with pytest.raises(UsageError, match="budget must be"):
        tune_api.tune("train.py", budget=budget)


def test_a_target_that_tunes_itself_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEEDRATE_CHILD", "1")
    with pytest.raises(UsageError, match="__main__"):
        tune_api.tune("train.py")


def test_what_is_asked_for_is_found_out_before_a_child_starts(folder: Path) -> None:
    with pytest.raises(TargetError, match=r"there is no file none\.py"):
        asked("none.py")
    with pytest.raises(UsageError, match="the target is an object"):
        asked([1], argv=["x"])
