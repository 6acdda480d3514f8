"""Workers that died, or fell silent: by a signal, by an exit, by a wait that never ends."""

from __future__ import annotations

from feedrate.doctor.entry import Entry

_KILLED = r"worker \(pid(?:\(s\))? ?(?P<pid>[^)]*)\) is killed by signal: "
_ONE_BY_ONE = (
    "fetch the items one by one in the main process (num_workers=0) under PYTHONFAULTHANDLER=1: "
    "the crash then shows its item and its line"
)
_UPDATE = "update or replace the library that the stack shows (image, video or array code)"
_SMALLER = "use fewer workers, a smaller prefetch_factor or a smaller batch"

ENTRIES = (
    Entry(
        name="worker-killed",
        code="crash.worker_sigkill",
        texts=(_KILLED + r"Killed",),
        what="a worker (pid {pid}) was killed from outside (SIGKILL), as the kernel does when the "
        "machine or the container is out of memory",
        why="the out-of-memory killer ends a process without a word, so the worker left no "
        "traceback; a person or a job scheduler can send the same signal",
        remedies=(
            (
                f"{_SMALLER}: each worker holds its own batches and, in time, its own copies of "
                "Python objects"
            ),
            "stop what grows in the workers: a cache or list in the dataset, files left open",
            "give the container or the job more memory",
        ),
        figures=("memory_kills", "memory"),
    ),
    Entry(
        name="worker-bus-error",
        code="crash.shm_exhausted",
        texts=(_KILLED + r"Bus error", r"Unexpected bus error encountered in worker"),
        what="a worker got a bus error, as it does when shared memory (/dev/shm) is full",
        why="workers hand batches over in files in /dev/shm; a write into one that has no room "
        "left ends the worker",
        remedies=(
            (
                "enlarge /dev/shm: docker run --shm-size=8g (or --ipc=host), in Kubernetes an "
                "emptyDir with medium: Memory at /dev/shm"
            ),
            f"{_SMALLER}: workers × prefetch_factor batches wait there at once",
            "let feedrate.DataLoader carry the batches: its arena is not bounded by /dev/shm",
            "if /dev/shm has room: a memory-mapped data file was cut shorter while it was read",
        ),
        figures=("shm",),
    ),
    Entry(
        name="worker-segfault",
        code="crash.worker_segfault",
        texts=(
            _KILLED + r"Segmentation fault",
            r"Unexpected segmentation fault encountered in worker",
        ),
        what="a worker crashed in native code (Segmentation fault)",
        why="a library's compiled code touched memory that is not its own: a broken file, a bug, "
        "or a handle or thread pool that did not survive the fork",
        remedies=(_ONE_BY_ONE, _UPDATE, "open files and libraries' handles in the worker"),
        figures=("versions", "start_method"),
    ),
    Entry(
        name="worker-arithmetic",
        code="crash.worker_segfault",
        texts=(
            _KILLED + r"(?:Floating[ -]point exception|Arithmetic exception)",
            r"Unexpected floating-point exception encountered in worker",
        ),
        what="a worker crashed in native code (Floating point exception, mostly an integer that "
        "was divided by 0)",
        why="compiled code divided by zero: an item of size 0, or a broken file, gets there",
        remedies=(_ONE_BY_ONE, _UPDATE),
        figures=("versions",),
    ),
    Entry(
        name="worker-aborted",
        code="crash.worker_abort",
        texts=(_KILLED + r"(?:Aborted|Abort trap)",),
        what="a worker ended itself (Aborted): native code met a state that it cannot go on from",
        why="C and C++ libraries abort on a failed assertion, on an exception that nobody catches "
        "and on damaged memory; what they say stands above, in the worker's own output",
        remedies=(
            (
                "read the lines just above: 'terminate called', an assertion or a malloc message "
                "name the library"
            ),
            _ONE_BY_ONE,
            _UPDATE,
        ),
        figures=("versions", "memory"),
    ),
    Entry(
        name="worker-illegal-instruction",
        code="crash.illegal_instruction",
        texts=(_KILLED + r"Illegal instruction", r"Illegal instruction +\(core dumped\)"),
        what="a process met an instruction that this CPU does not have (Illegal instruction)",
        why="a library was built for a newer CPU than the one that runs it",
        remedies=(
            "install that library for this CPU: its generic wheel, or built from source here",
            _ONE_BY_ONE,
        ),
        figures=("versions",),
    ),
    Entry(
        name="worker-terminated",
        code="crash.worker_terminated",
        texts=(
            _KILLED + r"(?P<signal>Terminated|Hangup|Interrupt|Quit|User defined signal|Alarm)",
        ),
        what="a worker (pid {pid}) was told to end from outside ({signal})",
        why="nothing crashed: a job scheduler, a launcher that ends all ranks after one failed, "
        "a closed terminal or a person ended it",
        remedies=(
            (
                "look for what ended it: the job's time limit or preemption, and the first error "
                "of another rank"
            ),
            "if the program itself ends its children: close the loader's iterator first",
        ),
        figures=("memory_kills",),
        role="symptom",
    ),
    Entry(
        name="worker-signal",
        code="crash.worker_terminated",
        texts=(_KILLED + r"(?P<signal>[^.]+)",),
        what="a worker (pid {pid}) was ended by a signal ({signal})",
        why="a signal of this kind comes from outside, or from a library that sends it",
        remedies=("look for who sends this signal: the scheduler, a debugger, a timer",),
        role="symptom",
    ),
    Entry(
        name="worker-exit-code",
        code="crash.worker_exit",
        texts=(r"worker \(pid [^)]*\) exited unexpectedly with exit code (?P<exit>\d+)",),
        what="a worker ended by itself with exit code {exit}, and torch has lost the reason",
        why="it could not start (an import or the unpickling failed: its own traceback stands "
        "further above), or code in it called exit()",
        remedies=(
            "read the traceback that the worker printed above this one",
            "run with num_workers=0, where the same error has its whole traceback",
            "do not call sys.exit() or os._exit() in the dataset, transforms or collate_fn",
        ),
        figures=("start_method", "memory_kills"),
        role="symptom",
    ),
    Entry(
        name="worker-exited",
        code="crash.worker_exit",
        texts=(r"worker \(pid(?:\(s\))? ?(?P<pid>[^)]*)\) exited unexpectedly(?! with exit code)",),
        what="a worker (pid {pid}) was gone before its batch came, and torch does not say why",
        why="it was killed, it crashed, it could not start, or it called exit(): its exit code "
        "tells which, and this text has none",
        remedies=(
            "read what the worker itself printed above, and dmesg for a memory kill",
            "run with num_workers=0, where an exception has its whole traceback",
            "on Windows and macOS: guard the script with if __name__ == '__main__'",
        ),
        figures=("memory_kills", "memory", "shm", "start_method"),
        role="symptom",
    ),
    Entry(
        name="worker-timeout",
        code="crash.worker_stuck",
        texts=(r"DataLoader timed out after (?P<seconds>[\d.]+|\w+) seconds",),
        what="no batch came for {seconds} s, the loader's own timeout: a worker is stuck on an "
        "item, or items take longer than that",
        why="torch delivers in order, so one slow read (network storage, a lock, a remote server) "
        "holds back everything behind it",
        remedies=(
            (
                "see where the workers stand: py-spy dump --pid MAIN --subprocesses | feedrate "
                "explain -"
            ),
            "give the read in __getitem__ a timeout and a retry of its own",
            "raise timeout= if a batch may take that long; keep one, or it hangs in silence",
        ),
        figures=("cpus",),
    ),
)
