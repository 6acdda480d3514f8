"""Connections between workers and the main process that broke: each follows from something else."""

from __future__ import annotations

from feedrate.doctor.entry import Entry

_TAKING = (
    r"rebuild_storage|resource_sharer|_try_get_data|_pin_memory_loop|recv_handle|recvfds|"
    r"fd\.detach|df\.detach|multiprocessing[/\\]queues\.py[\s\S]*in get\b"
)

ENTRIES = (
    Entry(
        name="worker-gone",
        code="crash.worker_gone",
        texts=(
            r"ConnectionRefusedError",
            r"ConnectionResetError",
            r"ConnectionAbortedError",
            r"BrokenPipeError",
            r"^EOFError\b",
            r"FileNotFoundError: \[Errno 2\] No such file or directory$",
            r"got end of file during message",
            r"did not receive acknowledgement of fd",
            r"AuthenticationError",
        ),
        what="the worker that made a batch was gone when the main process came for it",
        why="a tensor is fetched from the worker itself, so one that has ended takes its batches "
        "along: it was killed, it crashed, something in it called exit (also os._exit in a "
        "thread), or it had no descriptors left to send with",
        remedies=(
            "find the worker's first failure: what it printed itself, its exit code, dmesg",
            (
                "do not call exit in the dataset or in a thread of it; keep the loader's iterator "
                "until its last batch is used"
            ),
            "raise ulimit -n if open files grow in the workers",
        ),
        figures=("memory_kills", "descriptors"),
        role="symptom",
        near=_TAKING,
        far=r"SemLock\._rebuild",
    ),
)
