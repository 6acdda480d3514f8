"""`image_loader`: a folder of images as a loader, with everything set that this package advises."""

from __future__ import annotations

import os
from typing import Any, Literal

import numpy as np
import torch

from feedrate.loader.dataloader import DataLoader
from feedrate.remedies.image_files import ImageFiles, OnError, Transform
from feedrate.remedies.seeds import seed_worker


class FixedSize:
    """Makes a PIL image a tensor of unsigned bytes, 3 × ``size`` × ``size``.

    Its shorter side is scaled to ``size`` and the middle cut out. Bytes and not floats: a quarter
    of the memory on the way from the workers; divide by 255 on the device.
    """

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, image: Any) -> torch.Tensor:
        """Return the tensor."""
        from PIL import Image

        width, height = image.size
        side = min(width, height)
        left, upper = (width - side) / 2, (height - side) / 2
        box = (left, upper, left + side, upper + side)
        # Cutting first is the same picture, and scales less of it.
        made = image.resize((self.size, self.size), Image.Resampling.BILINEAR, box=box)
        return torch.from_numpy(np.array(made)).permute(2, 0, 1).contiguous()


def image_loader(
    folder: str | os.PathLike[str],
    batch_size: int = 32,
    *,
    transform: Transform | None = None,
    size: int = 224,
    shuffle: bool = True,
    num_workers: int | Literal["auto"] = "auto",
    on_error: OnError = "raise",
    **options: Any,
) -> DataLoader[Any]:
    """Return a loader of the images of a folder, as batches of images and class numbers.

    An `ImageFiles` on a `feedrate.DataLoader`: the number of workers is found while training, a
    worker that dies is replaced, every worker has its own random numbers (`seed_worker`), paths
    are not copied into workers, and memory is pinned where there is a device to copy to.

    Args:
        folder: has a folder for each class, or the images themselves.
        batch_size: how many images a batch has.
        transform: what to make of a PIL image; if left out, a tensor of bytes as `FixedSize` does.
        size: its side, in pixels.
        shuffle: a new order each epoch.
        num_workers: a number, or "auto".
        on_error: "raise" or "skip"; see `ImageFiles`. ``loader.dataset.skipped`` has what was
            skipped.
        options: anything else that a `feedrate.DataLoader` takes.

    Raises:
        UsageError: there is no image in the folder, or none in that of a class.
        MissingExtra: Pillow is not installed.
    """
    made = FixedSize(size) if transform is None else transform
    dataset = ImageFiles(folder, made, on_error=on_error)
    options = {
        "worker_init_fn": seed_worker,
        "pin_memory": torch.cuda.is_available(),
        **options,
    }
    return DataLoader(dataset, batch_size, shuffle, num_workers=num_workers, **options)
