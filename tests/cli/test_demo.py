"""``feedrate demo``: what it makes, tunes and says; the children are made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from builders import make_facts, make_metadata, make_suite
from feedrate import store, tune_api
from feedrate.cli.demonstrating import BUDGET_SECONDS, run_demo
from feedrate.cli.main import app
from feedrate.errors import FeedrateError, Interrupted, NothingMeasured, OutputError, UsageError
from feedrate.experiments import photos
from feedrate.records import RunError
from tune_builders import Executed, Loop

LONG = 10**6
SOURCE = Path(photos.__file__).with_name("photo_training.py")


@pytest.fixture
def loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loop:
    """Be in an empty folder, in which a demo measures this loop in place of photographs."""

    def make_photos(folder: Path) -> Path:
        (folder / "upper").mkdir(parents=True, exist_ok=True)
        return folder

    made = Loop(own=make_facts(0, length=LONG))
    monkeypatch.setattr(photos, "make_photos", make_photos)
    monkeypatch.setattr(tune_api, "SubprocessExecutor", lambda **_: Executed(made))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return made


def demo(*options: str) -> Any:
    return CliRunner().invoke(app, ["demo", *options])


def test_the_demo_tunes_a_script_that_it_writes(loop: Loop) -> None:
    result = demo()
    assert result.exit_code == 0, result.output
    spec = loop.seen[0]
    assert spec.script is not None
    assert spec.script.place == str(Path("feedrate-demo/train.py"))
    assert spec.seed is None
    assert Path("feedrate-demo/train.py").read_text() == SOURCE.read_text()
    suite = store.load("feedrate-demo/result.json")
    assert suite.kind == "tune"
    assert suite.procedure.budget_seconds == BUDGET_SECONDS
    assert suite.recommendation is not None
    assert suite.metadata.target == f"demo ({Path('feedrate-demo/train.py')})"
    assert Path("feedrate-demo/figure.png").read_bytes().startswith(b"\x89PNG")


def test_the_demo_shows_report_figure_and_the_next_command(loop: Loop) -> None:
    lines = [" ".join(line.split()) for line in demo().output.splitlines()]
    assert f"feedrate tune demo ({Path('feedrate-demo/train.py')})" in lines
    assert "measured roofline fetch" in lines
    assert any(line.startswith("▸ num_workers=5") for line in lines)
    assert any(" images/s" in line for line in lines)
    assert lines[-4:] == [
        f"figure: {Path('feedrate-demo/figure.png')}",
        f"saved: {Path('feedrate-demo/result.json')}",
        f"next: feedrate apply {Path('feedrate-demo/result.json')}",
        f"next: feedrate report {Path('feedrate-demo/result.json')}",
    ]


def test_each_demo_searches_anew(loop: Loop) -> None:
    assert demo().exit_code == 0
    first = len(loop.seen)
    assert demo().exit_code == 0
    assert len(loop.seen) == 2 * first


def test_a_demo_where_there_is_nothing_to_gain_says_so(loop: Loop) -> None:
    loop.fetch, loop.step = 0.0001, 0.1
    result = demo()
    assert result.exit_code == 0, result.output
    assert "Your loop is step-bound" in " ".join(result.output.split())
    assert "feedrate apply" not in result.output


def test_a_demo_that_cannot_measure_ends_with_its_code(loop: Loop) -> None:
    loop.fail_look = RunError(kind="exception", sentence="the dataset raised")
    result = demo()
    assert isinstance(result.exception, NothingMeasured)
    assert result.exception.exit_code == 1


def test_ctrl_c_keeps_what_was_measured(loop: Loop) -> None:
    loop.interrupt_at = 3
    result = demo()
    assert isinstance(result.exception, Interrupted)
    assert store.load("feedrate-demo/result.json").benchmarks


@pytest.mark.parametrize(
    ("name", "makes"),
    [
        ("result.json", lambda path: path.write_text("mine")),
        ("result.json", lambda path: store.save(make_suite(rates={0: [100.0]}), path)),
        ("figure.png", lambda path: path.write_text("mine")),
        ("train.py", lambda path: path.write_text("print('mine')\n")),
        ("train.py", lambda path: path.write_bytes(b"\xff\xfe")),
        ("photos/me.jpg", lambda path: path.write_text("mine")),
        ("photos/holidays/me.jpg", lambda path: path.write_text("mine")),
    ],
)
def test_what_no_demo_has_made_is_not_touched(tmp_path: Path, name: str, makes) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    makes(tmp_path / name)
    before = (tmp_path / name).read_bytes()
    with pytest.raises(UsageError, match="is not the demo's: name another folder with --folder"):
        run_demo(tmp_path, verbose=False)
    assert (tmp_path / name).read_bytes() == before
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == [tmp_path / name]


@pytest.mark.parametrize("target", ["demo", "demo (feedrate-demo/train.py)"])
def test_a_demo_may_be_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    class Begun(OutputError):
        pass

    def make_photos(_: Path) -> Path:
        raise Begun("photographs are made")

    monkeypatch.setattr(photos, "make_photos", make_photos)
    suite = make_suite(rates={0: [100.0]}, metadata=make_metadata(target=target))
    store.save(suite, tmp_path / "result.json")
    (tmp_path / "figure.png").write_text("the demo's")
    (tmp_path / "photos" / "upper").mkdir(parents=True)
    with pytest.raises(Begun):
        run_demo(tmp_path, verbose=False)


def test_a_script_that_was_changed_is_written_anew(loop: Loop) -> None:
    assert demo().exit_code == 0
    script = Path("feedrate-demo/train.py")
    script.write_text(SOURCE.read_text().replace("shuffle=True", "shuffle=True, num_workers=5"))
    assert demo().exit_code == 0
    assert script.read_text() == SOURCE.read_text()


def test_a_folder_that_cannot_take_the_script_is_one_sentence(loop: Loop) -> None:
    Path("feedrate-demo/train.py").mkdir(parents=True)
    result = demo()
    assert isinstance(result.exception, FeedrateError)
    assert "train.py is not the demo's" in str(result.exception)
