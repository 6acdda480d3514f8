"""What each kind of growth is called in a finding's title, and what mends it."""

from __future__ import annotations

import msgspec

from feedrate import units
from feedrate.analysis.grown import Grown
from feedrate.analysis.wording import workers


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """The title's ``begin``, before the rate, and its ``end``, after it; and the remedy.

    In ``begin`` stand {figure} for what grows, {workers} for "2 workers" and {which} for what tells
    it apart from others of its kind. ``at_line`` is the remedy where the line is known, if that is
    another one.
    """

    begin: str
    end: str
    remedy: str
    at_line: str = ""


WORDS: dict[str, Words] = {
    "memory.main_step_growth": Words(
        begin="the {figure} grows",
        end="Each step keeps something; it is not the loader.",
        remedy="Keep numbers and not tensors: loss.item() or loss.detach() instead of the loss, "
        "which holds its graph; evaluate under torch.no_grad(); keep no batches.",
    ),
    "memory.dataset_cache_growth": Words(
        begin="a cache in the dataset grows, per worker, in {workers}",
        end="Each worker fills its own and ends up with a copy of the dataset.",
        remedy="Bound it (an LRU cache), or share one among the workers: a tensor after "
        "share_memory_(), a memory-mapped file, or feedrate.SharedList.",
    ),
    "memory.bounded_cache": Words(
        begin="the {figure} grows",
        end="What holds it takes a number of entries, and then drops the oldest.",
        remedy="Where that fits, nothing needs to be done; a smaller limit takes less.",
    ),
    "memory.worker_growth": Words(
        begin="memory of {workers}{which} grows",
        end="Something that lives as long as the worker keeps it: a list, a dict, a global.",
        remedy="Bound what the dataset, its transforms and the collate function keep between "
        "items.",
    ),
    "memory.other_process_growth": Words(
        begin="the {figure} grows",
        end="That is another program that this one has started, and no worker of a loader.",
        remedy="Bound what that program keeps, or end it and start it anew now and then.",
    ),
    "memory.native_growth": Words(
        begin="the {figure} grows outside Python objects",
        end="A library written in C keeps it.",
        remedy="Run feedrate leaks --memray to see which one; close readers and decoders per item.",
        at_line="Close or free per item what that line has C code allocate: a reader, a decoder, a "
        "handle. Where there is nothing to close, it is the library's leak: report it there.",
    ),
    "memory.cycles": Words(
        begin="the {figure} grows by reference cycles",
        end="They wait for Python's collector: a collection gives the memory back.",
        remedy="Break the cycle (weakref, or no reference back), or collect at intervals: "
        "gc.collect(), or feedrate.MemoryGuard.",
    ),
    "memory.allocator_pages": Words(
        begin="the {figure} grows by pages that its allocator keeps",
        end="Nothing in the program holds them: malloc_trim gives them back.",
        remedy="Nothing has to be done. Items of one size, or MALLOC_TRIM_THRESHOLD_=0, keep it "
        "flatter.",
    ),
    "memory.fd_growth_worker": Words(
        begin="open files of a worker{which} grow",
        end="Something opened in __getitem__ is never closed.",
        remedy="Open files with a with statement, or keep a bounded pool of handles.",
    ),
    "memory.fd_growth_main": Words(
        begin="open files of the main process grow",
        end="Kept batches hold descriptors too, one for each tensor.",
        remedy="Close what the loop opens; keep numbers or clones of batches, not batches.",
    ),
    "memory.thread_growth_worker": Words(
        begin="threads of a worker{which} grow",
        end="Something started in __getitem__ is never ended.",
        remedy="Start threads once for each worker, in worker_init_fn or with the first item, or "
        "end them: with ThreadPoolExecutor() as pool.",
    ),
    "memory.thread_growth_main": Words(
        begin="threads of the main process grow",
        end="Something that the loop starts is never ended.",
        remedy="Make pools, writers and loggers once and not for each step or epoch, and close "
        "them: with, shutdown(), close().",
    ),
    "memory.shm_growth": Words(
        begin="files in /dev/shm{which} pile up",
        end="They stay until they are unlinked; what other programs of this user leave there "
        "counts too.",
        remedy="Unlink shared memory when its last user is done; end workers by their loader, "
        "not by a signal.",
    ),
    "memory.workers_pile_up": Words(
        begin="the number of worker processes grows",
        end="Old iterators are kept, and each keeps its workers.",
        remedy="Keep no reference to an iterator that is done, make the loader once and not for "
        "each epoch, and call iter() on it once an epoch.",
    ),
    "memory.programs_pile_up": Words(
        begin="the number of other programs that run grows",
        end="They are started ever again, and do not end.",
        remedy="End each, and wait for that: subprocess.run(), or with subprocess.Popen(...).",
    ),
    "memory.device_growth": Words(
        begin="device memory held by tensors grows",
        end="Each step keeps tensors.",
        remedy="Keep loss.item() and not the loss; detach() what is kept; evaluate under "
        "torch.no_grad().",
    ),
    "memory.device_cache": Words(
        begin="torch's cache of device memory grows, and what tensors hold does not",
        end="It is no leak: blocks of other sizes are kept for reuse.",
        remedy="Batches of equal shape keep it flat; so does "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
    ),
    "memory.warm_up": Words(
        begin="the {figure} still rises",
        end="As far as can be seen it is a warm-up or a bounded cache.",
        remedy="Watch longer (--epochs) to see the plateau itself.",
    ),
    "memory.pinned_cache": Words(
        begin="pinned memory grows",
        end="torch keeps pinned blocks, their sizes rounded up to a power of two.",
        remedy="Use a smaller prefetch_factor, batches of equal shape, or pin_memory=False where "
        "the copy to the device is not the limit.",
    ),
}


IN_ONE_PROCESS = frozenset({"memory.main_step_growth"})
ONE_PROCESS = (
    "There are no workers: the dataset is in that process too, and it or the step keeps it."
)
"""The end of what would say that it is not the loader, where that cannot be told apart."""


def begin(made: Grown) -> str:
    """Return the begin of a growing figure's title."""
    return WORDS[made.code].begin.format(
        figure=made.figure, workers=workers(made.processes), which=made.which
    )


def amount(value: float, unit: str) -> str:
    """Return bytes as a size, counts as a number."""
    return units.size(value) if unit == "bytes" else units.number(round(value, 3))
