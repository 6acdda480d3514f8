"""The outputs of a measuring command, where one of them cannot be written."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from builders import make_suite
from feedrate import store
from feedrate.cli.main import app
from feedrate.cli.output import Output, check_figure, open_output
from feedrate.errors import OutputError, UsageError
from feedrate.records import Suite


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def suite() -> Suite:
    return make_suite(rates={0: [100.0], 2: [200.0]})


@pytest.mark.parametrize("figure", ["a.png", "./a.png", "sub/../a.png"])
def test_one_file_cannot_be_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, figure: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "result").symlink_to("a.png")
    with (
        pytest.raises(UsageError, match="named for both result and figure"),
        open_output(Path("result"), Path(figure), force=True),
    ):
        pass


@pytest.mark.parametrize(
    ("output", "figure", "says"),
    [
        (Path("a.png"), None, "a.png is a figure's name: draw it with --figure a.png"),
        (Path("a.PDF"), Path("b.png"), "a.PDF is a figure's name: draw it with --figure a.PDF"),
        (None, Path("a.json"), "a.json is a result's name: save it with -o a.json"),
    ],
)
def test_result_and_figure_are_not_taken_for_each_other(
    output: Path | None, figure: Path | None, says: str
) -> None:
    with pytest.raises(UsageError, match=says), open_output(output, figure):
        pass


def test_a_folder_that_takes_no_figure_is_found_before_measuring() -> None:
    if not Path("/proc/self").exists():
        pytest.skip("there is no folder that even root cannot write to")
    with pytest.raises(OutputError, match=r"/proc/x.png cannot be written"):
        check_figure(Path("/proc/x.png"), force=False)


def test_checking_a_figure_leaves_nothing(tmp_path: Path) -> None:
    check_figure(tmp_path / "x.png", force=False)
    assert not list(tmp_path.iterdir())


def test_a_result_is_saved_and_drawn_though_it_cannot_be_printed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    suite: Suite,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    result, figure = tmp_path / "x.json", tmp_path / "x.png"

    def measure(_: object) -> Suite:
        out.save(suite)
        return suite

    with open_output(result, figure) as out, pytest.raises(OutputError, match="output is closed"):
        out.measure(measure)
    assert figure.stat().st_size
    assert f"saved: {result}" in capsys.readouterr().err


def test_where_the_result_is_is_said_though_the_figure_cannot_be_written(
    tmp_path: Path, suite: Suite, capsys: pytest.CaptureFixture[str]
) -> None:
    with store.ResultFile.open(tmp_path / "x.json") as file:
        file.save(suite)
        out = Output(file, tmp_path / "gone" / "x.png", as_json=False, verbose=False, kind="bench")
        with pytest.raises(OutputError, match="figure"):
            out.show(suite)
    assert f"saved: {tmp_path / 'x.json'}" in capsys.readouterr().err


def test_what_cannot_be_saved_where_it_should_is_saved_in_the_state_folder(
    tmp_path: Path, state: Path, suite: Suite, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "goes"
    folder.mkdir()

    def measure(_: object) -> Suite:
        folder.rmdir()
        with pytest.raises(OutputError):
            out.save(suite)
        return suite

    with (
        open_output(folder / "x.json", None, kind="tune") as out,
        pytest.raises(OutputError, match=r"x\.json cannot be written"),
    ):
        out.measure(measure)
    [kept] = (state / "feedrate").iterdir()
    assert kept.name.endswith("-tune.json")
    assert store.load(kept) == suite
    assert f"saved: {kept}" in capsys.readouterr().err


def test_the_target_is_never_replaced(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text("mine")
    arguments = ["bench", f"{program}:make", "-o", str(tmp_path / "." / "train.py"), "--force"]
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, UsageError)
    assert "is the target itself" in str(result.exception)
    assert program.read_text() == "mine"
