"""Limits on open files, processes and threads."""

from __future__ import annotations

from feedrate.doctor.entry import Entry

ENTRIES = (
    Entry(
        name="descriptors-of-system",
        code="crash.too_many_files",
        texts=(r"Too many open files in system", r"\[Errno 23\]"),
        what="the whole machine has as many files open as its kernel allows",
        why="that limit is fs.file-max, not ulimit -n; a program that opens files without end "
        "reaches it",
        remedies=(
            "find which program holds them: lsof -n | cut -d' ' -f1 | sort | uniq -c",
            "raise sysctl fs.file-max",
        ),
        figures=("descriptors",),
    ),
    Entry(
        name="descriptors-of-process",
        code="crash.too_many_files",
        texts=(
            r"Too many open files",
            r"received \d+ items of ancdata",
            r"\[Errno 24\]",
            r"\bEMFILE\b",
        ),
        what="a process has as many files open as it may (ulimit -n)",
        why="every tensor of a batch that waits or is kept takes a descriptor, and a dataset that "
        "opens a file for each item and never closes it takes one more each",
        remedies=(
            "raise the limit: ulimit -n 65536 in the shell that starts the training",
            (
                "close files in __getitem__ (with open(...)), and keep no batch or part of one "
                "(clone() what is kept)"
            ),
            "torch.multiprocessing.set_sharing_strategy('file_system') at the program's start",
        ),
        figures=("descriptors",),
        far=r"unable to (?:open|mmap|stat)[^\n]*Too many open files",
    ),
    Entry(
        name="processes-used-up",
        code="crash.process_limit",
        texts=(
            r"can't start new thread",
            r"libgomp: Thread creation failed",
            r"pthread_create failed",
            r"fork: (?:retry: )?Resource temporarily unavailable",
            r"fork: (?:retry: )?Cannot allocate memory",
            r"what\(\): +Resource temporarily unavailable",
        ),
        what="no further process or thread can be started",
        why="each worker has threads of its own, and BLAS, OpenMP and OpenCV add one for each CPU: "
        "their product has reached ulimit -u, the container's pids limit, or memory",
        remedies=(
            (
                "use fewer workers, and OMP_NUM_THREADS=1 (OPENBLAS_NUM_THREADS, MKL_NUM_THREADS, "
                "cv2.setNumThreads(0)) in them"
            ),
            "raise ulimit -u, or the container's pids limit (docker run --pids-limit)",
            "end the workers that earlier runs left: ps -ef",
        ),
        figures=("processes", "cpus", "memory"),
    ),
    Entry(
        name="fork-refused",
        code="crash.process_limit",
        texts=(r"BlockingIOError: \[Errno 11\] Resource temporarily unavailable",),
        what="no further process can be started",
        why="as many run already as ulimit -u or the container's pids limit allows",
        remedies=(
            "use fewer workers, and end those that earlier runs left: ps -ef",
            "raise ulimit -u, or the container's pids limit (docker run --pids-limit)",
        ),
        figures=("processes",),
        near=r"os\.fork\(\)|popen_fork|_posixsubprocess|fork_exec|start\(\)",
        far=r"h5py|unable to lock file",
    ),
)
