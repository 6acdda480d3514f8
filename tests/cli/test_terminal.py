"""What standard output and standard error refuse."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from feedrate.cli.main import main
from feedrate.cli.terminal import READER_GONE, notices, results, results_go_out, say
from feedrate.errors import OutputError

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")


@pytest.fixture
def no_reader() -> Iterator[object]:
    """Yield a stream whose reader has gone."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as stream:
        yield stream


@needs_full
def test_a_full_disk_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with FULL.open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with (
            pytest.raises(OutputError, match=r"cannot be written \(No space left"),
            results_go_out(),
        ):
            results().print("a result")


@pytest.mark.parametrize(
    "write", [lambda: results().print("a result"), lambda: sys.stdout.write("{}")]
)
def test_a_reader_that_has_gone_is_no_error_of_ours(
    monkeypatch: pytest.MonkeyPatch, no_reader: object, write: Callable[[], object]
) -> None:
    monkeypatch.setattr(sys, "stdout", no_reader)
    with pytest.raises(SystemExit) as caught, results_go_out():
        write()
    assert caught.value.code == READER_GONE


def test_a_closed_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(OutputError, match="standard output is closed"), results_go_out():
        raise AssertionError("nothing is printed")


@needs_full
@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["bench", "--help"]])
def test_a_help_text_for_a_full_disk_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["feedrate", *arguments])
    with FULL.open("w") as full, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        with pytest.raises(SystemExit) as caught:
            main()
    assert caught.value.code == OutputError.exit_code
    assert capsys.readouterr().err == (
        "feedrate: standard output cannot be written (No space left on device): make room, or "
        "send it elsewhere\n"
    )


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_a_help_text_whose_reader_has_gone_ends_quietly(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    no_reader: object,
    arguments: list[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["feedrate", *arguments])
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", no_reader)
        with pytest.raises(SystemExit) as caught:
            main()
    assert caught.value.code == READER_GONE
    assert capsys.readouterr().err == ""


@needs_full
def test_a_full_log_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with FULL.open("w") as full:
        monkeypatch.setattr(sys, "stderr", full)
        say("one")
        notices().print("two")
        say("three")


def test_a_log_without_reader_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, no_reader: object
) -> None:
    monkeypatch.setattr(sys, "stderr", no_reader)
    say("one")
    notices().print("two")


def test_a_closed_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    say("one")
    notices().print("two")


def test_what_is_said_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    say("--device cuda:x: [bold] :x:")
    notices().print("--device cuda:x: failed", markup=False)
    assert capsys.readouterr().err == "--device cuda:x: [bold] :x:\n--device cuda:x: failed\n"
