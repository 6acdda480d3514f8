"""What the measuring process and its child say to each other: one JSON line a message.

The parent sends one `ChildSpec`; the child answers with any number of messages. JSON lines
instead of pickles: the parent must not import the user's code, nor torch, to read them.
"""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from feedrate.measure.causes.inspection import Caused, Causes
from feedrate.measure.examined import Part
from feedrate.memory_records import BatchCarried, DeviceReading, IndexList
from feedrate.records import Choice, DevicePeaks, Epoch, LoaderFacts, LoaderUse, RunError, Window
from feedrate.settings import LoaderSettings


class ScriptSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A training script to run as ``__main__``: a path, or with ``module`` a module's name."""

    place: str
    argv: tuple[str, ...] = ()
    module: bool = False


class Look(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Find the training loader; measure it as it is for ``seconds``, then fed by one batch."""

    seconds: float
    loader: int | None = None


class Ramp(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Let the loader's workers grow as ``num_workers="auto"`` does, until settled or time is up.

    ``ram_bytes`` is what the main process, its workers and the batches that wait may take together,
    ``shm_bytes`` what of it may be in ``/dev/shm``. ``trained``: only iterations count in which an
    optimizer steps. A loader whose workers cannot come and go fails with the kind "fixed_workers".
    """

    seconds: float
    loader: int
    most_workers: int
    tolerance: float
    ram_bytes: int | None = None
    shm_bytes: int | None = None
    trained: bool = False


class Static(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Measure the loader for ``seconds`` with the spec's settings, or its own where these are None.

    The first batches and start-up are kept apart. ``trained``: only iterations count in which an
    optimizer steps, as the loader's ``optimizer_steps`` in the look tell that they do.
    ``epoch_batches`` is how many batches an epoch has with the loader's own settings. Of an
    IterableDataset that is looked for here too, for its items are as many as its workers make them.
    """

    seconds: float
    loader: int
    trained: bool = False
    epoch_batches: int | None = None


class Leaks(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Stop at equal phases of the training loader's epochs, for memory to be read from outside.

    It ends when the answer to a `Mark` is `STOP`, after ``seconds``, or after ``epochs`` passes.
    ``max_batches`` cuts each pass of a factory's loader. ``fewest`` is how many passes have to be
    looked at for a verdict; beyond those the stops are to take no more than ``duty`` of the time.
    """

    seconds: float
    fewest: int
    loader: int | None = None
    epochs: int | None = None
    max_batches: int | None = None
    duty: float = 0.005


class Examine(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Try the training loader and its dataset, until ``until`` (`time.time`) at most.

    ``seconds`` is the whole budget, by which the parts are sized. ``cpus`` are the numbers of the
    CPUs on which the child begins, () where they are not known.
    """

    until: float
    seconds: float
    loader: int | None = None
    cpus: tuple[int, ...] = ()


Session = Look | Ramp | Static | Leaks | Causes | Examine


class ChildSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one child needs to know.

    ``target`` is ``file.py:name`` or ``package.module:name``; ``pickled`` is used in its place for
    an object handed over from Python that has no such name (cloudpickle, base64). ``arguments``
    are passed to the factory by keyword (feedrate's own experiments use it). With a ``session``
    the target is run until that is complete, and ``epochs`` does not count; ``script`` takes the
    place of the target then.
    """

    target: str
    settings: LoaderSettings | None
    epochs: int
    pickled: str | None = None
    arguments: dict[str, Any] = {}
    step: str | None = None
    step_seconds: float | None = None
    max_batches: int | None = None
    device: str = "auto"
    seed: int | None = None
    search_path: tuple[str, ...] = ()
    script: ScriptSpec | None = None
    session: Session | None = None


class Started(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The first message: the process in which the user's code will run."""

    pid: int


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The target is imported and its factory has returned; nothing is iterated yet."""

    setup_seconds: float
    facts: LoaderFacts
    versions: dict[str, str]
    accelerator: str | None = None
    default_start_method: str | None = None


class Progress(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Sent at the first batch of each epoch, and then at most every fifth of a second."""

    epoch: int
    batches: int


class EpochDone(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An epoch has ended. ``facts`` is complete once a batch has been seen."""

    epoch: Epoch
    facts: LoaderFacts


class WindowDone(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A window has ended."""

    window: Window


class Chosen(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A search has decided something."""

    choice: Choice


class Used(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What a session's loaders did; sent at its end, also when the script ends before it.

    ``startup_seconds`` is the time from ``iter()`` to the measured loader's first batch.
    """

    loaders: tuple[LoaderUse, ...]
    training_loader: int | None
    startup_seconds: float | None = None


class Mark(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The loop stands still, for its memory to be read; it goes on when this is answered.

    ``loader`` is the loader's number, ``epoch`` which of its passes it is, from 0 on, ``batches``
    how many it gave in that pass, ``items`` how many in all passes. ``length`` is how many batches
    the pass should have, where that is known. With ``is_end`` it has given all it will. No other
    mark follows one that ``is_last``.
    ``workers`` are the pids of the loader's own, ``None`` where that cannot be told, and ``forked``
    whether they began with this process's pages.
    ``device_free`` is what the device has left in bytes. ``carried`` and ``indices`` are what was
    seen of batches and of the sampler by then. ``readable`` is the size of the Python objects that
    forked workers may read, ``None`` where it is not known. ``stood`` is how many seconds the loop
    has stood still at the marks before this one.
    """

    loader: int
    epoch: int
    batches: int
    items: int
    length: int | None
    is_end: bool
    is_last: bool = False
    workers: tuple[int, ...] | None = None
    forked: bool = False
    device: DeviceReading | None = None
    device_free: int | None = None
    carried: BatchCarried | None = None
    indices: IndexList | None = None
    readable: int | None = None
    stood: float = 0.0


class Examined(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A part of an examination is known."""

    part: Part


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The child could not go on; it ends after this."""

    error: RunError


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """All epochs were measured."""

    device: DevicePeaks | None = None


Message = (
    Started
    | Ready
    | Progress
    | EpochDone
    | WindowDone
    | Chosen
    | Used
    | Mark
    | Caused
    | Examined
    | Failed
    | Finished
)

GO, REST, STOP = b"G", b"R", b"S"
"""The answers to a `Mark`: the loop goes on; everything is known, and it goes on without marks
until looking has taken its share at most; or it is to end."""

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


def encode(message: Message) -> bytes:
    """Return the message as one line, with its line feed.

    Text that is no Unicode, such as the name of a file in a traceback, is escaped.
    """
    try:
        return _encoder.encode(message) + b"\n"
    except UnicodeEncodeError:
        return msgspec.json.encode(_printable(msgspec.to_builtins(message))) + b"\n"


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {key: _printable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_printable(each) for each in value]
    return value


def decode(line: bytes) -> Message:
    """Read one line.

    Raises:
        msgspec.MsgspecError: the line is not a message.
    """
    return _decoder.decode(line)


def pack_object(data: bytes) -> str:
    """Return pickled bytes as text that fits into a `ChildSpec`."""
    return base64.b64encode(data).decode("ascii")


def unpack_object(text: str) -> bytes:
    """Undo `pack_object`."""
    return base64.b64decode(text)
