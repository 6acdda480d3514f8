"""The demo's photographs: real JPEG files, cut from the photograph that matplotlib ships.

Nothing here imports torch.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from feedrate.errors import OutputError
from feedrate.experiments.vision import require_vision

CLASSES = ("lower", "upper")
"""The part of the photograph that a crop shows; each class has its folder."""

COUNT = 768
"""24 batches of 32: an epoch takes one to two seconds on two cores."""

SIZE = (500, 375)
_SIZE_SPREAD = 0.04  # the photographs' own sizes differ by so much around SIZE
_JPEG_QUALITY = 90
_LEAST_WIDTH = 0.85  # of the source's width: how far a crop may zoom in


def make_photos(folder: str | Path, count: int = COUNT, seed: int = 0) -> Path:
    """Write ``count`` JPEG photographs of about 500×375, and return ``folder``.

    Each is a random crop of one photograph, mirrored or not, at a slightly different scale, in
    the folder of its class, as torchvision's ImageFolder expects it. The same seed gives the same
    photographs; files of the same names are replaced.

    Raises:
        MissingExtra: Pillow or torchvision, which the demo's loader needs, is not installed.
        OutputError: the folder cannot be written to.
    """
    require_vision("feedrate demo")
    from matplotlib.cbook import get_sample_data
    from PIL import Image, ImageOps

    rng = np.random.default_rng(seed)
    folder = Path(folder)
    with Image.open(get_sample_data("grace_hopper.jpg", asfileobj=False)) as source:
        whole = source.convert("RGB")
    try:
        for name in CLASSES:
            (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            box, name = _random_crop(rng, whole.size)
            scale = 1 + _SIZE_SPREAD * (2 * rng.random() - 1)
            size = (round(SIZE[0] * scale), round(SIZE[1] * scale))
            photo = whole.resize(size, Image.Resampling.BICUBIC, box=box)
            if rng.random() < 0.5:
                photo = ImageOps.mirror(photo)
            photo.save(folder / name / f"{number:05d}.jpg", quality=_JPEG_QUALITY)
    except OSError as error:
        raise OutputError(
            f"cannot write the demo's photographs to {folder} ({error.strerror or error}): "
            "run it in a folder that can be written to"
        ) from error
    return folder


def _random_crop(
    rng: np.random.Generator, whole: tuple[int, int]
) -> tuple[tuple[float, float, float, float], str]:
    """Return a box (left, upper, right, lower) of SIZE's shape, and its class."""
    width = whole[0] * (_LEAST_WIDTH + (1 - _LEAST_WIDTH) * rng.random())
    height = width * SIZE[1] / SIZE[0]
    left = rng.random() * (whole[0] - width)
    depth = rng.random()
    top = depth * (whole[1] - height)
    return (left, top, left + width, top + height), "upper" if depth < 0.5 else "lower"
