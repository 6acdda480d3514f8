"""`ImageFiles`: a dataset of image files that holds no more than it must."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, Literal

import torch
from torch.utils.data import Dataset

from feedrate.errors import BrokenImage
from feedrate.remedies.image_decoding import Decoder, decode, find_decoder
from feedrate.remedies.image_listing import Row, list_folder, list_table
from feedrate.remedies.shared_list import SharedList

OnError = Literal["raise", "skip"]
Transform = Callable[[Any], Any]


class ImageFiles(Dataset[tuple[Any, Any]]):
    """Images of a folder, as pairs of image and class number; `from_table` takes any targets.

    Each item is opened, decoded to RGB and closed again: no descriptor stays open and nothing is
    kept. The paths are a `SharedList`: workers do not copy them by reading.

    Args:
        folder: has a folder for each class, named after it, or the images themselves.
        transform: what to make of an image; see `feedrate.remedies.image_decoding.find_decoder` for
            what it is given.
        target_transform: what to make of a target.
        decoder: "pil", or "torchvision", which decodes to a tensor.
        on_error: what to do with a broken or missing file. "raise": end with its path. "skip":
            give the next readable file in its place, so that batches keep their size, and count
            it; see `skipped`.

    Attributes:
        classes: the classes' names, by number; empty where there are none.

    Raises:
        UsageError: there is no image, or none in the folder of a class.
        MissingExtra: the decoder's package is not installed.
    """

    classes: tuple[str, ...] = ()

    def __init__(
        self,
        folder: str | os.PathLike[str],
        transform: Transform | None = None,
        target_transform: Transform | None = None,
        *,
        decoder: Decoder = "pil",
        on_error: OnError = "raise",
    ) -> None:
        rows, self.classes = list_folder(folder)
        self._begin(rows, transform, target_transform, decoder, on_error)

    @classmethod
    def from_table(
        cls,
        table: str | os.PathLike[str] | Iterable[Any],
        transform: Transform | None = None,
        target_transform: Transform | None = None,
        *,
        path: str = "path",
        target: str | None = "target",
        root: str | os.PathLike[str] | None = None,
        decoder: Decoder = "pil",
        on_error: OnError = "raise",
    ) -> ImageFiles:
        """Return a dataset of the files in a table.

        Args:
            table: a CSV file (.tsv: separated by tabs) with a line of names; or rows, each a pair
                of path and target or a mapping. Targets from a file are text.
            path, target: the columns' names; ``None`` for no target (it is 0 then).
            root: what relative paths are relative to; for a file its own folder if left out.
            transform, target_transform, decoder, on_error: as for the class.

        Raises:
            UsageError: the table is empty or lacks a column.
            MissingExtra: the decoder's package is not installed.
        """
        made = cls.__new__(cls)
        rows = list_table(table, path, target, root)
        made._begin(rows, transform, target_transform, decoder, on_error)
        return made

    def _begin(
        self,
        rows: list[Row],
        transform: Transform | None,
        target_transform: Transform | None,
        decoder: Decoder,
        on_error: OnError,
    ) -> None:
        if on_error not in ("raise", "skip"):
            raise ValueError(f'on_error takes "raise" or "skip", and not {on_error!r}')
        self._decode = find_decoder(decoder)
        self._rows: SharedList[Any] = SharedList([path, target] for path, target in rows)
        self.transform = transform
        self.target_transform = target_transform
        # In shared memory, a byte for each file: workers mark what they skip, and all can count it.
        self._marks = torch.zeros(len(rows), dtype=torch.uint8) if on_error == "skip" else None
        if self._marks is not None:
            self._marks.share_memory_()  # type: ignore[no-untyped-call]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return image and target.

        Raises:
            BrokenImage: the file is broken or missing; or, with "skip", every file is.
        """
        path, target = self._rows[index]
        try:
            image = decode(path, self._decode)
        except BrokenImage:
            if self._marks is None:
                raise
            image, target = self._next_readable(range(len(self))[index])
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target

    def _next_readable(self, broken: int) -> tuple[Any, Any]:
        assert self._marks is not None
        self._marks[broken] = 1
        for step in range(1, len(self)):
            index = (broken + step) % len(self)
            path, target = self._rows[index]
            try:
                return decode(path, self._decode), target
            except BrokenImage:
                self._marks[index] = 1
        raise BrokenImage(
            f"none of the {len(self):,} files can be read as an image: pass a folder of images"
        )

    @property
    def skipped(self) -> tuple[str, ...]:
        """The paths of the files that were skipped, by any worker until now."""
        if self._marks is None:
            return ()
        return tuple(self._rows[int(index)][0] for index in self._marks.nonzero().flatten())

    def __repr__(self) -> str:
        return f"ImageFiles({len(self):,} files, {len(self.classes)} classes)"
