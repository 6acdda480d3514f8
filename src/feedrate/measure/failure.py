"""From an exception or an exit status to one sentence with the way out.

The child describes what it catches; the parent describes how a child ended, and knows what the
child cannot: whether the kernel killed for memory.
"""

from __future__ import annotations

import re
import signal
import traceback
from collections.abc import Sequence

import msgspec

from feedrate.errors import FeedrateError, TargetError
from feedrate.measure.blame import (
    Raised,
    clean,
    culprit,
    culprit_of_setup,
    one_line,
    own_place,
    raised_in_torch_data,
    read,
    text_of,
)
from feedrate.records import ErrorKind, LoaderFacts, RunError

_WORKER_KILLED = re.compile(r"worker \(pid \d+\) is killed by signal: ([A-Za-z ]+?)\.")
_WORKER_GONE = re.compile(r"worker \(pid(?:\(s\))? [\d, ]+\) exited unexpectedly")
_WORKER_EXITED = re.compile(r"exited unexpectedly with exit code (\d+)")
_TIMED_OUT = re.compile(r"DataLoader timed out after ([\d.]+) seconds")
_SHARED_FILE_FAILED = re.compile(
    r"unable to (?:write to file|resize file|allocate shared memory|mmap)[^\n]*</?torch_\d"
)
_SEMAPHORES = re.compile(r"multiprocessing[/\\]synchronize\.py")
"""A semaphore is a file in /dev/shm too."""
_TRANSPORT = ("in rebuild_storage", "resource_sharer.py")
"""What a traceback shows when a tensor is fetched from a worker that has ended."""
_LOADED_BESIDE = "feedrate_target_"
"""How `feedrate.measure.target` names a file whose own name is taken."""

_KINDS_OF_DEATH: dict[str, ErrorKind] = {"Bus error": "shared_memory", "Killed": "killed"}
_NATIVE = ("SIGSEGV", "SIGABRT", "SIGILL", "SIGFPE", "SIGSYS", "SIGTRAP")
_SHARED_MEMORY = (
    "it ran out of shared memory: use fewer workers, a smaller prefetch_factor or batch, "
    "or enlarge /dev/shm (docker run --shm-size)"
)
_ITEM_IS_NONE = "an item is None: does __getitem__ return its value?"
_PAD = "give items one size, or a collate_fn that pads"
_FORK = "use the start method fork (--start-method fork)"
_MODULE_LEVEL = f"define it at module level, or {_FORK}"
_RENAME = "another module has the target file's name, so workers cannot import it: rename the file"
_WAYS_OUT: tuple[tuple[str, str], ...] = (
    ("found <class 'NoneType'>", _ITEM_IS_NONE),
    ("but got NoneType", _ITEM_IS_NONE),
    ("stack expects each tensor to be equal size", _PAD),
    ("list of batch should be of equal size", _PAD),
    ("batch must contain tensors", "convert items to tensors, or give a collate_fn"),
    ("num_samples should be a positive integer", "the dataset is empty: check its path or filter"),
    ("on __main__ failed", f"give a function at module level of a file, or {_FORK}"),
    ("Can't pickle", _MODULE_LEVEL),
    ("Can't get local object", _MODULE_LEVEL),
    ("cannot pickle", f"open it in the worker instead of in __init__, or {_FORK}"),
    ("An attempt has been made to start a new process before", "guard it with if __name__"),
    ("Too many open files", "raise ulimit -n, or close files after each item"),
    ("CUDA out of memory", "lower the batch size"),
    ("DefaultCPUAllocator: can't allocate memory", "use fewer workers or a smaller batch"),
    (
        "Cannot re-initialize CUDA in forked",
        "use the start method spawn (--start-method spawn), or CPU tensors in the dataset",
    ),
    (f"No module named '{_LOADED_BESIDE}", _RENAME),
    ("No module named", "install it, or run feedrate with the Python that has it"),
    ("attempted relative import", "name the target package.module:name instead of by its file"),
    ("required positional argument", "a target's function is called without arguments"),
)
_ONLY_IN_SETUP = ("No module named", "attempted relative import", "required positional argument")


def describe_exception(
    error: BaseException, *, setting_up: bool, facts: LoaderFacts | None = None
) -> RunError:
    """Return what an exception in the child means for its run."""
    whole = clean("".join(traceback.format_exception(error)))
    if isinstance(error, FeedrateError):
        # before there is a loader, every setting would meet it: a device that is not there, say
        target = setting_up or isinstance(error, TargetError)
        kind: ErrorKind = "target" if target else "exception"
        return RunError(kind=kind, sentence=one_line(text_of(error)))
    if isinstance(error, SystemExit):
        return RunError(
            kind="target" if setting_up else "exited",
            sentence=f"the target called sys.exit({one_line(text_of(error))}) "
            + ("before it returned a loader" if setting_up else "while it was measured"),
            traceback=whole,
        )
    raised = read(error)
    if found := _describe_torch_error(raised, whole, facts):
        return found
    if isinstance(error, ConnectionError | EOFError | FileNotFoundError) and any(
        place in whole for place in _TRANSPORT
    ):
        return RunError(
            kind="worker_died",
            sentence="a worker was gone before its batch was taken over",
            traceback=whole,
        )
    who = culprit_of_setup(raised) if setting_up else culprit(raised)
    sentence = f"{who} raised {raised.headline()} {own_place(raised)}".rstrip()
    if raised.cause is not None:
        sentence += f", after {raised.root().headline()}"
    if way_out := _way_out(raised, setting_up):
        sentence += f": {way_out}"
    return RunError(
        kind="target" if setting_up else "exception", sentence=sentence, traceback=whole
    )


def _way_out(raised: Raised, setting_up: bool) -> str:
    if raised.kind == "StopIteration" and not setting_up:
        return "it ends a loop without a word; give next() a default, or raise another error"
    text = raised.messages()
    if "has no len()" in text and raised_in_torch_data(raised):
        return "give the dataset a __len__, or make it an IterableDataset"
    for mark, hint in _WAYS_OUT:
        if mark in text and (setting_up or mark not in _ONLY_IN_SETUP):
            return hint
    if culprit(raised) == "starting a worker":
        return _FORK
    return ""


def _describe_torch_error(raised: Raised, whole: str, facts: LoaderFacts | None) -> RunError | None:
    """Recognize what torch says when a worker is gone or silent, or a batch cannot be moved."""
    text = raised.messages()
    kind: ErrorKind
    if killed := _WORKER_KILLED.search(text):
        kind = _KINDS_OF_DEATH.get(killed[1], "worker_died")
        sentence = f"a worker died ({_signal_in_words(killed[1])})"
        if kind == "shared_memory":
            sentence = f"a worker was killed by a bus error; {_SHARED_MEMORY}"
    elif _SHARED_FILE_FAILED.search(text) or (
        "No space left on device" in text and _SEMAPHORES.search(whole)
    ):
        kind, sentence = "shared_memory", f"moving a batch failed; {_SHARED_MEMORY}"
    elif _WORKER_GONE.search(text):
        kind, sentence = "worker_died", "a worker exited unexpectedly: it called exit() or crashed"
        if exited := _WORKER_EXITED.search(text):
            sentence = _ended_with(int(exited[1]))
        if _cannot_be_imported(facts):
            kind, sentence = "exception", f"a worker could not start: {_RENAME}"
    elif waited := _TIMED_OUT.search(text):
        kind = "timeout"
        sentence = (
            f"the loader's own timeout of {waited[1]} s passed without a batch: a worker is stuck, "
            "or items take longer"
        )
    else:
        return None
    return RunError(kind=kind, sentence=sentence, traceback=whole)


def _ended_with(code: int) -> str:
    return f"a worker ended with exit code {code}: it called exit() or could not start"


def _cannot_be_imported(facts: LoaderFacts | None) -> bool:
    """Tell whether started workers would look for a module that only the main process has."""
    return (
        facts is not None
        and facts.start_method in ("spawn", "forkserver")
        and facts.dataset_type.startswith(_LOADED_BESIDE)
    )


def describe_no_batches(facts: LoaderFacts) -> RunError:
    """Return why a loader delivered nothing, from what it is."""
    if facts.batch_tensors:
        reason = (
            "an epoch before had some, so its dataset or sampler can be iterated only once: make "
            "its generator, file or list of shards anew in __iter__"
        )
    elif facts.dataset_length == 0:
        reason = "its dataset is empty (len() is 0): check its path or filter"
    elif facts.length == 0 and facts.batch_size and facts.dataset_length:
        reason = (
            f"its dataset has {facts.dataset_length} item{'' if facts.dataset_length == 1 else 's'}"
            f", fewer than one batch of {facts.batch_size}, and drop_last is on: lower batch_size "
            "or turn drop_last off"
        )
    elif facts.iterable:
        reason = "its IterableDataset yielded nothing: check its source and its shards"
        if facts.batch_size and facts.batch_size > 1:
            reason += f" (or, with drop_last, less than one batch of {facts.batch_size} a worker)"
    else:
        reason = "its sampler yielded nothing: check the sampler"
        if not facts.loader_type.startswith(("torch.utils.data.", "feedrate.loader.")):
            reason = f"neither its sampler nor {facts.loader_type} itself yielded anything"
    return RunError(kind="no_batches", sentence=f"the loader delivered no batch: {reason}")


def describe_refusal(error: Exception) -> RunError:
    """Return what it means that the system refused to start a child."""
    reason = getattr(error, "strerror", None) or one_line(text_of(error))
    return RunError(
        kind="exited",
        sentence=f"the measuring process cannot be started ({reason}): raise ulimit -n and -u, or "
        "free memory",
    )


def describe_end(exit_code: int, output: str) -> RunError:
    """Return what a child's exit status means that sent no last word.

    ``exit_code`` is negative for a signal, as in `subprocess`.
    """
    kind: ErrorKind = "exited"
    if exit_code == 0:
        sentence = (
            "the target's process ended before it was measured: it called os._exit(), or goes on "
            "in the background; run it so that it trains in the foreground, to its end"
        )
    elif exit_code > 0:
        sentence = (
            f"the measuring process ended with exit code {exit_code}; its output stands in the "
            "details (-v)"
        )
    else:
        name = _signal_name(-exit_code)
        if name == "SIGBUS":
            kind = "shared_memory"
            sentence = f"the main process got a bus error; {_SHARED_MEMORY}"
        elif name in _NATIVE:
            kind = "crashed"
            sentence = (
                f"the main process crashed ({name}) in native code; the details (-v) show where"
            )
        else:
            kind = "killed"
            sentence = f"the main process was killed ({name})"
    return RunError(kind=kind, sentence=sentence, traceback=output, exit_code=exit_code)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _signal_in_words(words: str) -> str:
    """Return the name of a signal that torch tells by its description, "Killed" for SIGKILL."""
    names = (each.name for each in signal.Signals if signal.strsignal(each) == words)
    return next(names, f"signal: {words}")


def with_exit_codes(error: RunError, codes: Sequence[int]) -> RunError:
    """Return the error of a dead worker with the signal or exit code that its process tells."""
    if error.kind != "worker_died" or not codes:
        return error
    code = codes[0]
    if code > 0:
        return msgspec.structs.replace(error, sentence=_ended_with(code), exit_code=code)
    name = _signal_name(-code)
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
