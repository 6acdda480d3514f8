"""Files and databases that were opened before the fork and are read by several workers."""

from __future__ import annotations

from feedrate.doctor.entry import Entry

_IN_WORKER = r"DataLoader worker|_worker_loop|_utils[/\\]fetch\.py|num_workers"
_WHY = (
    "a handle that was opened before the fork is one handle in all workers: they share its "
    "position and its cache, and each moves it under the others"
)
_LAZILY = (
    "open the file lazily in the worker: on first use in __getitem__, not in __init__ (and not "
    "with len() in the main process)"
)
_HDF5 = (
    r"bad object header version number|wrong B-tree signature|wrong fractal heap|bad local heap|"
    r"bad symbol table|inflate\(\) failed|addr overflow|wrong fletcher32|bad heap magic|"
    r"Can't (?:synchronously )?read data|unable to decode"
)

ENTRIES = (
    Entry(
        name="hdf5-shared",
        code="correctness.handle_shared_over_fork",
        texts=(_HDF5,),
        what="an HDF5 file (h5py) gave data that makes no sense, in a worker: {quote}",
        why=f"{_WHY}; h5py and HDF5 before 2.0 then read wrong bytes",
        remedies=(
            _LAZILY,
            "multiprocessing_context='spawn', where each worker opens its own",
            "read the item with num_workers=0: if it fails there too, the file is broken",
        ),
        figures=("start_method",),
        near=_IN_WORKER,
    ),
    Entry(
        name="hdf5-broken",
        code="crash.data_corrupt",
        texts=(
            r"truncated file: eof = \d+",
            r"file signature not found",
            _HDF5,
        ),
        what="an HDF5 file is broken or incomplete: {quote}",
        why="a download or a program that writes it ended too early, or a part was overwritten",
        remedies=(
            "make or download the file again, and compare its size",
            "h5check or h5ls -r FILE",
        ),
        far=rf"(?:{_IN_WORKER})[\s\S]*(?:{_HDF5})|(?:{_HDF5})[\s\S]*(?:{_IN_WORKER})",
        in_own_code=True,
    ),
    Entry(
        name="file-locked",
        code="crash.file_locked",
        texts=(
            r"unable to lock file, errno = \d+",
            r"The environment '.*' is already open in this process",
            r"database is locked",
        ),
        what="a file could not be opened, since somebody else holds its lock: {quote}",
        why="another process (or another handle in this one) has it open for writing, or its file "
        "system cannot lock",
        remedies=(
            "open it read-only (mode='r', readonly=True, lock=False) in every reader",
            "HDF5_USE_FILE_LOCKING=FALSE on network storage, if nobody writes",
            "end what earlier runs left: ps -ef, lsof FILE",
        ),
        in_own_code=True,
    ),
    Entry(
        name="lmdb-readers",
        code="crash.lmdb_readers",
        texts=(r"MDB_READERS_FULL", r"lmdb\.ReadersFullError"),
        what="an LMDB environment has more readers than it was opened for (126 by default)",
        why="each worker, and each thread in it, takes a slot; workers that died keep theirs",
        remedies=(
            "lmdb.open(..., lock=False, readonly=True), which needs no slots",
            "lmdb.open(..., max_readers=N) with room for all workers of all ranks",
        ),
        figures=("cpus",),
    ),
    Entry(
        name="lmdb-shared",
        code="correctness.handle_shared_over_fork",
        texts=(r"MDB_BAD_RSLOT|MDB_BAD_TXN|MDB_BAD_DBI|MDB_PANIC|BadRslotError|MDB_PAGE_NOTFOUND",),
        what="an LMDB environment was used after a fork, or by two threads at once: {quote}",
        why=f"{_WHY}; LMDB does not allow an environment that was opened before a fork",
        remedies=(
            _LAZILY.replace("the file", "the environment"),
            "lmdb.open(..., readonly=True, lock=False, readahead=False) in each worker",
        ),
        figures=("start_method",),
    ),
    Entry(
        name="lmdb-broken",
        code="crash.data_corrupt",
        texts=(r"MDB_CORRUPTED|MDB_INVALID|MDB_VERSION_MISMATCH|lmdb\.(?:Corrupted|Invalid)Error",),
        what="an LMDB file is broken, or none: {quote}",
        why="it was not written to its end, was copied while it was written, or the path is wrong",
        remedies=("make or copy it again", "check the path and subdir="),
        in_own_code=True,
    ),
    Entry(
        name="zip-shared",
        code="correctness.handle_shared_over_fork",
        texts=(
            r"Bad magic number for file header",
            r"Bad CRC-32 for file",
            r"File name in directory .* and header .* differ",
            r"Overlapped entries",
        ),
        what="an archive gave data that makes no sense, in a worker: {quote}",
        why=_WHY,
        remedies=(
            _LAZILY,
            "read the item with num_workers=0: if it fails there too, the archive is broken",
        ),
        figures=("start_method",),
        near=_IN_WORKER,
    ),
    Entry(
        name="database-shared",
        code="correctness.handle_shared_over_fork",
        texts=(
            r"SSL(?:Error)?.*(?:decryption failed or bad record mac|bad record mac)",
            r"SQLite objects created in a thread can only be used in that same thread",
            r"database disk image is malformed",
            r"MySQL server has gone away|lost synchronization with server",
            r"MongoClient opened before fork",
        ),
        what="a connection was used by several processes or threads: {quote}",
        why="a connection that was opened before the fork is one connection in all workers, whose "
        "questions and answers get mixed",
        remedies=("connect in the worker: on first use in __getitem__, or in worker_init_fn",),
        figures=("start_method",),
        in_own_code=True,
    ),
)
