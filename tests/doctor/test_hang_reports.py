"""Stacks of programs that hang."""

from __future__ import annotations

import pytest

from doctor.texts import TEXTS
from feedrate.doctor.explaining import explain_text
from feedrate.doctor.hanging import read_stacks
from feedrate.doctor.log import Line


def stacks(text: str) -> list[list[str]]:
    lines = [Line(number, line) for number, line in enumerate(text.splitlines(), 1)]
    return [stack.names() for stack in read_stacks(lines)]


def test_a_dump_is_read_thread_by_thread() -> None:
    text = (
        "Process 1: python train.py\nPython v3.11.4 (/usr/bin/python3.11)\n\n"
        'Thread 1 (idle): "MainThread"\n    select (selectors.py:415)\n    main (train.py:3)\n'
        'Thread 2 (active+gil): "Thread-1 (_pin_memory_loop)"\n    do_one_step (pin_memory.py:37)\n'
        'Thread (idle): "no number"\n    wait (threading.py:359)\n\n'
        "not a frame (file.py:1)\n"
        "Thread 0x00007f10c0ffee00 [python] (most recent call first):\n"
        '  File "/home/user/train.py", line 3 in main\n'
    )
    assert stacks(text) == [["select", "main"], ["do_one_step"], ["wait"], ["main"]]


@pytest.mark.parametrize("text", ["", "Thread pool of 4 threads\n", 'Thread 1 (idle): "Main"\n'])
def test_what_is_no_dump(text: str) -> None:
    assert stacks(text) == []
    assert explain_text(text) == ()


def test_a_dump_of_something_else_explains_nothing() -> None:
    assert explain_text('Thread 1 (idle): "MainThread"\n    accept (socket.py:3)\n') == ()


def test_the_place_is_the_users_own_line() -> None:
    found = explain_text(TEXTS["hang-in-item"][0])[0]
    assert "a worker stands in __getitem__ (data.py, line 12)" in found.what
    locked = explain_text(TEXTS["hang-after-fork"][2])[0]
    assert (
        "acquire (__init__.py, line 917), called in __getitem__ (data.py, line 12)" in locked.what
    )


def test_a_busy_worker_in_opencv_is_no_deadlock() -> None:
    busy = TEXTS["hang-after-fork"][0].replace("Thread 4713 (idle)", "Thread 4713 (active)")
    assert explain_text(busy)[0].code == "crash.worker_stuck"


def test_a_pinning_main_process_waits_too() -> None:
    text = (
        'Thread (idle): "MainThread"\n    wait (threading.py:359)\n    get (queue.py:180)\n'
        "    _try_get_data (torch/utils/data/dataloader.py:1310)\n"
        "    __next__ (torch/utils/data/dataloader.py:741)\n    main (train.py:3)\n"
    )
    assert explain_text(text)[0].name == "hang-main-waits"


def test_where_it_stood_is_told_beside_the_timeout() -> None:
    text = TEXTS["worker-timeout"][0] + "\n" + TEXTS["hang-in-item"][0]
    found = explain_text(text)
    assert {explanation.code for explanation in found} == {"crash.worker_stuck"}
    assert any("__getitem__ (data.py, line 12)" in explanation.what for explanation in found)
