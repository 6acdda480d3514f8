"""What cannot be pickled: on its way to a worker that is started, or back from it."""

from __future__ import annotations

from feedrate.doctor.entry import Entry

_WHY = (
    "spawn and forkserver (the default on macOS and Windows, and on Linux from Python 3.14) send "
    "dataset, transforms, collate_fn and worker_init_fn to each worker by pickle; fork does not"
)
_FORK = "multiprocessing_context='fork' on Linux, which pickles nothing"
_LAZILY = (
    "open it lazily in the worker: on first use in __getitem__, not in __init__, and leave it out "
    "in __getstate__"
)
_SENDING = r"in _feed\b"
"""Not the dataset on its way to a worker, but a batch on its way back."""
_ITEM = r"when serializing dict item '(?P<item>[^']+)'"
"""Python 3.14 says of what an object was a part, from the inside out."""
_CANNOT = r"(?:cannot|can't) pickle '?"
_IO = r"_io\.\w+|(?:\w+\.)*(?:ZipFile|TarFile|GzipFile|ExFileObject)"
_HANDLES = (
    r"(?:\w+\.)*(?:Environment|Transaction|Connection|Cursor|socket|SSLContext|Session|Client|"
    r"VideoCapture|VideoReader|DatasetReader|mmap|File|FileID|Dataset|MongoClient|Pool)"
)
_LOCKS = (
    r"_?\w*\.?(?:lock|RLock|LockType|Condition|Semaphore|_local|local|Thread|Queue|SimpleQueue)"
)
_REFERENCES = r"(?:weakref(?:\.\w+)?|weakproxy|_weakref\.\w+)"
_LISTED = rf"(?:{_IO}|{_HANDLES}|{_LOCKS}|{_REFERENCES}|generator|async_generator|coroutine|module)"
_END = r"'? (?:objects?|instances?)"

ENTRIES = (
    Entry(
        name="batch-not-sent",
        code="crash.batch_lost",
        texts=(r"in _feed$",),
        what="a worker could not send its batch, and torch waits for it for ever",
        why="a queue pickles in a thread of its own, whose error reaches nobody: the worker goes "
        "on, and the batch is missing",
        remedies=(
            (
                "let the dataset or collate_fn return tensors, numbers, strings and lists or dicts "
                "of them"
            ),
            "run with num_workers=0 to see what the batch holds",
            "set timeout=, so that a lost batch ends the run instead of hanging it",
        ),
        near=r"[Pp]ickl|ForkingPickler|reduce_storage|No space left|Too many open",
    ),
    Entry(
        name="pickle-lambda",
        code="crash.not_picklable",
        texts=(
            r"Can't (?:pickle|get) local object .*<lambda>",
            r"Can't pickle <function .*<lambda>",
        ),
        what="a lambda cannot be pickled for the workers (attribute {item}): {quote}",
        why=_WHY,
        remedies=(
            (
                "replace the lambda (a transform, collate_fn or worker_init_fn) by a function at "
                "module level, functools.partial or a class with __call__"
            ),
            _FORK,
        ),
        figures=("start_method",),
        far=_SENDING,
        details=_ITEM,
    ),
    Entry(
        name="pickle-local",
        code="crash.not_picklable",
        texts=(r"Can't (?:pickle|get) local object (?!.*<lambda>)",),
        what="a function or class that is defined inside a function cannot be pickled for the "
        "workers (attribute {item}): {quote}",
        why=_WHY,
        remedies=("define it at module level", _FORK),
        figures=("start_method",),
        far=_SENDING,
        details=_ITEM,
    ),
    Entry(
        name="pickle-not-found",
        code="crash.not_picklable",
        texts=(
            (
                r"Can't pickle <(?!.*<lambda>).*(?:attribute lookup .* failed|it's not found "
                r"as|it's not the same object as|import of module .* failed)"
            ),
        ),
        what="an object cannot be pickled for the workers, since its name leads to another one or "
        "to none (attribute {item}): {quote}",
        why=f"pickle writes down only where a function or class is to be found; {_WHY}",
        remedies=(
            (
                "define it at module level under its own name (a decorator may hide it), in a file "
                "that can be imported"
            ),
            _FORK,
        ),
        figures=("start_method",),
        far=_SENDING,
        details=_ITEM,
    ),
    Entry(
        name="pickle-h5py",
        code="crash.not_picklable",
        texts=(r"h5py objects cannot be pickled", r"_h5py|h5py\._\w+\.\w+ .*cannot be pickled"),
        far=_SENDING,
        what="an open h5py file in the dataset cannot be pickled for the workers",
        why=f"an open file belongs to the process that opened it; {_WHY}",
        remedies=(_LAZILY.replace("open it", "open the h5py file"), _FORK),
        figures=("start_method",),
    ),
    Entry(
        name="pickle-handle",
        code="crash.not_picklable",
        texts=(rf"{_CANNOT}(?P<kind>{_IO}|{_HANDLES}){_END}",),
        what="an open file, connection or database in the dataset cannot be pickled for the "
        "workers ({kind}) (attribute {item})",
        why=f"an open handle belongs to the process that opened it; {_WHY}",
        remedies=(_LAZILY, _FORK),
        figures=("start_method",),
        far=_SENDING,
        details=_ITEM,
    ),
    Entry(
        name="pickle-lock",
        code="crash.not_picklable",
        texts=(rf"{_CANNOT}(?P<kind>{_LOCKS}|{_REFERENCES}){_END}",),
        what="a lock, thread, queue or weak reference in the dataset cannot be pickled for the "
        "workers ({kind}) (attribute {item})",
        why=f"it means something in one process only, and a logger, client or cache mostly holds "
        f"it; {_WHY}",
        remedies=(
            (
                "make the object that holds it in the worker (worker_init_fn, or on first use), "
                "and leave it out in __getstate__"
            ),
            _FORK,
        ),
        figures=("start_method",),
        far=_SENDING,
        details=_ITEM,
    ),
    Entry(
        name="pickle-generator",
        code="crash.not_picklable",
        texts=(rf"{_CANNOT}(?P<kind>generator|async_generator|coroutine){_END}",),
        what="a generator in the dataset cannot be pickled for the workers (attribute {item})",
        why=f"where a generator stands in its code cannot be written down; {_WHY}",
        remedies=(
            "make the generator in __iter__ or __getitem__, in the worker",
            "keep a list, or an IterableDataset that can begin again",
            _FORK,
        ),
        figures=("start_method",),
        far=_SENDING,
        details=_ITEM,
    ),
    Entry(
        name="pickle-module",
        code="crash.not_picklable",
        texts=(rf"{_CANNOT}module{_END}",),
        what="a module kept in an attribute (self.np = numpy) cannot be pickled for the "
        "workers (attribute {item})",
        why=_WHY,
        remedies=("import it at the top of the file, or in the method that uses it", _FORK),
        figures=("start_method",),
        far=_SENDING,
        details=_ITEM,
    ),
    Entry(
        name="pickle-compiled",
        code="crash.not_picklable",
        texts=(
            r"no default __reduce__ due to non-trivial __cinit__",
            r"cannot be converted to a Python object for pickling",
            r"[Pp]ickling (?:of|an) .*(?:not (?:supported|enabled|allowed)|disallowed)",
        ),
        what="an object of a compiled library cannot be pickled for the workers (attribute "
        "{item}): {quote}",
        why=f"a class of a compiled library says nothing of how to write its objects down; {_WHY}",
        remedies=(_LAZILY.replace("open it", "make it"), _FORK),
        figures=("start_method",),
        far=_SENDING,
        details=_ITEM,
    ),
    Entry(
        name="pickle-graph",
        code="crash.not_picklable",
        texts=(r"Cowardly refusing to serialize non-leaf tensor",),
        what="a tensor that still belongs to an autograd graph was to go from one process to "
        "another",
        why="a graph cannot leave its process: an item, or an attribute of the dataset, was "
        "computed from parameters",
        remedies=(
            "detach() it, and compute items under torch.no_grad()",
            "run the part of the model in the training loop instead of the dataset",
        ),
        in_own_code=True,
    ),
    Entry(
        name="pickle-other",
        code="crash.not_picklable",
        texts=(rf"{_CANNOT}(?!{_LISTED}{_END})(?P<kind>[\w.]+){_END}",),
        what="an object in the dataset or the loader's functions cannot be pickled ({kind}) "
        "(attribute {item})",
        why=_WHY,
        remedies=(
            (
                "make it in the worker (worker_init_fn, or on first use), and leave it out in "
                "__getstate__"
            ),
            _FORK,
        ),
        figures=("start_method",),
        far=_SENDING,
        details=_ITEM,
    ),
    Entry(
        name="pickle-recursion",
        code="crash.not_picklable",
        texts=(
            r"maximum recursion depth exceeded while pickling",
            r"RecursionError: maximum recursion depth exceeded",
        ),
        what="the dataset is nested so deeply that pickling it does not come to an end",
        why=f"a linked list, a tree, or __getattr__ that calls itself while unpickling; {_WHY}",
        remedies=(
            (
                "keep the data in flat arrays; in __getattr__ raise AttributeError for names that "
                "begin with __"
            ),
            _FORK,
        ),
        figures=("start_method",),
        near=r"[Pp]ickl",
    ),
    Entry(
        name="pickle-size",
        code="crash.pickle_too_big",
        texts=(
            r"cannot serialize a (?:bytes|string) object larger than 4 ?GiB",
            r"OSError: \[Errno 22\] Invalid argument",
        ),
        what="the dataset's pickle is too large for the pipe to a worker",
        why="on Windows a single write of more than 2 to 4 GiB is refused, and old pickle "
        "protocols stop at 4 GiB; every worker would also hold a copy of its own",
        remedies=(
            "keep the data in files (memory-mapped arrays) and pickle only their names",
            "put large arrays into tensors with share_memory_(), which are passed by handle",
            "num_workers=0",
        ),
        figures=("memory", "start_method"),
        near=r"ForkingPickler|reduction\.py|larger than 4 ?GiB",
    ),
    Entry(
        name="pickle-cut-short",
        code="crash.not_picklable",
        texts=(
            r"EOFError: Ran out of input",
            r"pickle data was truncated",
        ),
        what="a worker got only a part of what it is started with: the main process failed while "
        "it pickled the rest",
        why="the real error is the main process's, and stands above or below this one",
        remedies=(
            "read the traceback of the main process: it names what cannot be pickled",
            "num_workers=0 until that is found",
        ),
        figures=("start_method",),
        role="symptom",
        near=r"spawn_main|multiprocessing[/\\]spawn\.py|reduction\.pickle\.load",
    ),
    Entry(
        name="pickle-warning",
        code="crash.not_picklable",
        texts=(r"Got pickle error when attempting to start a worker Process",),
        what="something that the workers are started with cannot be pickled",
        why=_WHY,
        remedies=("read the error that follows: it names the object", _FORK),
        figures=("start_method",),
        role="symptom",
    ),
)
