"""What is seen from the shape of a text and not from its words: hangs, hidden errors, lengths.

`feedrate.doctor.hanging` and `feedrate.doctor.explaining` decide which of them applies; their
``texts`` are empty, so that no line alone makes one.
"""

from __future__ import annotations

from feedrate.doctor.entry import Entry

_DUMP = "py-spy dump --pid MAIN --subprocesses (add --native for libraries)"

UNKNOWN = Entry(
    name="unknown",
    code="unknown",
    texts=(),
    what="{quote}{place}",
    why="feedrate does not know this error, and does not guess",
    remedies=(
        (
            "read the line that is named: it is the innermost one of your own code, or of the "
            "library that failed"
        ),
        "run once with num_workers=0, where the traceback is whole and a debugger can stop",
    ),
    figures=("versions",),
)
MASKED = Entry(
    name="exception-without-traceback",
    code="crash.exception_masked",
    texts=(),
    what="an error of a worker came without its traceback, so that it does not say where: {quote}",
    why="torch puts the worker's traceback into the exception's text, and this class shows a text "
    "of its own instead",
    remedies=(
        "run with num_workers=0, where the traceback is whole",
        "let the class show what it is given (call super().__init__(message), no fixed __str__)",
    ),
    figures=("versions",),
)
DUPLICATES = Entry(
    name="iterable-duplicates",
    code="correctness.iterable_duplicates",
    texts=(),
    what="an IterableDataset delivers its items several times: {told} announced, {came} came",
    why="every worker iterates the whole dataset unless __iter__ divides it among them, and each "
    "item is then trained on once for each worker",
    remedies=(
        (
            "divide in __iter__: islice(items, info.id, None, info.num_workers) with "
            "torch.utils.data.get_worker_info()"
        ),
        "give each worker its own shards",
    ),
    severity="warning",
    role="note",
)
ROUNDING = Entry(
    name="iterable-rounding",
    code="len_rounding",
    texts=(),
    what="an IterableDataset delivered a little more than its length announces: {told} announced, "
    "{came} came",
    why="each worker ends with a batch of its own that may be short, so that several workers make "
    "a few more batches than one; no item comes twice because of it",
    remedies=(
        "nothing; were it a multiple of the announced length, workers would repeat the items",
    ),
    severity="info",
    role="note",
)
STUCK = Entry(
    name="hang-in-item",
    code="crash.worker_stuck",
    texts=(),
    what="a worker stands in {place}, and the main process waits for its batch",
    why="torch delivers in order, so one item that does not come holds back everything behind it",
    remedies=(
        "take a second dump: where the same line stands again, it does not return",
        (
            "if that line calls OpenCV, NumPy or a logger: cv2.setNumThreads(0) and "
            "OMP_NUM_THREADS=1, or the start method forkserver"
        ),
        "give the read there a timeout and a retry of its own",
        "set timeout= on the loader, so that it ends instead of hanging",
    ),
    figures=("cpus",),
)
WAITING = Entry(
    name="hang-main-waits",
    code="crash.worker_stuck",
    texts=(),
    what="the main process waits for a batch of its workers, and no stack of a worker is here",
    why="it is a worker that does not deliver; only its own stack says where it stands",
    remedies=(f"dump the workers too: {_DUMP}", "set timeout= on the loader"),
)
LOST = Entry(
    name="hang-nobody-works",
    code="crash.batch_lost",
    texts=(),
    what="the main process waits for a batch, and its workers wait for work: a batch was lost",
    why="a worker could not send it (its queue's own thread failed to pickle it, or had no "
    "descriptors or shared memory left), and torch waits for ever",
    remedies=(
        "look in the worker's output for a traceback with _feed in it",
        "let the dataset or collate_fn return tensors, numbers and strings",
        "set timeout= on the loader",
    ),
    figures=("shm", "descriptors"),
)
FORK_DEADLOCK = Entry(
    name="hang-after-fork",
    code="crash.fork_deadlock",
    texts=(),
    what="a worker waits for a lock or for threads that its fork did not bring along: {place}",
    why="a fork copies one thread only, so a lock that another one held stays locked, and the "
    "thread pools of OpenCV, OpenMP and logging have no threads in the worker",
    remedies=(
        "cv2.setNumThreads(0) and OMP_NUM_THREADS=1 before the workers start",
        (
            "multiprocessing_context='forkserver' or 'spawn' (needs a dataset that can be pickled, "
            "and a main guard)"
        ),
        "start the workers before other threads (loggers, pinning of another loader) are at work",
    ),
    figures=("start_method", "versions"),
)
START_HANG = Entry(
    name="hang-at-start",
    code="crash.worker_start_hang",
    texts=(),
    what="the start of a worker hangs: {place}",
    why="spawn and forkserver pickle the dataset for each worker in turn, and the worker imports "
    "the script again; with fork a lock can be held",
    remedies=(
        "take a second dump: a large dataset that is pickled moves on, a lock does not",
        "keep the dataset small: names of files and flat arrays instead of Python objects",
        "guard the script with if __name__ == '__main__'",
    ),
    figures=("start_method",),
)

ENTRIES = (
    UNKNOWN,
    MASKED,
    DUPLICATES,
    ROUNDING,
    STUCK,
    WAITING,
    LOST,
    FORK_DEADLOCK,
    START_HANG,
)
