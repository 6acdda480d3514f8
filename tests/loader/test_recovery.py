"""Decisions after a death, and the words for it."""

from __future__ import annotations

import signal

import pytest

from feedrate.loader.recovery import (
    MOST_ATTEMPTS,
    Death,
    decide,
    give_up_message,
    torch_message,
)


def death(exit_code: int | None = -9, **changes: object) -> Death:
    fields: dict[str, object] = {
        "worker": 1,
        "pid": 4321,
        "exit_code": exit_code,
        "memory_kills": 0,
        "batch": 7,
        "indices": [56, 57],
        "attempts": 1,
    }
    return Death(**(fields | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "others", "action"),
    [
        (death(), 3, "replace"),
        (death(memory_kills=1), 3, "shrink"),
        (death(memory_kills=1), 0, "replace"),
        (death(-11, memory_kills=1), 3, "replace"),  # the kernel kills with SIGKILL
        (death(attempts=MOST_ATTEMPTS), 3, "give_up"),
        (death(batch=None, attempts=MOST_ATTEMPTS), 3, "replace"),  # it died of no batch
        (death(1), 3, "replace"),
        (death(None), 3, "replace"),
    ],
)
def test_decisions(found: Death, others: int, action: str) -> None:
    assert decide(found, others=others) == action


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (death(memory_kills=2), "killed by the kernel, which had run out of memory"),
        (death(-11), "killed by SIGSEGV"),
        (death(3), "ended with exit code 3"),
        (death(-199), "killed by signal 199"),
        (death(None), "gone for an unknown reason"),
    ],
)
def test_words(found: Death, words: str) -> None:
    assert found.words == words


def test_torchs_own_words_are_kept() -> None:
    assert torch_message(death(-9)).startswith(
        "DataLoader worker (pid 4321) is killed by signal: Killed."
    )
    assert "shared memory" in torch_message(death(-int(signal.SIGBUS)))
    assert torch_message(death(1)) == "DataLoader worker (pid(s) 4321) exited unexpectedly"


def test_giving_up_names_the_cause_and_the_indices() -> None:
    text = give_up_message(death(-11, attempts=5))
    assert "SIGSEGV" in text
    assert "[56, 57]" in text
    assert "256 in all" in give_up_message(death(indices=range(256)))
    assert "5" in give_up_message(death(indices=5))
