"""Warnings of torch, Python and libraries, and complaints while a program ends."""

from __future__ import annotations

from feedrate.doctor.entry import Entry

ENTRIES = (
    Entry(
        name="fork-with-threads",
        code="fork_threads",
        texts=(
            r"is multi-threaded, use of fork\(\) may lead to deadlocks in the child",
            r"Forking a process while a parallel region is active",
            r"The current process just got forked, after parallelism has already been used",
            r"os\.fork\(\) was called\. os\.fork\(\) is incompatible with multithreaded code",
        ),
        what="a note on a risk: workers were forked while the main process had other threads",
        why="torch itself starts threads, so nearly every program has them; nothing failed",
        remedies=(
            "nothing, while batches arrive",
            (
                "if workers hang before their first batch: multiprocessing_context='forkserver' or "
                "'spawn' (needs a dataset that can be pickled, and a main guard)"
            ),
        ),
        figures=("start_method",),
        severity="info",
        role="note",
    ),
    Entry(
        name="workers-and-cpus",
        code="speed.too_many_workers",
        texts=(
            (
                r"will create (?P<workers>\w+) worker processes in total\. Our suggested max "
                r"number of worker in current system is (?P<cpus>\w+)"
            ),
            r"suggested max number of worker",
        ),
        what="torch remarks that there are more workers than CPUs",
        why="it compares num_workers with the CPUs that it may use, and measures nothing: where "
        "items wait for storage or network more workers than CPUs do pay",
        remedies=(
            "measure it: feedrate tune train.py",
            "num_workers = usable CPUs ÷ ranks on this host, where items are decoded or computed",
        ),
        figures=("cpus",),
        severity="info",
        role="note",
    ),
    Entry(
        name="few-workers",
        code="speed.too_few_workers",
        texts=(r"does not have many workers which may be a bottleneck",),
        what="Lightning remarks that num_workers is below the number of CPUs",
        why="it measures nothing: where the step takes the time, a faster loader gains nothing",
        remedies=("measure whether the loop waits for data at all: feedrate tune train.py",),
        figures=("cpus",),
        severity="info",
        role="note",
    ),
    Entry(
        name="pinning-without-device",
        code="pin_memory_ignored",
        texts=(
            r"'pin_memory' argument is set as true but no(?:t| accelerator)",
            r"pin_memory_device is deprecated",
        ),
        what="pin_memory is passed over, since there is no accelerator that it could help",
        why="only copies to a device are faster from pinned memory; nothing else changes",
        remedies=("nothing; pin_memory=torch.accelerator.is_available() keeps it silent",),
        figures=("versions",),
        severity="info",
        role="note",
    ),
    Entry(
        name="iterable-length",
        code="correctness.wrong_len",
        texts=(
            (
                r"Length of IterableDataset .* was reported to be (?P<told>\w+) ?\(when accessing "
                r"len\(dataloader\)\), but (?P<came>\w+) samples have been fetched"
            ),
        ),
        what="an IterableDataset delivers more than its length announces: {told} told, {came} came",
        why="__len__ counts something else than what __iter__ yields",
        remedies=(
            "let __len__ count what all workers together yield",
            "divide the items among the workers in __iter__ by get_worker_info()",
            "leave __len__ out where the number is not known",
        ),
        severity="warning",
        role="note",
    ),
    Entry(
        name="iterable-with-length",
        code="correctness.iterable_duplicates",
        texts=(r"Your `IterableDataset` has `__len__` defined",),
        what="Lightning remarks that an IterableDataset with several workers may repeat its items",
        why="each worker iterates the whole dataset unless __iter__ divides it; whether this one "
        "does is not said",
        remedies=(
            "nothing, if __iter__ divides its items by torch.utils.data.get_worker_info()",
            "count the items of one epoch with num_workers=0 and with 2",
        ),
        severity="info",
        role="note",
    ),
    Entry(
        name="leaked-resources",
        code="leaked_resources",
        texts=(
            r"resource_tracker: There appear to be \d+ leaked",
            r"resource_tracker: '?[^:]+'?: \[Errno 2\]",
            r"resource_tracker: process died unexpectedly",
            r"KeyError: '/(?:psm|mp|loky)[-_]",
        ),
        what="Python cleaned up semaphores or shared memory that a program left when it ended",
        why="the program ended before it could do so itself: it was killed or interrupted, or "
        "workers were ended by force; this line is no cause of anything",
        remedies=("look for what ended the program, if it did not end by itself",),
        severity="info",
        role="note",
    ),
    Entry(
        name="iterator-in-other-process",
        code="iterator_forked",
        texts=(r"can only (?:test|join) a child process",),
        what="a loader's iterator was cleaned up in a process that did not make it",
        why="a process that was forked (by a worker, tqdm or a notebook) inherited the iterator, "
        "and its workers are not that process's children; batches are not touched by it",
        remedies=(
            "nothing, if training goes on",
            (
                "let go of the iterator before other processes are forked: del it, or "
                "persistent_workers=False for the other loader"
            ),
        ),
        severity="info",
        role="note",
    ),
    Entry(
        name="end-of-program",
        code="shutdown_noise",
        texts=(
            r"Exception ignored in: <(?:function|bound method) _(?:MultiProcessing)?DataLoader",
            r"Exception in thread .*(?:_pin_memory_loop|QueueFeederThread|QueueManagerThread)",
        ),
        what="a loader complained while it was thrown away",
        why="its workers or threads ended in another order than it expects; that happens when a "
        "program ends, or leaves a loop, while batches are on their way",
        remedies=(
            "nothing, if the program was at its end",
            "iterate to the end, or del the iterator before the program ends",
        ),
        severity="info",
        role="note",
        far=r"can only (?:test|join) a child process",
    ),
    Entry(
        name="interrupted",
        code="interrupted",
        texts=(r"^KeyboardInterrupt\b",),
        what="somebody pressed Ctrl-C, or the program got SIGINT",
        why="the traceback shows only where it stood at that moment",
        remedies=(
            "nothing, if that was meant",
            (
                "if it had hung: it stood where the traceback shows, and py-spy dump --pid PID "
                "--subprocesses | feedrate explain - shows the workers too"
            ),
        ),
        severity="info",
        role="note",
    ),
)
