"""From an exception or an exit status to one sentence with the way out.

The child describes what it catches; the parent describes how a child ended, and knows what the
child cannot: whether the kernel killed for memory.
"""

from __future__ import annotations

import re
import signal
import traceback
from collections.abc import Sequence
from types import TracebackType

import msgspec

from feedrate.errors import FeedrateError, TargetError
from feedrate.records import ErrorKind, LoaderFacts, RunError

_WORKER_KILLED = re.compile(r"worker \(pid (\d+)\) is killed by signal: ([A-Za-z ]+?)\.")
_WORKER_GONE = re.compile(r"worker \(pid\(s\) ([\d, ]+)\) exited unexpectedly")
_TIMED_OUT = re.compile(r"DataLoader timed out after ([\d.]+) seconds")
_CAUGHT = re.compile(r"Caught (\w+) in (DataLoader worker process \d+|pin memory thread)")
_TRANSPORT = ("in rebuild_storage", "resource_sharer.py")
"""What a traceback shows when a tensor is fetched from a worker that has ended."""
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_LIBRARY = re.compile(
    r"site-packages|dist-packages|[/\\]lib[/\\]python3|<frozen|feedrate[/\\]measure"
)

_WAYS_OUT: tuple[tuple[str, str], ...] = (
    ("NoneType", "an item is None: does __getitem__ return its value?"),
    (
        "stack expects each tensor to be equal size",
        "give items one size, or a collate_fn that pads",
    ),
    ("has no len()", "give the dataset a __len__, or make it an IterableDataset"),
    ("num_samples should be a positive integer", "the dataset is empty: check its path or filter"),
    ("Can't pickle", "define it at module level, or use --start-method fork"),
    ("cannot pickle", "open it in the worker instead of in __init__, or use --start-method fork"),
    ("Can't get local object", "define it at module level, or use --start-method fork"),
    ("An attempt has been made to start a new process before", "guard it with if __name__"),
    ("Too many open files", "raise ulimit -n, or close files after each item"),
    ("CUDA out of memory", "lower the batch size"),
    (
        "Cannot re-initialize CUDA in forked",
        "use --start-method spawn, or CPU tensors in the dataset",
    ),
    ("No module named 'feedrate_target", "another module has the file's name: rename the file"),
    ("attempted relative import", "name the target package.module:name instead of by its file"),
)
_SHARED_MEMORY = (
    "it ran out of shared memory: use fewer workers, a smaller prefetch_factor or batch, "
    "or enlarge /dev/shm (docker run --shm-size)"
)


def describe_exception(
    error: BaseException, *, setting_up: bool, facts: LoaderFacts | None = None
) -> RunError:
    """Return what an exception in the child means for its run."""
    text = str(error)
    whole = "".join(traceback.format_exception(error))
    if isinstance(error, FeedrateError):
        kind: ErrorKind = "target" if isinstance(error, TargetError) else "exception"
        return RunError(kind=kind, sentence=text)
    if isinstance(error, SystemExit):
        return RunError(
            kind="target" if setting_up else "exited",
            sentence=f"the target called sys.exit({error.code!r}) "
            + ("before it returned a loader" if setting_up else "while it was measured"),
            traceback=whole,
        )
    if found := _describe_torch_error(text, whole):
        return found
    if isinstance(error, ConnectionError | EOFError | FileNotFoundError) and any(
        place in whole for place in _TRANSPORT
    ):
        return RunError(
            kind="worker_died",
            sentence="a worker was gone before its batch was taken over",
            traceback=whole,
        )
    root = _root_cause(error, text)
    where = _where(error, text)
    who = "importing the target or calling its factory" if setting_up else "the dataset or step"
    if caught := _CAUGHT.search(text):
        who = f"the {caught[2]}" if caught[2].startswith("pin") else "the dataset"
    way_out = next((hint for mark, hint in _WAYS_OUT if mark in text), "")
    if not way_out and facts is not None and facts.start_method in ("spawn", "forkserver"):
        way_out = "" if caught else "try --start-method fork to see whether starting workers fails"
    sentence = f"{who} raised {root}{where}" + (f": {way_out}" if way_out else "")
    return RunError(
        kind="target" if setting_up else "exception", sentence=sentence, traceback=whole
    )


def _describe_torch_error(text: str, whole: str) -> RunError | None:
    """Recognize what torch says when a worker is gone or silent."""
    if killed := _WORKER_KILLED.search(text):
        name = killed[2]
        if name == "Bus error":
            return RunError(
                kind="shared_memory",
                sentence=f"a worker was killed by a bus error; {_SHARED_MEMORY}",
                traceback=whole,
            )
        return RunError(
            kind="killed" if name == "Killed" else "worker_died",
            sentence=f"a worker died (signal: {name})",
            traceback=whole,
        )
    if "No space left on device" in text and ("torch_" in text or "shared memory" in text):
        return RunError(
            kind="shared_memory",
            sentence=f"moving a batch failed; {_SHARED_MEMORY}",
            traceback=whole,
        )
    if _WORKER_GONE.search(text):
        return RunError(
            kind="worker_died",
            sentence="a worker exited unexpectedly: it called exit(), crashed or was killed",
            traceback=whole,
        )
    if waited := _TIMED_OUT.search(text):
        return RunError(
            kind="timeout",
            sentence=f"the loader's own timeout of {waited[1]} s passed without a batch: a worker "
            "is stuck, or items take longer",
            traceback=whole,
        )
    return None


def _root_cause(error: BaseException, text: str) -> str:
    """Return type and first line of the innermost error, also from a worker's printed one."""
    if _CAUGHT.search(text):
        for line in reversed(text.rstrip().splitlines()):
            if re.match(
                r"[A-Za-z_][\w.]*(Error|Exception|Warning|Exit|Interrupt|Iteration)?\b", line
            ):
                return _shorten(line)
    first = text.strip().splitlines()[0] if text.strip() else ""
    name = type(error).__name__
    return _shorten(f"{name}: {first}" if first else name)


def _shorten(line: str, limit: int = 200) -> str:
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _where(error: BaseException, text: str) -> str:
    """Return the user's own innermost line, from the worker's traceback where there is one."""
    if _CAUGHT.search(text):
        frames = [(file, int(line), name) for file, line, name in _FRAME.findall(text)]
    else:
        frames = _frames_of(error.__traceback__)
    own = [frame for frame in frames if not _LIBRARY.search(frame[0])]
    if not own:
        return ""
    file, line, name = own[-1]
    short = re.split(r"[/\\]", file)[-1]
    return f" ({short}, line {line}, in {name})"


def _frames_of(trace: TracebackType | None) -> list[tuple[str, int, str]]:
    return [
        (frame.filename, frame.lineno or 0, frame.name) for frame in traceback.extract_tb(trace)
    ]


def describe_no_batches(facts: LoaderFacts) -> RunError:
    """Return why a loader delivered nothing, from what it is."""
    if facts.iterable:
        reason = "its IterableDataset yielded nothing: check its source and its shards"
    elif facts.dataset_length == 0:
        reason = "its dataset is empty (len() is 0): check its path or filter"
    elif facts.length == 0 and facts.batch_size and facts.dataset_length:
        reason = (
            f"its dataset has {facts.dataset_length} items, fewer than one batch of "
            f"{facts.batch_size}, and drop_last is on: lower batch_size or turn drop_last off"
        )
    else:
        reason = "its sampler yielded nothing: check the sampler"
    return RunError(kind="no_batches", sentence=f"the loader delivered no batch: {reason}")


def describe_end(exit_code: int, output: str) -> RunError | None:
    """Return what a child's exit status means that sent no last word; ``None`` for 0.

    ``exit_code`` is negative for a signal, as in `subprocess`.
    """
    if exit_code == 0:
        return RunError(
            kind="exited",
            sentence="the target ended the process before it was measured (os._exit?)",
            traceback=output,
            exit_code=0,
        )
    if exit_code > 0:
        return RunError(
            kind="exited",
            sentence=f"the measuring process ended with exit code {exit_code}",
            traceback=output,
            exit_code=exit_code,
        )
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = f"signal {-exit_code}"
    if name == "SIGKILL":
        sentence = "the main process was killed (SIGKILL)"
    elif name == "SIGBUS":
        sentence = f"the main process got a bus error; {_SHARED_MEMORY}"
    else:
        sentence = f"the main process crashed ({name}) in native code; -v shows where"
    kind: ErrorKind = {"SIGKILL": "killed", "SIGBUS": "shared_memory"}.get(name, "crashed")  # type: ignore[assignment]
    return RunError(kind=kind, sentence=sentence, traceback=output, exit_code=exit_code)


def with_exit_codes(error: RunError, codes: Sequence[int]) -> RunError:
    """Return the error of a dead worker with the signal or exit code that its process tells."""
    if error.kind != "worker_died" or not codes:
        return error
    code = codes[0]
    if code > 0:
        sentence = f"a worker ended with exit code {code}: it called exit() or could not start"
        return msgspec.structs.replace(error, sentence=sentence, exit_code=code)
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    if name == "SIGBUS":
        kind, sentence = "shared_memory", f"a worker was killed by a bus error; {_SHARED_MEMORY}"
    else:
        kind = "killed" if name == "SIGKILL" else "worker_died"
        sentence = f"a worker died ({name})"
    return msgspec.structs.replace(error, kind=kind, sentence=sentence, exit_code=code)


def with_memory_kill(error: RunError, kills: int) -> RunError:
    """Return the error as an out-of-memory kill where the group's count rose while it ran."""
    if error.kind not in ("killed", "worker_died") or kills <= 0:
        return error
    return msgspec.structs.replace(
        error,
        kind="out_of_memory",
        sentence=f"the kernel killed {kills} of its processes for memory: use fewer workers, a "
        "smaller prefetch_factor or batch, or give the group more memory",
    )


def describe_hang(seconds: float, batches: int, output: str) -> RunError:
    """Return the error of a child that delivered nothing for longer than the timeout."""
    where = "before its first batch" if batches == 0 else "in the middle of an epoch"
    return RunError(
        kind="timeout",
        sentence=f"nothing came for {seconds:g} s, {where}: a worker or the step is stuck, or "
        "needs a longer --timeout; -v shows where the main process stood",
        traceback=output,
    )
