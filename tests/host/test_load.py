from __future__ import annotations

import subprocess
import sys

import pytest

from feedrate.host.files import FakeReader, SystemReader
from feedrate.host.load import CpuClock, parse_busy_ticks, tree_cpu_seconds

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

PROC_STAT = """\
cpu  8169 0 3952 123842 257 0 31 9 0 0
cpu0 774 1 628 66585 102 2 11 9 500 7
cpu1 7394 0 3324 57256 155 0 20 7 0 0
cpu10 1 1 1 1 1 1 1 1 1 1
intr 129318 0 0
ctxt 5
"""


def test_busy_ticks_of_the_usable_cpus() -> None:
    # idle (66585), iowait (102) and guest time (500, 7: already in user and nice) are left out
    assert parse_busy_ticks(PROC_STAT, {0}) == 774 + 1 + 628 + 2 + 11 + 9
    assert parse_busy_ticks(PROC_STAT, {1, 10}) == 7394 + 3324 + 20 + 7 + 6


def test_no_answer_for_a_cpu_that_is_not_listed() -> None:
    assert parse_busy_ticks(PROC_STAT, {0, 2}) is None
    assert parse_busy_ticks(PROC_STAT, ()) is None
    assert parse_busy_ticks("", {0}) is None


def test_clock_in_seconds() -> None:
    reader = FakeReader({"/proc/stat": PROC_STAT})
    assert CpuClock(reader, cpus=(0,), ticks_per_second=100).busy_seconds() == 14.25
    assert CpuClock(FakeReader({}), cpus=(0,), ticks_per_second=100).busy_seconds() is None


def test_seconds_of_a_tree_count_ended_children() -> None:
    main, worker, zombie = 5_000_001, 5_000_002, 5_000_003

    def stat(state: str, ticks: str) -> str:
        return f"7 (python) {state} 1 7 7 0 -1 4194304 9 0 0 0 {ticks} 20 0 1 0"

    reader = FakeReader(
        {
            f"/proc/{main}/stat": stat("S", "100 20 3000 400"),
            f"/proc/{main}/task/{main}/children": f"{worker} {zombie} ",
            f"/proc/{worker}/stat": stat("R", "50 5 0 0"),
            f"/proc/{worker}/task/{worker}/children": "",
            f"/proc/{zombie}/stat": stat("Z", "7 0 0 0"),
        }
    )
    assert tree_cpu_seconds(reader, main, ticks_per_second=100) == 35.82
    assert tree_cpu_seconds(reader, 5_000_009, ticks_per_second=100) is None


@linux
def test_this_machine_counts_the_work_of_a_child_before_and_after_it_ended() -> None:
    reader = SystemReader()
    clock = CpuClock(reader)
    busy = clock.busy_seconds()
    # The child works until it has itself taken 0.2 s of CPU time, however busy the machine is.
    program = (
        "import sys, time\n"
        "while time.process_time() < 0.2: pass\n"
        "print('done', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-S", "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "done\n"
        running = tree_cpu_seconds(reader, child.pid)
        child.communicate("")
    after = clock.busy_seconds()
    assert running is not None
    assert busy is not None
    assert after is not None
    # Each figure is rounded down to a tick of 10 ms, user and system time apart.
    assert running >= 0.2 - 2 * 0.01
    assert after - busy >= 0.2 - 0.05
