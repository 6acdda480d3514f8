"""How whole processes end: the main process, ranks under a launcher, what the kernel logs."""

from __future__ import annotations

from feedrate.doctor.entry import Entry

_LOADER = r"_worker_loop"
_RANK = "see whether each rank starts num_workers workers: the host holds ranks × workers of them"

ENTRIES = (
    Entry(
        name="kernel-memory-kill",
        code="crash.host_oom",
        texts=(
            r"oom[-_ ]kill(?:er)? (?:event|invoked)",
            r"invoked oom-killer",
            r"[Oo]ut of memory: Kill(?:ed)? process",
            r"\bOOMKilled\b",
            r"Exceeded (?:job|step) memory limit",
            (
                r"Some of (?:your processes|the step tasks) (?:may )?have been (?:killed by the "
                r"cgroup out-of-memory handler|OOM Killed)"
            ),
        ),
        what="the kernel killed a process because memory ran out",
        why="the machine, the container or the job reached its memory limit; which process is "
        "killed is the kernel's choice, mostly the largest",
        remedies=(
            "use fewer workers, a smaller prefetch_factor or a smaller batch",
            (
                "stop what grows: caches in the dataset, kept losses, lists of Python objects that "
                "every worker copies"
            ),
            "ask for more memory",
        ),
        figures=("memory_kills", "memory"),
    ),
    Entry(
        name="process-killed",
        code="crash.main_killed",
        texts=(
            r"^(?:.*: line \d+: +\d+ |\[\d+\] +\d+ )?[Kk]illed(?: {2,}.*| *\(core dumped\))?$",
            r"exitcode ?: -9\b",
            r"Signal 9 \(SIGKILL\)",
            r"terminated with signal SIGKILL",
            r"exit(?:ed with)? (?:exit )?(?:code|status):? 137\b",
            r"return code = -9\b",
            r"died with <Signals\.SIGKILL: 9>",
        ),
        what="the training process itself (or a rank) was killed from outside (SIGKILL)",
        why="that is mostly the kernel's out-of-memory killer, which leaves no traceback; job "
        "schedulers and people send the same signal",
        remedies=(
            "look into dmesg, or the scheduler's log, for a memory kill",
            "stop what grows in the main process: kept losses, graphs and outputs",
            _RANK,
        ),
        figures=("memory_kills", "memory"),
    ),
    Entry(
        name="process-bus-error",
        code="crash.shm_exhausted",
        texts=(
            r"^(?:.*: line \d+: +\d+ )?Bus error\b",
            r"exitcode ?: -7\b",
            r"Signal 7 \(SIGBUS\)",
            r"terminated with signal SIGBUS",
            r"Fatal Python error: Bus error",
            r"exit(?:ed with)? (?:exit )?(?:code|status):? 135\b",
        ),
        what="a process got a bus error, as it does when shared memory (/dev/shm) is full",
        why="batches of the workers and NCCL's buffers live in /dev/shm; touching a part for "
        "which there is no room ends the process",
        remedies=(
            "enlarge /dev/shm: docker run --shm-size=8g (or --ipc=host)",
            "use fewer workers, a smaller prefetch_factor or a smaller batch",
            "if /dev/shm has room: a memory-mapped data file was cut shorter while it was read",
        ),
        figures=("shm",),
    ),
    Entry(
        name="worker-fault-handler",
        code="crash.worker_segfault",
        texts=(
            (
                r"Fatal Python error: (?P<signal>Segmentation fault|Illegal instruction|"
                r"Floating[- ]point exception)"
            ),
        ),
        what="a worker crashed in native code ({signal}); the stack below that line shows in which "
        "call",
        why="a library's compiled code failed on an item: a broken file, a bug, or a handle or "
        "thread pool that did not survive the fork",
        remedies=(
            "fetch the items of that batch one by one with num_workers=0 to find the one",
            "update or replace the library at the top of that stack",
        ),
        figures=("versions",),
        near=_LOADER,
    ),
    Entry(
        name="main-crashed",
        code="crash.main_crashed",
        texts=(
            (
                r"Fatal Python error: (?P<signal>Segmentation fault|Illegal instruction|Aborted|"
                r"Floating[- ]point exception)"
            ),
            r"^(?:.*: line \d+: +\d+ )?(?P<signal2>Segmentation fault|Aborted) *\(core dumped\)",
            r"exitcode ?: -(?:11|6)\b",
            r"Signal (?:11|6) \(SIG(?:SEGV|ABRT)\)",
            r"terminated with signal SIG(?:SEGV|ABRT)",
            r"exit(?:ed with)? (?:exit )?(?:code|status):? 13[49]\b",
        ),
        what="the training process (or a rank) crashed in native code",
        why="compiled code of a library, a driver or torch failed; Python has no traceback of it",
        remedies=(
            "run it again under PYTHONFAULTHANDLER=1, which prints the Python line of the crash",
            "read what was printed just above: an assertion, 'terminate called', a CUDA error",
            "update the library that the stack shows, and see that its build fits torch's",
        ),
        figures=("versions",),
        far=_LOADER,
    ),
    Entry(
        name="damaged-heap",
        code="crash.worker_abort",
        texts=(
            (
                r"(?:double free or corruption|corrupted size vs\. prev_size|free\(\): invalid "
                r"(?:pointer|size|next size)|malloc\(\): (?:corrupted|invalid|unaligned)|"
                r"munmap_chunk\(\): invalid pointer|corrupted double-linked list)"
            ),
        ),
        what="native code damaged its own memory, and the C library ended the process",
        why="a library wrote outside of its memory or freed it twice: a bug, two builds that do "
        "not fit, or one file handle used by several processes or threads",
        remedies=(
            "run it again under PYTHONFAULTHANDLER=1 to see which call it was in",
            "update that library, or change the order of imports if two bring the same one",
            "open files in the worker, not before",
        ),
        figures=("versions",),
    ),
    Entry(
        name="native-exception",
        code="crash.worker_abort",
        texts=(
            r"terminate called after throwing an instance of '(?!std::bad_alloc)(?P<kind>\S+)'",
        ),
        what="native code raised an error that nobody caught ({kind}), which ends the process",
        why="an exception of C++ crossed a place that cannot hand it to Python; its what() line "
        "says what it was",
        remedies=(
            "read the what() line below it",
            "run it again under PYTHONFAULTHANDLER=1 to see which call it was in",
        ),
        figures=("versions",),
        role="symptom",
    ),
    Entry(
        name="openmp-twice",
        code="crash.openmp_twice",
        texts=(r"OMP: Error #15: Initializing (?P<library>\S+?),? but found",),
        what="two OpenMP libraries are loaded in one process ({library} twice), and it ended",
        why="conda's and pip's builds of NumPy, torch or OpenCV bring one each",
        remedies=(
            "install these packages from one source only, all by pip or all by conda",
            "KMP_DUPLICATE_LIB_OK=TRUE lets it go on, at the risk of crashes and wrong results",
        ),
        figures=("versions",),
    ),
    Entry(
        name="launcher",
        code="crash.child_failed",
        texts=(
            r"\bChildFailedError\b|\bProcessRaisedException\b|\bRayTaskError\b",
            r"CalledProcessError: Command .* returned non-zero exit status (?P<exit>\d+)",
            r"exitcode ?: (?P<exit2>[1-9]\d*) \(pid: ",
        ),
        what="a launcher says that a program which it started has failed (exit code {exit})",
        why="a launcher knows the exit code and nothing else; the error is in the output of that "
        "program",
        remedies=(
            "explain the failed rank's own output (torchrun --log-dir DIR --tee 3 keeps it)",
            (
                "decorate main() with torch.distributed.elastic.multiprocessing.errors.record, "
                "which puts the traceback into the launcher's table"
            ),
        ),
        role="symptom",
    ),
    Entry(
        name="rank-ended",
        code="crash.rank_lost",
        texts=(
            r"ProcessGroupNCCL|NCCL (?:error|timeout|WARN)|ncclRemoteError|ncclSystemError",
            r"Watchdog caught collective operation timeout",
            r"Connection closed by peer",
            r"DistBackendError|DistNetworkError|DistStoreError",
            r"exitcode ?: -15\b",
            r"Signal 15 \(SIGTERM\)",
            r"Sending process \d+ closing signal SIGTERM",
        ),
        what="a rank waited in vain for another one",
        why="another rank failed first or hangs, often in its data loading, or the ranks have "
        "different numbers of batches; this text is only what the others noticed",
        remedies=(
            "find the rank that failed first and explain its own output",
            "give every rank the same number of batches (DistributedSampler, drop_last)",
            "if none failed: one rank's loader is slower than the timeout allows",
        ),
        figures=("memory_kills",),
        role="symptom",
    ),
)
