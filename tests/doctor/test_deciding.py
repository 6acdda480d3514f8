"""One text has several causes: exit codes, descriptors, kills and pending batches decide."""

from __future__ import annotations

import pytest

from doctor.hosts import make_host
from doctor.texts import TEXTS
from feedrate.doctor.explaining import explain_text
from feedrate.doctor.facts import Facts, Pending, ProgramFacts
from feedrate.host.limits import MemoryLimits, ShmSpace

GONE = TEXTS["worker-exited"][0]


def told(text: str, **program: object) -> tuple[str, str, str]:
    """Return the first explanation's code, sentence and figures, given what is known."""
    facts = Facts(make_host(), ProgramFacts(**program))  # type: ignore[arg-type]
    first = explain_text(text, facts)[0]
    return first.code, first.what, first.machine


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (-9, "crash.worker_sigkill"),
        (-7, "crash.shm_exhausted"),
        (-11, "crash.worker_segfault"),
        (-6, "crash.worker_abort"),
        (-15, "crash.worker_terminated"),
        (137, "crash.worker_sigkill"),
        (139, "crash.worker_segfault"),
        (3, "crash.worker_exit"),
        (0, "crash.worker_exit"),
    ],
)
def test_an_exit_code_says_how_a_worker_ended(code: int, expected: str) -> None:
    assert told(GONE, exit_codes=(code,))[0] == expected


def test_an_exit_code_of_a_worker_that_is_told_by_the_text() -> None:
    text = TEXTS["worker-exit-code"][0].replace("exit code 1", "exit code 137")
    assert told(text)[0] == "crash.worker_sigkill"
    assert "exit code 3" in told(GONE, exit_codes=(3,))[1]


def test_a_connection_that_broke_for_want_of_descriptors() -> None:
    text = TEXTS["worker-gone"][4]
    assert told(text, descriptors=1020)[0] == "crash.too_many_files"
    assert told(text, descriptors=100)[0] == "crash.worker_gone"
    assert "the program had 100 open" in told(text, descriptors=100)[2]


def test_what_was_pending_is_named() -> None:
    pending = (Pending(worker=1, batch=5, indices=(20, 21, 22, 23)),)
    what = told(TEXTS["worker-timeout"][0], pending=pending)[1]
    assert what.endswith("the oldest batch still missing is batch 5 of worker 1 (items 20 to 23)")
    scattered = (Pending(worker=0, batch=2, indices=tuple(range(0, 40, 3))),)
    assert (
        "(items 0, 3, 6, 9, 12, 15, 18, 21, …)"
        in told(TEXTS["worker-segfault"][0], pending=scattered)[1]
    )
    assert "batch" not in told(TEXTS["shm-full"][0], pending=pending)[1].partition(";")[2]


@pytest.mark.parametrize(
    ("kills", "says"),
    [
        (2, "the kernel killed 2 processes for memory while it ran"),
        (1, "the kernel killed 1 process for memory while it ran"),
        (0, "somebody else ended it"),
    ],
)
def test_memory_kills_tell_who_killed(kills: int, says: str) -> None:
    assert says in told(TEXTS["worker-killed"][0], memory_kills=kills)[2]


@pytest.mark.parametrize(
    ("total", "free", "says"),
    [
        (64 << 20, 60 << 20, "/dev/shm has 64.0 MiB, 60.0 MiB of it free now, which is little"),
        (8 << 30, 8 << 20, "something fills it"),
        (8 << 30, 7 << 30, "which is room enough"),
    ],
)
def test_what_shared_memory_says(total: int, free: int, says: str) -> None:
    host = make_host(shm=ShmSpace(total, free))
    found = explain_text(TEXTS["worker-bus-error"][0], Facts(host))[0]
    assert says in found.machine
    assert [item.value for item in found.evidence] == [total, free]


def test_every_entry_can_be_told_on_every_platform() -> None:
    bare = make_host(
        shm=None, memory_kills=None, descriptors=None, processes=None, maps=None,
        torch_version=None, memory=MemoryLimits(8 << 30, 4 << 30, 6 << 30, 3 << 30, 3 << 30,
                                                "cgroup limit"),
    )  # fmt: skip
    for host in (bare, make_host()):
        for texts in TEXTS.values():
            found = explain_text(texts[0], Facts(host))[0]
            assert bool(found.machine) >= bool(found.evidence)
            assert "None" not in found.machine
            assert found.finding().title == found.what


def test_a_limit_that_can_be_raised_is_told() -> None:
    assert (
        "ulimit -n is 1,024 here, and can be raised up to 4,096"
        in told(TEXTS["descriptors-of-process"][0])[2]
    )
