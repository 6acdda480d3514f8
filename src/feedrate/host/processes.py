"""Which processes belong to a run: the main process's descendants, and which are its workers."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import PurePath

import psutil

from feedrate.host.files import ProcReader

_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver", "torch_shm_manager")
_STARTED = ("multiprocessing.spawn", "multiprocessing.forkserver")
"""What is in the command lines of workers that were not forked from the main process."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process as it was listed; ``command`` is its command line, its arguments joined by spaces.

    ``command`` is empty where it may not be read.
    """

    pid: int
    parent: int
    command: str


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """The fields of ``/proc/PID/stat`` that are needed.

    ``ticks`` is the CPU time of all its threads and of the children it has waited for, ``faults``
    how many pages it has touched or copied anew.
    """

    state: str
    ticks: int
    faults: int

    @property
    def alive(self) -> bool:
        """False for a zombie: it has ended, and its memory is given back."""
        return self.state not in "ZXx"


def parse_stat(text: str) -> ProcessStat | None:
    """Return the state and CPU ticks of a ``/proc/PID/stat`` text; ``None`` where it is cut off."""
    # The name, in brackets, may hold spaces and brackets of its own.
    fields = text.rpartition(")")[2].split()
    times = fields[11:15]  # utime, stime, cutime, cstime; see proc_pid_stat(5)
    if len(times) < 4:
        return None
    try:
        return ProcessStat(
            state=fields[0],
            ticks=sum(int(field) for field in times),
            faults=int(fields[7]),  # minflt
        )
    except ValueError:
        return None


def select_workers(main: Process, descendants: Iterable[Process]) -> tuple[int, ...]:
    """Return the pids of the workers among the main process's descendants.

    All are workers except multiprocessing's resource tracker and fork server and torch's manager
    of shared memory. A process that was forked without starting another program has its parent's
    command line: so do the workers that the fork server made, which are workers all the same.
    """
    listed = tuple(descendants)
    commands = {process.pid: process.command for process in (main, *listed)}
    return tuple(
        process.pid
        for process in listed
        if process.command == commands.get(process.parent)
        or not any(helper in process.command for helper in _HELPERS)
    )


def list_descendants(reader: ProcReader, pid: int) -> list[tuple[int, int]]:
    """Return (pid, parent's pid) of every descendant, zombies too.

    One that starts or ends meanwhile may be missing.

    ``/proc/PID/task/*/children`` names them without a look at every process of the machine; where
    the kernel or the platform has no such file, psutil finds them.
    """
    children = _children(reader, pid)
    if children is None:
        return _psutil_descendants(pid)
    found: dict[int, int] = {}
    waiting = [(child, pid) for child in children]
    while waiting:
        child, parent = waiting.pop(0)
        if child not in found and child != pid:
            found[child] = parent
            waiting += [(grandchild, child) for grandchild in _children(reader, child) or ()]
    return list(found.items())


def find_workers(
    reader: ProcReader, pid: int, known: Collection[int] = frozenset()
) -> tuple[int, ...]:
    """Return the pids of the main process's living workers, in the order of discovery.

    Those that are ``known`` to be workers are taken to be alive, and nothing is read of them.
    """
    listed = list_descendants(reader, pid)
    if all(child in known for child, _ in listed):
        return tuple(child for child, _ in listed)
    descendants = [
        Process(child, parent, _command(reader, child))
        for child, parent in listed
        if is_alive(reader, child)
    ]
    return (
        select_workers(Process(pid, 0, _command(reader, pid)), descendants) if descendants else ()
    )


def program_of(reader: ProcReader, pid: int, main: int) -> str | None:
    """Return the name of the program that a descendant runs; ``None`` if it may be a worker.

    A worker has the main process's command line, or one of multiprocessing's: that of `wandb` or of
    torch.compile's pool is another. What may not be read may be a worker.
    """
    command = _command(reader, pid)
    if not command or command == _command(reader, main):
        return None
    return None if any(each in command for each in _STARTED) else parse_program(command)


def parse_program(command: str) -> str:
    """Return a short name for what a command line starts: of Python the script or the module."""
    words = command.split() or ["?"]
    name = PurePath(words[0]).name
    if not name.startswith("python"):
        return name
    for word, following in itertools.pairwise([*words[1:], ""]):
        if word == "-m" and following:
            return following
        if word == "-c":
            break
        if not word.startswith("-"):
            script = PurePath(word)
            return script.parent.name if script.stem == "__main__" else script.name
    return name


def is_alive(reader: ProcReader, pid: int) -> bool:
    """Whether the process runs: neither gone nor a zombie."""
    text = reader.read(f"/proc/{pid}/stat")
    if text is not None:
        stat = parse_stat(text)
        return stat is not None and stat.alive
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _children(reader: ProcReader, pid: int) -> list[int] | None:
    tasks = reader.listdir(f"/proc/{pid}/task")
    if tasks is None:
        return None
    texts = [reader.read(f"/proc/{pid}/task/{task}/children") for task in tasks]
    if all(text is None for text in texts):
        return None
    return [int(child) for text in texts if text for child in text.split()]


def _command(reader: ProcReader, pid: int) -> str:
    text = reader.read(f"/proc/{pid}/cmdline")
    if text is not None:
        return text.rstrip("\0").replace("\0", " ")
    try:
        return " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return ""


def _psutil_descendants(pid: int) -> list[tuple[int, int]]:
    try:
        children = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []
    parents = ((child.pid, _psutil_parent(child)) for child in children)
    return [(child, parent) for child, parent in parents if parent is not None]


def _psutil_parent(process: psutil.Process) -> int | None:
    try:
        return process.ppid()
    except psutil.Error:
        return None
