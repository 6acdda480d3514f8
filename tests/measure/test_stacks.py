"""Stacks as faulthandler prints them, read and told in words. No process is asked here."""

from __future__ import annotations

import signal

import pytest

from feedrate.measure import stacks
from feedrate.measure.stacks import Stacks, answers, read_stack, standing

TORCH = "/env/lib/python3.11/site-packages/torch/utils/data"
PYTHON = "/env/lib/python3.11"


def dump(*frames: tuple[str, int, str]) -> str:
    """Return what a process prints, with another thread before the one that took the signal."""
    lines = [
        "Thread 0x00007f12aaaaaaaa (most recent call first):",
        f'  File "{PYTHON}/threading.py", line 324 in wait',
        f'  File "{PYTHON}/multiprocessing/queues.py", line 231 in _feed',
        "",
        "Current thread 0x00007f12bbbbbbbb (most recent call first):",
        *(f'  File "{file}", line {line} in {name}' for file, line, name in frames),
    ]
    return "\n".join(lines) + "\n"


LOOP = [
    (f"{TORCH}/_utils/worker.py", 349, "_worker_loop"),
    (f"{PYTHON}/multiprocessing/process.py", 108, "run"),
    ("/home/me/subclass.py", 3, "__iter__"),  # forked workers have their parent's stack below
]
FETCH = (f"{TORCH}/_utils/fetch.py", 54, "fetch")
IDLE = dump((f"{PYTHON}/multiprocessing/queues.py", 113, "get"), *LOOP)
WAITS = "Fatal Python error: Aborted\n\n" + dump(
    (f"{PYTHON}/multiprocessing/connection.py", 930, "wait"),
    (f"{TORCH}/dataloader.py", 1310, "_try_get_data"),
    (f"{TORCH}/dataloader.py", 1484, "_get_data"),
    ("/home/me/subclass.py", 3, "__iter__"),
)


def at_work(*frames: tuple[str, int, str]) -> str:
    return dump(*frames, FETCH, *LOOP)


SLEEPS = at_work(("/home/me/photos.py", 7, "read"), ("/home/me/photos.py", 12, "__getitem__"))
DECODES = at_work(
    (f"{PYTHON}/site-packages/PIL/ImageFile.py", 390, "load"),
    ("/home/me/photos.py", 13, "__getitem__"),
)
COLLATES = at_work((f"{TORCH}/_utils/collate.py", 272, "collate_tensor_fn"))


@pytest.mark.parametrize(
    ("workers", "says"),
    [
        ((IDLE, SLEEPS), "a worker stood in read (photos.py, line 7) while"),
        ((DECODES,), "a worker stood in __getitem__ (photos.py, line 13) while"),
        ((COLLATES,), "a worker stood in collate_tensor_fn (collate.py, line 272) while"),
        ((SLEEPS, SLEEPS), "2 workers stood in read (photos.py, line 7) while"),
        (
            (SLEEPS, DECODES, IDLE),
            "2 workers stood in read (photos.py, line 7) and elsewhere while",
        ),
        ((IDLE, IDLE), "the main process waited for a batch, and no worker was at work on one"),
        (("", "noise\n"), "and where its workers stood cannot be seen"),
        # the answers of two came together: whose is whose is not known
        ((SLEEPS + IDLE,), "and where its workers stood cannot be seen"),
    ],
)
def test_where_workers_stood_that_are_waited_for(workers: tuple[str, ...], says: str):
    assert says in standing(Stacks(said="", main=WAITS, workers=workers))


@pytest.mark.parametrize(
    ("main", "says"),
    [
        (
            dump(
                ("/home/me/train.py", 9, "step"), ("/x/feedrate/measure/loop.py", 80, "run_epoch")
            ),
            "the main process stood in step (train.py, line 9)",
        ),
        (
            # without workers the dataset is called from torch's iterator
            dump(("/home/me/photos.py", 7, "read"), (f"{TORCH}/dataloader.py", 9, "_get_data")),
            "the main process stood in read (photos.py, line 7)",
        ),
        (
            dump(
                ("<frozen importlib._bootstrap>", 2, "load"),
                (f"{TORCH}/__init__.py", 5, "<module>"),
            ),
            "the main process stood in <module> (__init__.py, line 5)",
        ),
        ("Killed\n", "the dataset, a worker or the step is stuck"),
    ],
)
def test_where_the_main_process_stood(main: str, says: str):
    assert standing(Stacks(said="", main=main, workers=(SLEEPS,))) == says


def test_whatever_is_printed_beside_a_stack_is_passed_over():
    frames = read_stack(f"loading…\n{SLEEPS}still loading\n  File of no stack\n")
    assert [frame.name for frame in frames[:2]] == ["read", "__getitem__"]
    assert frames[0].line == 7


def test_all_of_it_is_shown_below_the_name_of_its_process():
    whole = Stacks(said="my print\n", main=WAITS, workers=(SLEEPS, "")).whole()
    assert whole.startswith(f"my print\n\nWorker 1 of 2:\n{SLEEPS}")
    assert "Worker 2 of 2:\n(gave no stack)\n\nMain process:\nFatal Python" in whole


def test_a_process_without_a_handler_is_not_asked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stacks, "DUMP_SIGNAL", 59)
    mask = 1 << 58
    assert answers(f"Name:\tpython\nSigCgt:\t{mask:016x}\n")
    assert not answers(f"SigIgn:\t{mask:016x}\nSigCgt:\t{mask >> 1:016x}\n")
    assert not answers("")
    assert not answers(None)
    monkeypatch.setattr(stacks, "DUMP_SIGNAL", None)
    assert not answers(f"SigCgt:\t{mask:016x}\n")


def test_the_signal_is_none_that_programs_use():
    named = {signal.SIGINT, signal.SIGTERM, signal.SIGCHLD}
    assert stacks.DUMP_SIGNAL not in named
