"""FashionMNIST's files: found, made synthetically, or fetched.

Nothing here imports torch. The files lie where `torchvision.datasets.FashionMNIST` looks for
them, ``data_dir/FashionMNIST/raw``, in the IDX format: a big-endian header (two zero bytes, the
element type, the number of dimensions, then each dimension as 32 bits) and the bytes themselves.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from feedrate.errors import OutputError, TargetError
from feedrate.experiments.vision import require_vision

Origin = Literal["original", "synthetic"]

CLASSES = 10
SIDE = 28
_BLOBS = 4  # bright spots in each image: enough for shapes that differ by class
_CHUNK = 10_000  # images made at once: bounds the float intermediates at about 30 MB
_MARKER = "synthetic.json"
_UNSIGNED_BYTE = 0x08


@dataclass(frozen=True, slots=True)
class IdxFile:
    """One of the four files: its name and the shape of its unsigned bytes."""

    name: str
    shape: tuple[int, ...]

    @property
    def header(self) -> bytes:
        """The bytes that come before the elements."""
        return struct.pack(
            f">BBBB{len(self.shape)}I", 0, 0, _UNSIGNED_BYTE, len(self.shape), *self.shape
        )

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return len(self.header) + int(np.prod(self.shape))


@dataclass(frozen=True, slots=True)
class Split:
    """The images of one part of the data set and their labels."""

    images: IdxFile
    labels: IdxFile


TRAIN = Split(
    IdxFile("train-images-idx3-ubyte", (60_000, SIDE, SIDE)),
    IdxFile("train-labels-idx1-ubyte", (60_000,)),
)
TEST = Split(
    IdxFile("t10k-images-idx3-ubyte", (10_000, SIDE, SIDE)),
    IdxFile("t10k-labels-idx1-ubyte", (10_000,)),
)
FILES = (TRAIN.images, TRAIN.labels, TEST.images, TEST.labels)


class _Marker(msgspec.Struct, frozen=True, kw_only=True):
    """Written beside synthetic files, so that no result passes them off as FashionMNIST."""

    about: str = "These IDX files are synthetic: made by feedrate, not FashionMNIST's images."
    seed: int


def raw_folder(data_dir: str | Path) -> Path:
    """Return the folder in which torchvision expects the four files."""
    return Path(data_dir).expanduser() / "FashionMNIST" / "raw"


def present(data_dir: str | Path) -> bool:
    """Return whether all four files are there, each with the header and size it must have."""
    return all(_is_whole(raw_folder(data_dir) / file.name, file) for file in FILES)


def is_synthetic(data_dir: str | Path) -> bool:
    """Return whether the files in ``data_dir`` were (or were begun to be) made by feedrate."""
    return (raw_folder(data_dir) / _MARKER).is_file()


def origin(data_dir: str | Path) -> Origin:
    """Return what the files in ``data_dir`` are, for the result to say so."""
    return "synthetic" if is_synthetic(data_dir) else "original"


def ensure(data_dir: str | Path, synthetic: bool) -> Origin:
    """Make sure that all four files are there, and return what they are.

    Files that are there are used, whatever ``synthetic`` says. Else they are made, or fetched in
    a process of their own, because torchvision imports torch.

    Raises:
        TargetError: the folder holds damaged or foreign files, or they could not be fetched.
        MissingExtra: they are to be fetched, and torchvision is not installed.
        OutputError: the folder cannot be written to.
    """
    if present(data_dir):
        return origin(data_dir)
    if not is_synthetic(data_dir):
        _refuse_damaged(data_dir, synthetic)
    if synthetic:
        write_synthetic(data_dir)
        return "synthetic"
    _fetch(data_dir)
    (raw_folder(data_dir) / _MARKER).unlink(missing_ok=True)
    return "original"


def write_synthetic(data_dir: str | Path, seed: int = 0) -> None:
    """Write four files of FashionMNIST's names, types and sizes: about 55 MB, a few seconds.

    The images are soft bright shapes on black whose places depend on the label, so that a model
    can learn them. The same seed gives the same files.

    Raises:
        TargetError: files are there that feedrate did not make; they are left alone.
        OutputError: the folder cannot be written to.
    """
    folder = raw_folder(data_dir)
    if not is_synthetic(data_dir) and any((folder / file.name).exists() for file in FILES):
        raise TargetError(
            f"{folder} holds files that feedrate did not make, and does not overwrite: "
            "name another folder with --data-dir"
        )
    rng = np.random.default_rng(seed)
    shapes = _class_shapes(rng)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # the marker first: files of an interrupted pass must not look like the original
        _write_whole(folder / _MARKER, msgspec.json.encode(_Marker(seed=seed)))
        for split in (TRAIN, TEST):
            labels = _balanced_labels(rng, split.labels.shape[0])
            images = _draw(rng, shapes, labels)
            _write_whole(folder / split.images.name, split.images.header, images.data)
            _write_whole(folder / split.labels.name, split.labels.header, labels.data)
    except OSError as error:
        raise OutputError(
            f"cannot write the synthetic files to {folder} ({error.strerror}): "
            "name another folder with --data-dir"
        ) from error


def _is_whole(path: Path, file: IdxFile) -> bool:
    try:
        with path.open("rb") as stream:
            found = stream.read(len(file.header))
            return found == file.header and os.fstat(stream.fileno()).st_size == file.size
    except OSError:
        return False


def _refuse_damaged(data_dir: str | Path, synthetic: bool) -> None:
    """Raise for a file that torchvision would take for whole because its name is there."""
    for file in FILES:
        path = raw_folder(data_dir) / file.name
        if path.exists() and not _is_whole(path, file):
            way_out = "name another folder with --data-dir" if synthetic else "remove it"
            raise TargetError(
                f"{path} is not the file of FashionMNIST, which has {file.size:,} bytes: {way_out}"
            )


def _fetch(data_dir: str | Path) -> None:
    require_vision("Fetching FashionMNIST")
    command = [sys.executable, "-m", "feedrate.experiments.download", str(data_dir)]
    result = subprocess.run(
        command, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if result.returncode == 0 and present(data_dir):
        return
    lines = result.stderr.strip().splitlines()
    reason = lines[-1].strip() if lines else f"exit status {result.returncode}"
    raise TargetError(
        f"FashionMNIST is not in {data_dir} and could not be downloaded ({reason}): "
        f"put its four files into {raw_folder(data_dir)}, or pass --synthetic to measure on "
        "made-up files of the same size and type"
    )


def _write_whole(path: Path, *parts: bytes | memoryview) -> None:
    """Write a file that is either not there or whole."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}-", delete=False) as tmp:
        try:
            for part in parts:
                tmp.write(part)
            tmp.close()
            Path(tmp.name).chmod(0o644)  # temporary files are private, data sets are not
            Path(tmp.name).replace(path)
        except BaseException:
            tmp.close()
            Path(tmp.name).unlink(missing_ok=True)
            raise


def _balanced_labels(rng: np.random.Generator, count: int) -> npt.NDArray[np.uint8]:
    """As FashionMNIST: as many images of each class, in random order."""
    return rng.permutation(np.arange(count) % CLASSES).astype(np.uint8)


def _class_shapes(rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """Return where the blobs of each class lie: (class, blob, (y, x, width)), in pixels."""
    shapes = rng.random((CLASSES, _BLOBS, 3), dtype=np.float32)
    low = np.array([6, 6, 2], dtype=np.float32)
    high = np.array([22, 22, 5], dtype=np.float32)
    return low + shapes * (high - low)


def _draw(
    rng: np.random.Generator, shapes: npt.NDArray[np.float32], labels: npt.NDArray[np.uint8]
) -> npt.NDArray[np.uint8]:
    """Return an image for each label: its class's blobs, each moved and dimmed at random."""
    images = np.empty((len(labels), SIDE, SIDE), dtype=np.uint8)
    pixels = np.arange(SIDE, dtype=np.float32)
    for start in range(0, len(labels), _CHUNK):
        blobs = shapes[labels[start : start + _CHUNK]]
        centres = blobs[..., :2] + 4 * rng.random(blobs[..., :2].shape, dtype=np.float32) - 2
        heights = 120 + 180 * rng.random(blobs.shape[:2], dtype=np.float32)
        # a round Gaussian is the product of one along y and one along x: a small matrix product
        offsets = (pixels - centres[..., None]) / blobs[..., 2, None, None]
        profiles = np.exp(-0.5 * offsets**2)
        along_y, along_x = profiles[:, :, 0], profiles[:, :, 1]
        light = np.matmul((along_y * heights[..., None]).transpose(0, 2, 1), along_x)
        # black around the shape, as in FashionMNIST, where half of all pixels are 0
        images[start : start + _CHUNK] = np.clip(light - 16, 0, 255).astype(np.uint8)
    return images
