"""Memory that ran out: the device's, the host's, and pinned memory, which is the host's too."""

from __future__ import annotations

from feedrate.doctor.entry import Entry

_PINNING = r"in pin[_ ]memory|from pin_memory|\.pin_memory\(|HostAlloc"
_LESS = "use fewer workers, a smaller prefetch_factor or a smaller batch"

ENTRIES = (
    Entry(
        name="pinned-memory",
        code="memory.pinned_cache",
        texts=(
            r"CUDA error: out of memory",
            r"cuda runtime error \(2\)",
            r"cudaHostAlloc|CUDACachingHostAllocator|CachingHostAllocator",
        ),
        what="pinned host memory could not be had: what is pinned already is kept and not given "
        "back",
        why="torch keeps pinned blocks for the next batch and rounds their sizes up to a power of "
        "two; batches of varying size add new blocks until the largest set of batches alive at "
        "once is covered",
        remedies=(
            "lower prefetch_factor: fewer batches are alive at once",
            "give batches one shape (bucket or pad), so that blocks are used again",
            (
                "pin_memory=False if copying to the device is not the limit; "
                "torch.cuda.host_memory_stats() shows what is kept"
            ),
        ),
        figures=("memory", "versions"),
        near=_PINNING,
    ),
    Entry(
        name="device-memory",
        code="crash.device_oom",
        texts=(
            (
                r"(?:CUDA|HIP|XPU|MPS backend) out of memory(?:\. Tried to allocate "
                r"(?P<size>[\d.]+ \wi?B))?"
            ),
            r"\btorch\.(?:cuda\.)?OutOfMemoryError\b",
            r"CUDA error: out of memory",
            r"CUDA ran out of memory outside",
            r"cuda runtime error \(2\)",
            r"(?:CUBLAS|CUDNN)_STATUS_(?:ALLOC_FAILED|INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)",
        ),
        what="the accelerator's own memory is full; the host's memory and the workers are not the "
        "matter",
        why="model, activations and batch together need more than is free on the device, where "
        "another process may hold a part",
        remedies=(
            "lower batch_size, or accumulate gradients over smaller batches",
            "see who else is on the device (nvidia-smi), and end what earlier runs left",
            "evaluate under torch.no_grad(); keep loss.item(), not the loss",
            (
                "PYTORCH_ALLOC_CONF=expandable_segments:True (before torch 2.9 "
                "PYTORCH_CUDA_ALLOC_CONF) if much is reserved but unallocated"
            ),
        ),
        figures=("versions",),
        far=rf"CUDA error: out of memory[\s\S]*(?:{_PINNING})"
        rf"|(?:{_PINNING})[\s\S]*CUDA error: out of memory",
    ),
    Entry(
        name="fork-memory",
        code="crash.host_oom",
        texts=(r"\[Errno 12\] Cannot allocate memory",),
        what="a worker could not be started: there is not enough host memory for a copy of the "
        "main process",
        why="fork asks for as much memory as the main process has, even if most is shared "
        "afterwards; where overcommit is off it has to be there",
        remedies=(
            "start the workers before the large things are loaded",
            "use multiprocessing_context='forkserver' or 'spawn', which start from a small process",
            "use fewer workers, or allow overcommit: sysctl vm.overcommit_memory=1",
        ),
        figures=("memory",),
        near=r"os\.fork\(\)|popen_fork|fork_exec|in _launch",
    ),
    Entry(
        name="host-memory",
        code="crash.host_oom",
        texts=(
            (
                r"DefaultCPUAllocator: (?:can't allocate memory|not enough memory)(?:: you tried "
                r"to allocate (?P<bytes>\d+) bytes)?"
            ),
            r"Unable to allocate [\d.]+ \wi?B for an array with shape",
            r"^(?:numpy\.\S+\.)?_?(?:Array)?MemoryError\b",
            r"\[Errno 12\] (?:Cannot allocate memory|Not enough space)",
            r"std::bad_alloc",
            r"ArrowMemoryError|malloc of size \d+ failed",
            r"Failed to allocate \d+ bytes in function 'OutOfMemoryError'",
            r"\(-4:Insufficient memory\)",
        ),
        what="the host's memory (RAM) ran out, not the accelerator's",
        why="main process, workers and the batches that wait share it, and something asked for "
        "more than is left; a huge single figure is mostly a wrong shape or a broken file's header",
        remedies=(
            _LESS,
            "see whether memory grows from epoch to epoch: a cache in the dataset, kept outputs",
            "if the size asked for is absurd: check the shape or the file that the line works on",
        ),
        figures=("memory", "memory_kills"),
        far=r"os\.fork\(\)|popen_fork|in _launch|unable to mmap",
        in_own_code=True,
    ),
)
