from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from feedrate.host import processes
from feedrate.host.files import FakeReader, SystemReader
from feedrate.host.processes import (
    Process,
    ProcessStat,
    find_workers,
    is_alive,
    list_descendants,
    parse_program,
    parse_stat,
    program_of,
    select_workers,
)

TRAIN = "python train.py"
SERVER = "python -c from multiprocessing.forkserver import main; main(5, 7, ['__main__'])"
TRACKER = "python -c from multiprocessing.resource_tracker import main;main(5)"
SPAWNED = "python -c from multiprocessing.spawn import spawn_main; spawn_main(...)"
MANAGER = "/lib/torch/bin/torch_shm_manager"

# Above any Linux pid, so that no fallback finds a process of this machine.
A, B, C, D, E = range(5_000_001, 5_000_006)


def stat(state: str = "S", ticks: tuple[int, ...] = (0, 0, 0, 0), name: str = "python") -> str:
    return f"7 ({name}) {state} 1 7 7 0 -1 4194304 9 0 0 0 {' '.join(map(str, ticks))} 20 0 1 0"


def process(pid: int, children: str = "", state: str = "S", command: str = TRAIN) -> dict[str, str]:
    return {
        f"/proc/{pid}/stat": stat(state),
        f"/proc/{pid}/cmdline": command.replace(" ", "\0") + "\0",
        f"/proc/{pid}/task/{pid}/children": children,
    }


def test_stat_with_a_name_full_of_brackets() -> None:
    assert parse_stat(stat("R", (5, 3, 100, 7), ") S (x y")) == ProcessStat("R", 115, 9)


@pytest.mark.parametrize("text", ["", "7 (python)", "7 (python) S 1 7", stat().replace(" 0", " x")])
def test_stat_that_is_cut_off(text: str) -> None:
    assert parse_stat(text) is None


@pytest.mark.parametrize(("state", "alive"), [("S", True), ("D", True), ("Z", False), ("X", False)])
def test_zombies_are_not_alive(state: str, alive: bool) -> None:
    assert ProcessStat(state, 0, 0).alive is alive
    assert is_alive(FakeReader(process(A, state=state)), A) is alive


def test_forked_and_spawned_workers() -> None:
    listed = [Process(B, A, TRAIN), Process(C, A, SPAWNED), Process(D, B, "ffmpeg -i x")]
    assert select_workers(Process(A, 1, TRAIN), listed) == (B, C, D)


def test_helpers_are_no_workers() -> None:
    listed = [Process(B, A, TRACKER), Process(C, A, MANAGER), Process(D, A, SERVER)]
    assert select_workers(Process(A, 1, TRAIN), listed) == ()


def test_workers_of_the_fork_server_carry_its_command_line() -> None:
    listed = [Process(B, A, SERVER), Process(C, B, SERVER), Process(D, B, SERVER)]
    assert select_workers(Process(A, 1, TRAIN), listed) == (C, D)


@pytest.mark.parametrize("command", [TRAIN, SPAWNED, SERVER])
def test_what_may_be_a_worker_is_no_other_program(command: str) -> None:
    reader = FakeReader(process(A, f"{B} ") | process(B, command=command))
    assert program_of(reader, B, A) is None


def test_a_command_line_that_may_not_be_read_may_be_a_workers() -> None:
    assert program_of(FakeReader(process(A)), B, A) is None


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("/usr/bin/ffmpeg -i x.mp4", "ffmpeg"),
        ("wandb-core --port-filename /tmp/x --pid 7", "wandb-core"),
        ("/env/bin/python /torch/_inductor/compile_worker/__main__.py --pool", "compile_worker"),
        ("/env/bin/python3.11 -u /work/serve.py --port 1", "serve.py"),
        ("python -m tensorboard.main --logdir .", "tensorboard.main"),
        ("python -c import_time", "python"),
        ("python", "python"),
    ],
)
def test_other_programs_have_a_short_name(command: str, name: str) -> None:
    assert parse_program(command) == name
    reader = FakeReader(process(A, f"{B} ") | process(B, command=command))
    assert program_of(reader, B, A) == name


def test_a_blank_command_line_is_no_name() -> None:
    assert parse_program(" ") == "?"


def test_descendants_through_every_thread() -> None:
    files = process(A, f"{B} ") | process(B, f"{D} ") | process(C) | process(D)
    files[f"/proc/{A}/task/{E}/children"] = f"{C} "
    assert sorted(list_descendants(FakeReader(files), A)) == [(B, A), (C, A), (D, B)]


def test_a_child_that_has_gone_is_listed_and_then_dropped() -> None:
    reader = FakeReader(process(A, f"{B} {C} {D} ") | process(B) | process(D, state="Z"))
    assert [pid for pid, _ in list_descendants(reader, A)] == [B, C, D]
    assert find_workers(reader, A) == (B,)


def test_no_children_and_no_main_process() -> None:
    assert find_workers(FakeReader(process(A)), A) == ()
    assert find_workers(FakeReader({}), A) == ()


PROGRAM = """\
import multiprocessing, os, sys

def work(ready, stop):
    ready.put(os.getpid())
    stop.get()

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    ready, stop = context.Queue(), context.Queue()
    workers = [context.Process(target=work, args=(ready, stop)) for _ in range(2)]
    for worker in workers:
        worker.start()
    print(*[ready.get() for _ in workers], flush=True)
    sys.stdin.readline()
    for worker in workers:
        stop.put(0)
    for worker in workers:
        worker.join()
    print("ended", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_real_workers_of_each_start_method(method: str, tmp_path: Path) -> None:
    """The trackers and the fork server that some methods start go on living: no workers."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    # An empty reader stands for a platform without /proc: psutil must give the same answer.
    readers = [SystemReader(), FakeReader({})]
    with subprocess.Popen(
        [sys.executable, str(program), method],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as main:
        assert main.stdin is not None
        assert main.stdout is not None
        started = {int(pid) for pid in main.stdout.readline().split()}
        assert len(started) == 2
        assert [set(find_workers(reader, main.pid)) for reader in readers] == [started] * 2
        main.stdin.write("\n")
        main.stdin.flush()
        assert main.stdout.readline() == "ended\n"
        assert [find_workers(reader, main.pid) for reader in readers] == [(), ()]
        main.communicate("\n")
    assert main.returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_an_ended_child_that_is_not_waited_for_is_no_worker() -> None:
    reader = SystemReader()
    with subprocess.Popen([sys.executable, "-S", "-c", ""]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert (child.pid, os.getpid()) in list_descendants(reader, os.getpid())
        assert not is_alive(reader, child.pid)
        assert child.pid not in find_workers(reader, os.getpid())


def test_a_child_that_psutil_lists_and_then_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(psutil.Process):
        def __init__(self) -> None:
            self._pid = B

        def ppid(self) -> int:
            raise psutil.NoSuchProcess(B)

    class Main:
        def __init__(self, pid: int) -> None: ...

        def children(self, recursive: bool) -> list[psutil.Process]:
            return [Gone()]

    monkeypatch.setattr(processes.psutil, "Process", Main)
    assert list_descendants(FakeReader({}), A) == []
