"""Whatever a decoder makes of a broken file is a broken image, with its path."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
Image = pytest.importorskip("PIL.Image")
pytestmark = pytest.mark.torch

from feedrate.errors import BrokenImage
from feedrate.remedies import image_decoding
from feedrate.remedies.image_decoding import decode
from feedrate.remedies.image_files import ImageFiles


def too_large(folder: Path) -> Path:
    """A GIF of 35 bytes that says it has 65,535 × 65,535 pixels."""
    path = folder / "1.gif"
    Image.new("P", (1, 1)).save(path)
    content = bytearray(path.read_bytes())
    content[6:10] = b"\xff" * 4
    path.write_bytes(content)
    return path


def test_more_pixels_than_pillow_takes(tmp_path: Path) -> None:
    path = too_large(tmp_path)
    with pytest.raises(BrokenImage, match=r"PIL\.Image\.MAX_IMAGE_PIXELS") as caught:
        ImageFiles(tmp_path)[0]
    assert str(path) in str(caught.value)


def test_more_pixels_than_pillow_takes_are_skipped(tmp_path: Path) -> None:
    path = too_large(tmp_path)
    Image.new("RGB", (3, 2)).save(tmp_path / "2.png")
    files = ImageFiles(tmp_path, on_error="skip")
    assert files[0][0].size == (3, 2)
    assert files.skipped == (str(path),)


def test_a_warning_of_many_pixels_that_raises_is_the_files_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 20)
    Image.new("RGB", (5, 5)).save(tmp_path / "1.png")
    with pytest.raises(BrokenImage, match=r"1\.png .*DecompressionBombWarning"):  # as tests are set
        ImageFiles(tmp_path)[0]


@pytest.mark.parametrize(
    "kind",
    [AttributeError, KeyError, IndexError, TypeError, AssertionError, OverflowError,
     ZeroDivisionError, NotImplementedError, SyntaxError, EOFError, UserWarning],
)  # fmt: skip
def test_any_exception_of_a_decoder_names_the_file(kind: type[Exception]) -> None:
    def by(path: str) -> None:
        raise kind("wrong")

    with pytest.raises(BrokenImage, match=rf"x\.jpg cannot be read as an image \({kind.__name__}"):
        decode("x.jpg", by)


@pytest.mark.parametrize("kind", [MemoryError, ImportError, KeyboardInterrupt, SystemExit])
def test_what_is_not_the_files_fault_stays(kind: type[BaseException]) -> None:
    def by(path: str) -> None:
        raise kind("wrong")

    with pytest.raises(kind, match="wrong"):
        decode("x.jpg", by)


def test_a_damaged_file_of_a_rare_format(tmp_path: Path) -> None:
    """Pillow raises NotImplementedError for it, as a fuzzer found."""
    path = tmp_path / "1.dds"
    Image.new("RGB", (4, 4)).save(path)
    content = bytearray(path.read_bytes())
    content[80:84] = bytes(4)  # the flags of the format of its pixels
    path.write_bytes(content)
    with pytest.raises(BrokenImage, match="NotImplementedError"):
        decode(str(path), image_decoding.find_decoder("pil"))
