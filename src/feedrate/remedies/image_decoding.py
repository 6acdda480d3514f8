"""One image file as an RGB image: opened, decoded and closed, nothing kept."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

import torch

from feedrate.errors import BrokenImage, MissingExtra

Decoder = Literal["pil", "torchvision"]
Decode = Callable[[str], Any]

_PACKAGES = {"pil": ("PIL", "Pillow"), "torchvision": ("torchvision", "torchvision")}


def find_decoder(name: str) -> Decode:
    """Return the function that decodes a file.

    "pil" gives a ``PIL.Image`` in mode RGB; "torchvision" a tensor of unsigned bytes, of the shape
    3 × height × width.

    Raises:
        MissingExtra: its package is not installed, or decodes no images.
        ValueError: there is no such decoder.
    """
    if name not in _PACKAGES:
        raise ValueError(f'decoder takes "pil" or "torchvision", and not {name!r}')
    module, package = _PACKAGES[name]
    if find_spec(module) is None:
        raise MissingExtra(f"ImageFiles needs {package}: run pip install 'feedrate[vision]'")
    if name == "pil":
        return _by_pil
    if not hasattr(import_module("torchvision.io"), "decode_image"):
        raise MissingExtra(
            'this torchvision does not decode images any more: pass decoder="pil", or install '
            "torchvision 0.29"
        )
    return _by_torchvision


def decode(path: str, by: Decode) -> Any:
    """Return the image of a file.

    Raises:
        BrokenImage: there is no such file, or it holds no whole image, or one of more pixels than
            Pillow takes.
        OSError: the system refused to read it, as with too many open files: not the file's fault.
        MemoryError, ImportError: nor is that.
    """
    try:
        return by(path)
    except OSError as error:
        # What Pillow finds wrong with a file is an OSError without a number of the system's.
        if error.errno is not None and not isinstance(error, FileNotFoundError):
            raise
        raise _broken(path, error) from error
    except (MemoryError, ImportError, BrokenImage):
        raise
    except Exception as error:
        # Damage in the right place makes a decoder raise anything: files of twenty formats with
        # bytes changed at random got seven kinds out of Pillow, an AttributeError among them.
        raise _broken(path, error) from error


def _broken(path: str, error: Exception) -> BrokenImage:
    return BrokenImage(
        f"{path} cannot be read as an image ({type(error).__name__}: {error}): mend or remove it, "
        'or pass on_error="skip"'
    )


def _by_pil(path: str) -> Any:
    from PIL import Image

    # Opened here: Pillow keeps a file that it opened itself until the image is loaded or collected.
    try:
        with open(path, "rb") as file, Image.open(file) as image:  # noqa: PTH123 - a hot path
            return image.convert("RGB")
    except Image.DecompressionBombError as error:
        raise BrokenImage(
            f"{path} is not decoded ({error}): remove it, set PIL.Image.MAX_IMAGE_PIXELS higher if "
            'it is meant to be so large, or pass on_error="skip"'
        ) from error


def _by_torchvision(path: str) -> Any:
    from torchvision.io import ImageReadMode, decode_image

    with open(path, "rb") as file:  # noqa: PTH123 - a hot path
        data = bytearray(file.read())
    if not data:
        raise ValueError("the file is empty")
    with warnings.catch_warnings():
        # torchvision 0.29 announces that it will give this up; `find_decoder` says so when it has.
        warnings.filterwarnings("ignore", "The image decoding", DeprecationWarning)
        image = decode_image(torch.frombuffer(data, dtype=torch.uint8), ImageReadMode.RGB)
    return image[0] if image.ndim == 4 else image  # an animation's first picture
