"""What can be read off one look at memory, as functions from the look to one figure.

A figure of the workers is the mean of those alive, so that it does not jump where one starts or
ends. ``None`` means that the platform does not tell or there is no worker.
"""

from __future__ import annotations

from collections.abc import Callable

from feedrate.memory_records import MemoryLook, ProcessReading

Figure = Callable[[MemoryLook], float | None]
OfProcess = Callable[[ProcessReading], float | None]


def private(process: ProcessReading) -> float | None:
    """Return the anonymous bytes of a process, in memory or swapped: what it has allocated.

    Pages shared with its parent since a fork are among them, so copying those on write does not
    move it. Where the platform does not tell, what only this process maps; else its RSS.
    """
    memory = process.memory
    if memory.anonymous is not None:
        return float(memory.anonymous + process.swapped)
    return float(memory.uss if memory.uss is not None else memory.rss)


def own_pages(process: ProcessReading) -> float | None:
    """Return the bytes of pages that this process has written to and shares with no other."""
    return _number(process.memory.private_dirty)


def inherited_pages(process: ProcessReading) -> float | None:
    """Return the bytes of written pages that it still shares, as with its parent since a fork."""
    return _number(process.memory.shared_dirty)


def touched_pages(process: ProcessReading) -> float | None:
    """Return the bytes of all pages that it has touched or copied anew since it began."""
    return _number(process.touched)


def shared_memory(process: ProcessReading) -> float | None:
    """Return what the process maps of shared memory: batches from workers lie there."""
    shmem = process.memory.pss_shmem if process.shmem is None else process.shmem
    return _number(shmem)


def descriptors(process: ProcessReading) -> float | None:
    """Return how many files, sockets and the like it has open."""
    return _number(process.descriptors)


def threads(process: ProcessReading) -> float | None:
    """Return how many threads it runs."""
    return _number(process.threads)


def of_main(figure: OfProcess) -> Figure:
    """Return the figure of the main process."""
    return lambda look: figure(look.main)


def of_workers(figure: OfProcess) -> Figure:
    """Return the figure's mean over the workers."""

    def mean(look: MemoryLook) -> float | None:
        values = [value for worker in look.workers if (value := figure(worker)) is not None]
        return sum(values) / len(values) if values else None

    return mean


def worker_count(look: MemoryLook) -> float | None:
    """Return how many workers are alive, of all iterators; other programs are none."""
    return float(len(look.workers) + sum(each.program is None for each in look.others))


def program_count(look: MemoryLook) -> float | None:
    """Return how many other programs run that the main process or a worker has started."""
    return float(sum(each.program is not None for each in look.others))


def shm_bytes(look: MemoryLook) -> float | None:
    """Return what the user's files in ``/dev/shm`` take; where that was not read, all it holds.

    Batches on their way have no name there: those of this loop, and of others on the machine, come
    and go by many mebibytes.
    """
    return _number(look.shm_bytes if look.shm_named is None else look.shm_named)


def device_allocated(look: MemoryLook) -> float | None:
    """Return what tensors hold on the device."""
    return None if look.device is None else float(look.device.allocated)


def device_reserved(look: MemoryLook) -> float | None:
    """Return what torch's cache keeps of the device's memory, tensors included."""
    return None if look.device is None else float(look.device.reserved)


def pinned(look: MemoryLook) -> float | None:
    """Return what torch's cache of page-locked host memory keeps."""
    return None if look.device is None else _number(look.device.pinned)


def _number(value: int | None) -> float | None:
    return None if value is None else float(value)
