from __future__ import annotations

import pytest
import typer

from feedrate.cli.main import app
from feedrate.cli.options import parse_ints, parse_loaders, parse_start_methods, parse_switches
from feedrate.errors import UsageError


def test_whole_numbers() -> None:
    assert parse_ints("0,1,2,4", "--workers") == (0, 1, 2, 4)
    assert parse_ints(" 4, 0 ,4", "--workers") == (4, 0)
    assert parse_ints("8", "--workers") == (8,)


@pytest.mark.parametrize(
    "word", ["x", "-1", "1.5", "1e3", "0x2", "1_0", "²", "٣", "1 2", "9" * 5000]
)
def test_what_is_no_whole_number_is_named(word: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_ints(f"1,{word}", "--workers")
    assert str(caught.value) == (
        f"--workers takes whole numbers of 0 or more, separated by commas, and {word!r} is none"
    )


def test_a_number_below_the_least() -> None:
    with pytest.raises(UsageError, match=r"--prefetch-factor takes whole numbers of 1 or more"):
        parse_ints("2,0", "--prefetch-factor", least=1)


@pytest.mark.parametrize("text", ["", " ", ",", " , "])
def test_nothing_at_all(text: str) -> None:
    with pytest.raises(UsageError, match=r"--workers is empty; give whole numbers such as 0,1,2,4"):
        parse_ints(text, "--workers")


def test_a_comma_too_many() -> None:
    with pytest.raises(UsageError, match=r"--workers '1,,2' has a comma too many"):
        parse_ints("1,,2", "--workers")


def test_switches() -> None:
    assert parse_switches("off,on", "--pin-memory") == (False, True)
    assert parse_switches("on", "--pin-memory") == (True,)
    with pytest.raises(UsageError) as caught:
        parse_switches("off,yes", "--pin-memory")
    assert str(caught.value) == "--pin-memory takes off, on, separated by commas, and not 'yes'"


def test_start_methods() -> None:
    assert parse_start_methods("spawn,fork", "--start-method") == ("spawn", "fork")
    with pytest.raises(UsageError) as caught:
        parse_start_methods("thread", "--start-method")
    assert str(caught.value) == (
        "--start-method takes fork, forkserver, spawn, separated by commas, and not 'thread'"
    )


def test_a_start_method_that_the_platform_lacks() -> None:
    with pytest.raises(UsageError, match=r"--start-method takes spawn, separated by commas, and"):
        parse_start_methods("fork", "--start-method", available=("spawn",))


def test_loaders() -> None:
    assert parse_loaders("torch, feedrate", "--loaders") == ("torch", "feedrate")
    assert parse_loaders("feedrate,feedrate", "--loaders") == ("feedrate",)
    with pytest.raises(UsageError, match=r"--loaders takes torch, feedrate,"):
        parse_loaders("arena", "--loaders")


def test_every_option_says_what_it_does() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    silent = [
        f"{name} {parameter.opts[-1]}"
        for name, command in commands.items()
        for parameter in command.params
        if not parameter.hidden and not parameter.help
    ]
    assert not silent
