from __future__ import annotations

from pathlib import Path

import pytest

from feedrate.errors import MissingExtra, OutputError
from feedrate.experiments import photos, vision

Image = pytest.importorskip("PIL.Image")


@pytest.fixture(autouse=True)
def _pretend_torchvision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Making photographs needs Pillow alone."""
    monkeypatch.setattr(vision, "find_spec", lambda name: object())


def found(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.jpg"), key=lambda path: path.name)


def test_photographs_are_jpeg_files_of_about_500_by_375(tmp_path: Path) -> None:
    assert photos.make_photos(tmp_path / "made" / "photos", count=12) == tmp_path / "made/photos"
    paths = found(tmp_path)
    assert [path.stem for path in paths] == [f"{number:05d}" for number in range(12)]
    assert {path.parent.name for path in paths} == set(photos.CLASSES)
    for path in paths:
        with Image.open(path) as photo:
            assert (photo.format, photo.mode) == ("JPEG", "RGB")
            width, height = photo.size
        assert 480 <= width <= 520
        assert height / width == pytest.approx(3 / 4, abs=0.01)


def test_photographs_differ_and_the_seed_decides_them(tmp_path: Path) -> None:
    contents = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        photos.make_photos(tmp_path / name, count=6, seed=seed)
        contents.append([path.read_bytes() for path in found(tmp_path / name)])
    assert contents[0] == contents[1]
    assert contents[0] != contents[2]
    assert len(set(contents[0])) == 6


def test_a_photograph_is_compressed_as_cameras_do(tmp_path: Path) -> None:
    """About two bits a pixel: neither noise nor a flat area, so decoding costs what it should."""
    photos.make_photos(tmp_path, count=4)
    bits = [8 * path.stat().st_size / (500 * 375) for path in found(tmp_path)]
    assert all(1 < value < 5 for value in bits)


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot write the demo's photographs"):
        photos.make_photos(tmp_path / "file", count=1)


def test_a_missing_extra_is_named_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vision, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"feedrate\[vision\]"):
        photos.make_photos(tmp_path, count=1)
    assert list(tmp_path.iterdir()) == []
