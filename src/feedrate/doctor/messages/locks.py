"""Locks, queues and values of multiprocessing that were handed on as these do not allow."""

from __future__ import annotations

from feedrate.doctor.entry import Entry

ENTRIES = (
    Entry(
        name="lock-of-other-context",
        code="crash.not_picklable",
        texts=(r"A SemLock created in a (?P<own>\w+) context is being shared with a process in a",),
        what="a lock, queue or value of multiprocessing that was made for {own} cannot go to a "
        "worker that starts otherwise",
        why="multiprocessing.Lock(), Queue() and Value() belong to the default start method, and "
        "the loader's workers start by another one (multiprocessing_context=)",
        remedies=(
            (
                "make it from the context that the loader uses: "
                "multiprocessing.get_context('spawn').Lock()"
            ),
            "or leave multiprocessing_context away, so that both use the default",
        ),
        figures=("versions",),
    ),
    Entry(
        name="lock-not-inherited",
        code="crash.not_picklable",
        texts=(r"(?P<kind>\w+) objects should only be shared between processes through inherit",),
        what="a {kind} of multiprocessing was pickled, which only works while a process is started",
        why="a worker gets it with the dataset when it starts; in a batch, in a copy "
        "(copy.deepcopy, torch.save) or through a queue it cannot travel",
        remedies=(
            "keep it on the dataset before the loader is iterated, and out of items and batches",
            "leave it out of what is copied or saved (__getstate__)",
            "use a manager's (multiprocessing.Manager().Lock()), which can be sent anywhere",
        ),
        figures=("versions",),
    ),
)
