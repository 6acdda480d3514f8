"""Workers that could not be started, and loaders that could not be made."""

from __future__ import annotations

from feedrate.doctor.entry import Entry

_GUARD = "put what the script does under if __name__ == '__main__': main()"

ENTRIES = (
    Entry(
        name="no-main-guard",
        code="crash.no_main_guard",
        texts=(
            r"An attempt has been made to start a new process before the",
            r"has finished its bootstrapping phase",
            r"^\s*freeze_support\(\)$",
        ),
        what="the script has no main guard: each worker ran it again and tried to start workers",
        why="spawn and forkserver import the script in every worker, so that what stands at its "
        "top level runs there too",
        remedies=(
            _GUARD,
            "multiprocessing_context='fork' on Linux, which does not import the script again",
        ),
        figures=("start_method",),
    ),
    Entry(
        name="nested-workers",
        code="crash.nested_workers",
        texts=(r"daemonic processes are not allowed to have children",),
        what="a worker tried to start a process of its own: a loader with workers inside a dataset",
        why="workers are daemon processes, which may not have children",
        remedies=(
            "num_workers=0 for the inner loader",
            "threads (concurrent.futures.ThreadPoolExecutor) instead of processes in the worker",
            "load the inner data in the main process, or in the outer dataset itself",
        ),
        in_own_code=True,
    ),
    Entry(
        name="not-importable",
        code="crash.not_importable",
        texts=(r"Can't get attribute '(?P<name>[^']+)' on <module '(?P<module>[^']+)'",),
        what="a worker could not find {name} in the module {module}",
        why="a worker that is spawned imports what it needs by name, and a notebook, an "
        "interactive session or code under the main guard is not there to be imported",
        remedies=(
            "define {name} in a file (.py) and import it from there",
            "move its definition above if __name__ == '__main__'",
            "multiprocessing_context='fork' on Linux",
        ),
        figures=("start_method",),
    ),
    Entry(
        name="module-missing-in-worker",
        code="crash.not_importable",
        texts=(r"No module named '(?P<module>[^']+)'",),
        what="a worker could not import the module {module} when it was started",
        why="a worker that is spawned starts with Python's own path: changes to sys.path and "
        "modules made while the program ran are not there",
        remedies=(
            "install the module, or set PYTHONPATH instead of changing sys.path",
            "multiprocessing_context='fork' on Linux",
        ),
        figures=("start_method",),
        near=r"spawn_main|multiprocessing[/\\](?:spawn|forkserver)\.py",
    ),
    Entry(
        name="start-method-fixed",
        code="crash.start_method",
        texts=(r"context has already been set",),
        what="the start method was set twice: set_start_method was called after something had "
        "already fixed it",
        why="Python fixes the start method the first time that a process, queue or lock is made, "
        "which a library may do when it is imported",
        remedies=(
            "give the loader its own: DataLoader(multiprocessing_context='spawn')",
            "call set_start_method once, under the main guard, before anything else",
            "set_start_method(..., force=True)",
        ),
        figures=("start_method",),
    ),
    Entry(
        name="start-method-unknown",
        code="crash.start_method",
        texts=(
            r"cannot find context for '(?P<method>\w+)'",
            r"should specify a valid start method in",
        ),
        what="this platform does not have the start method that was asked for",
        why="Windows has spawn alone; fork and forkserver exist on Linux and macOS",
        remedies=("leave multiprocessing_context out, or name one that the platform has",),
        figures=("start_method",),
    ),
    Entry(
        name="loader-options",
        code="crash.loader_options",
        texts=(
            r"prefetch_factor option could only be specified in multiprocessing",
            r"prefetch_factor option should be non-negative",
            r"persistent_workers option needs num_workers > 0",
            r"num_workers option should be non-negative",
            r"timeout option should be non-negative",
            r"sampler option is mutually exclusive with shuffle",
            r"batch_sampler option is mutually exclusive with batch_size",
            r"batch_size=None option disables auto-batching",
            r"DataLoader with IterableDataset: expected unspecified \w+ option",
            r"multiprocessing_context can only be used with multi-process loading",
            r"attribute should not be set after \w+ is initialized",
        ),
        what="the loader was given settings that exclude each other: {quote}",
        why="torch checks them when the loader is made, before any item is read",
        remedies=("leave out one of the two that the message names",),
        in_own_code=True,
    ),
    Entry(
        name="empty-dataset",
        code="crash.empty_dataset",
        texts=(r"num_samples should be a positive integer value, but got num_samples=0",),
        what="the dataset is empty (its len() is 0), so there is nothing to shuffle",
        why="it found no files: a wrong path, a pattern or filter that matches nothing, or a "
        "split of size 0",
        remedies=(
            "print the path that the dataset searches and what it finds there",
            "check the split's sizes",
        ),
        in_own_code=True,
    ),
    Entry(
        name="pipe-broken-at-start",
        code="crash.worker_start",
        texts=(r"BrokenPipeError: \[(?:Errno|WinError) (?:32|109)\]",),
        what="a worker ended while the main process was still handing it its start",
        why="the worker failed at once: the script has no main guard, an import failed, or memory "
        "ran out; its own traceback stands above or below",
        remedies=(
            _GUARD,
            "read the worker's own traceback, printed between the lines of this one",
            "use fewer workers if it is memory",
        ),
        figures=("start_method", "memory"),
        role="symptom",
        near=r"popen_spawn|popen_forkserver|reduction\.dump|in _launch|Popen\(process_obj\)",
    ),
    Entry(
        name="parent-gone",
        code="crash.orphan_workers",
        texts=(r"FileNotFoundError: \[Errno 2\] No such file or directory",),
        what="a worker was still starting when the main process had ended or thrown it away",
        why="its queues and locks are files of the main process, and were gone already",
        remedies=(
            "look for what ended the main process first",
            "keep a reference to the loader's iterator for as long as it is used",
        ),
        figures=("start_method",),
        role="symptom",
        near=r"SemLock\._rebuild|synchronize\.py[\s\S]*_rebuild",
    ),
)
