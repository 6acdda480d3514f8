"""Stacks of a program that hangs: what py-spy and faulthandler print, and what it means."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from feedrate.doctor.entry import Entry
from feedrate.doctor.log import Line, read_frame
from feedrate.doctor.messages import seen
from feedrate.measure.blame import Frame, is_own

_THREAD = re.compile(
    r"^\s*Thread(?: (?:0x[0-9a-fA-F]+|\d+))?(?:/\d+)?(?: \[[^\]]*\])?(?: \((?P<state>[^)]*)\))?"
    r'(?:: "(?P<name>[^"]*)")?:?\s*$'
    r"|^\s*(?:Current thread|Thread) 0x[0-9a-f]+.*\(most recent call first\):$"
)
_SPY_FRAME = re.compile(r"^\s+(?P<name>\S.*?) \((?P<file>[^():]+)(?::(?P<line>\d+))?\)$")
_LOADER_LOOP = "_worker_loop"
_WAITS_FOR_BATCH = ("_try_get_data", "_get_data")
_WAITS_FOR_WORK = {
    "select", "wait", "_poll", "poll", "get", "recv_bytes", "_recv_bytes", "_recv", "recv",
    "__enter__", "acquire",
}  # fmt: skip
_STARTS = ("_launch", "Popen", "_Popen", "fork_exec", "spawnv_passfds", "ensure_running", "start")
_LOCKS = re.compile(
    r"^(?:acquire|_acquireLock|_wait_for_tstate_lock|__lll_lock_wait\w*|__GI___lll_lock_wait|"
    r"pthread_mutex_lock|___pthread_mutex_lock|futex_wait\w*|do_futex_wait\w*|sem_wait\w*|"
    r"pthread_cond_wait\w*|__cxa_guard_acquire|__cxa_atexit)\b"
)
_POOLS = re.compile(
    r"libgomp|libiomp|libomp|gomp_|__kmp|\bkmp_|omp_fork|cv2|opencv|libtbb|GOMP_|mkl_",
    re.IGNORECASE,
)
_PACKAGES = {
    "torch", "torchvision", "numpy", "PIL", "cv2", "h5py", "lmdb", "lightning", "accelerate",
    "pytorch_lightning", "transformers", "datasets", "tqdm", "pandas",
}  # fmt: skip
"""py-spy cuts a path down to what was imported: which of these are not the user's own."""
_OWN_QUEUES = re.compile(
    r"multiprocessing[/\\](?:queues|connection|synchronize|resource_sharer)\.py"
)


@dataclass(frozen=True, slots=True)
class Stack:
    """One thread as it stood: its frames from the innermost outwards."""

    frames: tuple[Frame, ...]
    active: bool = False
    first_line: int = 0

    def names(self) -> list[str]:
        """Return the functions, from the innermost outwards."""
        return [frame.name for frame in self.frames]

    @property
    def of_worker(self) -> bool:
        """Tell whether it is a worker's own thread."""
        return _LOADER_LOOP in self.names()

    def inner(self) -> tuple[Frame, ...]:
        """Return what a worker's thread does inside torch's loop over its work."""
        names = self.names()
        return self.frames[: names.index(_LOADER_LOOP)] if _LOADER_LOOP in names else self.frames


def read_stacks(lines: Sequence[Line]) -> tuple[Stack, ...]:
    """Return the stacks in a dump; none where the text has no dump."""
    stacks: list[Stack] = []
    frames: list[Frame] = []
    active, first, inside = False, 0, False

    def close() -> None:
        if inside and frames:
            stacks.append(Stack(tuple(frames), active, first))
        frames.clear()

    for line in lines:
        if found := _THREAD.match(line.text):
            close()
            inside, first = True, line.number
            active = "active" in (found["state"] or "")
        elif inside and (frame := _frame(line.text)):
            frames.append(frame)
        elif inside and not line.text.strip():
            close()
            inside = False
    close()
    return tuple(stacks)


def _frame(text: str) -> Frame | None:
    if found := _SPY_FRAME.match(text):
        return Frame(found["file"], int(found["line"] or 0), found["name"], "")
    if faulthandlers := re.match(r'^\s*File "(.*)", line (\d+) in (.+)$', text):
        return Frame(faulthandlers[1], int(faulthandlers[2]), faulthandlers[3], "")
    if known := read_frame(text):
        return Frame(known[0], known[1], known[2], "")
    return None


def judge(stacks: Sequence[Stack]) -> tuple[Entry, str, int] | None:
    """Return what a dump shows, the place that it names, and the line where that stack begins.

    ``None`` where no stack has to do with a loader.
    """
    workers = [stack for stack in stacks if stack.of_worker]
    waiting = [stack for stack in stacks if _waits_for_batch(stack)]
    for stack in stacks:
        if _starts_worker(stack):
            return seen.START_HANG, _place(stack.frames), stack.first_line
    for stack in workers:
        if place := _stuck_after_fork(stack):
            return seen.FORK_DEADLOCK, place, stack.first_line
    at_work = [stack for stack in workers if not _waits_for_work(stack)]
    if at_work:
        return seen.STUCK, _place(at_work[0].inner()), at_work[0].first_line
    if waiting and workers:
        return seen.LOST, "", waiting[0].first_line
    if waiting:
        return seen.WAITING, "", waiting[0].first_line
    return None


def _waits_for_batch(stack: Stack) -> bool:
    names = stack.names()
    places = [names.index(name) for name in _WAITS_FOR_BATCH if name in names]
    return bool(places) and not any(_is_own(frame) for frame in stack.frames[: min(places)])


def _is_own(frame: Frame) -> bool:
    if not is_own(frame) or not frame.file.endswith(".py"):
        return False
    top = re.split(r"[/\\]", frame.file)[0].removesuffix(".py")
    return top not in _PACKAGES and top not in sys.stdlib_module_names


def _waits_for_work(stack: Stack) -> bool:
    """Tell whether a worker has nothing to do: it waits in its queue, or hands a batch over."""
    inner = stack.inner()
    return all(frame.name.split(" ")[0] in _WAITS_FOR_WORK for frame in inner) and all(
        _OWN_QUEUES.search(frame.file)
        or frame.file.endswith(("selectors.py", ".so"))
        or not frame.file.endswith(".py")
        for frame in inner
    )


def _stuck_after_fork(stack: Stack) -> str:
    """Return the place where a worker waits for a lock or a thread pool, "" if it does not."""
    inner = stack.inner()
    if not inner or stack.active or _waits_for_work(stack):
        return ""
    compiled = [frame for frame in inner if not frame.file.endswith(".py")]
    pool = next((frame for frame in compiled if _POOLS.search(f"{frame.file} {frame.name}")), None)
    if pool is not None:
        return _named(pool, inner)
    innermost = inner[0]
    if _LOCKS.match(innermost.name) and not _OWN_QUEUES.search(innermost.file):
        return _named(innermost, inner)
    return ""


def _starts_worker(stack: Stack) -> bool:
    names = stack.names()
    if stack.of_worker:
        return False
    in_torch = any("dataloader.py" in frame.file for frame in stack.frames)
    started = any(name in _STARTS for name in names) and any(
        re.search(r"popen_|forkserver|multiprocessing[/\\](?:process|context)\.py", frame.file)
        for frame in stack.frames
    )
    child = "spawn_main" in names and any(
        name in ("prepare", "_fixup_main_from_path", "_main") for name in names
    )
    return (in_torch and started) or (child and "_bootstrap" not in names)


def _named(frame: Frame, inner: Sequence[Frame]) -> str:
    own = next(filter(_is_own, inner), None)
    name = f"{frame.name} ({_short(frame)})"
    return name if own is None or own is frame else f"{name}, called in {own.name} ({_short(own)})"


def _place(frames: Sequence[Frame]) -> str:
    files = [frame for frame in frames if frame.file.endswith(".py")] or list(frames)
    frame = next(filter(_is_own, files), files[0])
    return f"{frame.name} ({_short(frame)})"


def _short(frame: Frame) -> str:
    name = re.split(r"[/\\]", frame.file)[-1]
    return f"{name}, line {frame.line}" if frame.line else name
