from __future__ import annotations

import errno
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
Image = pytest.importorskip("PIL.Image")
pytestmark = pytest.mark.torch

from torch.utils.data import DataLoader

from feedrate.errors import BrokenImage, MissingExtra, UsageError
from feedrate.remedies import image_decoding
from feedrate.remedies.image_files import ImageFiles
from feedrate.remedies.image_loader import FixedSize, image_loader

SIZE = (12, 8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three images of each of two classes, in colours that tell them apart."""
    for number in range(6):
        place = tmp_path / "images" / ("cat", "dog")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", SIZE, (40 * number, 0, 0)).save(place / f"{number}.png")
    return tmp_path / "images"


def colour(item: tuple[Any, Any]) -> int:
    return int(np.array(item[0])[0, 0, 0])


def break_one(folder: Path) -> Path:
    """Cut the second file of all off in its middle."""
    path = folder / "cat" / "2.png"
    noisy = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noisy).save(path)
    path.write_bytes(path.read_bytes()[:4000])
    return path


def test_a_folder_for_each_class(folder: Path) -> None:
    (folder / ".hidden").mkdir()
    shutil.copy(folder / "cat" / "0.png", folder / ".hidden" / "0.png")
    (folder / "cat" / "notes.txt").write_text("no image")
    files = ImageFiles(folder)
    assert files.classes == ("cat", "dog")
    assert [target for _, target in (files[i] for i in range(len(files)))] == [0, 0, 0, 1, 1, 1]
    assert [colour(files[i]) for i in range(6)] == [0, 80, 160, 40, 120, 200]
    assert (files[0][0].mode, files[0][0].size) == ("RGB", SIZE)
    assert colour(files[-1]) == 200
    with pytest.raises(IndexError):
        files[6]


def test_images_without_classes(folder: Path) -> None:
    files = ImageFiles(folder / "dog")
    assert (files.classes, len(files)) == ((), 3)
    assert [files[i][1] for i in range(3)] == [0, 0, 0]


def test_classes_with_folders_inside(folder: Path) -> None:
    deep = folder / "cat" / "a" / "b"
    deep.mkdir(parents=True)
    shutil.copy(folder / "cat" / "0.png", deep / "9.PNG")
    assert len(ImageFiles(folder)) == 7


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_a_table_in_a_file(folder: Path, ending: str) -> None:
    comma = "," if ending == "csv" else "\t"
    rows = [["file", "age"], ["cat/0.png", "3"], ["dog/1.png", "5"]]
    table = folder / f"table.{ending}"
    table.write_text("\n".join(comma.join(row) for row in rows))
    files = ImageFiles.from_table(table, path="file", target="age", target_transform=int)
    assert [(colour(files[i]), files[i][1]) for i in range(2)] == [(0, 3), (40, 5)]


def test_a_table_of_rows(folder: Path) -> None:
    pairs = ImageFiles.from_table([("cat/0.png", [1, 2]), ("dog/1.png", None)], root=folder)
    assert [pairs[i][1] for i in range(2)] == [[1, 2], None]
    mappings = ImageFiles.from_table([{"path": folder / "dog" / "1.png"}], target=None)
    assert (colour(mappings[0]), mappings[0][1]) == (40, 0)


def test_what_cannot_be_listed(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no folder"):
        ImageFiles(tmp_path / "missing")
    (tmp_path / "none").mkdir()
    with pytest.raises(UsageError, match="there is no image in"):
        ImageFiles(tmp_path / "none")
    with pytest.raises(UsageError, match="has no 'path', only file"):
        ImageFiles.from_table([{"file": "x"}])
    with pytest.raises(UsageError, match="has no rows"):
        ImageFiles.from_table([])
    with pytest.raises(ValueError, match="on_error takes"):
        ImageFiles(folder, on_error="ignore")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="decoder takes"):
        ImageFiles(folder, decoder="magic")  # type: ignore[arg-type]


def test_a_missing_package_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_decoding, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'feedrate\[vision\]'"):
        ImageFiles(folder)


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "CMYK", "1", "LA"])
def test_any_mode_becomes_rgb(tmp_path: Path, mode: str) -> None:
    Image.new(mode, SIZE).save(tmp_path / f"x.{'tif' if mode == 'CMYK' else 'png'}")
    image, _ = ImageFiles(tmp_path)[0]
    assert (image.mode, image.size) == ("RGB", SIZE)


def test_no_descriptor_stays_open(folder: Path) -> None:
    files = ImageFiles(folder)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    kept = [files[i] for i in range(6)]
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    assert len(kept) == 6


def error_of(loader: Any) -> str:
    """Return what it raises, and end its workers: torch takes seconds where the collector does."""
    iterator = iter(loader)
    try:
        for _ in iterator:
            pass
    except BrokenImage as error:
        return str(error)
    finally:
        if loader.num_workers:
            iterator._shutdown_workers()
    raise AssertionError("it raised nothing")


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("decoder", ["pil", "torchvision"])
def test_a_broken_file_raises_with_its_path(folder: Path, workers: int, decoder: Any) -> None:
    if decoder == "torchvision":
        pytest.importorskip("torchvision")
    path = break_one(folder)
    files = ImageFiles(folder, np.array if decoder == "pil" else None, decoder=decoder)
    sentence = error_of(DataLoader(files, num_workers=workers))
    assert f"{path} cannot be read as an image (" in sentence
    assert 'on_error="skip"' in sentence


@pytest.mark.parametrize("content", [b"", b"no image", b"\x89PNG\r\n\x1a\n"])
@pytest.mark.parametrize("decoder", ["pil", "torchvision"])
def test_broken_in_other_ways(folder: Path, content: bytes, decoder: Any) -> None:
    if decoder == "torchvision":
        pytest.importorskip("torchvision")
    (folder / "cat" / "0.png").write_bytes(content)
    with pytest.raises(BrokenImage):
        ImageFiles(folder, decoder=decoder)[0]


def test_a_missing_file_is_a_broken_one(folder: Path) -> None:
    files = ImageFiles(folder)
    (folder / "cat" / "0.png").unlink()
    with pytest.raises(BrokenImage, match="FileNotFoundError"):
        files[0]


def test_what_is_not_the_files_fault_is_not_skipped(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: str) -> None:
        raise OSError(errno.EMFILE, "Too many open files", path)

    files = ImageFiles(folder, on_error="skip")
    monkeypatch.setattr(files, "_decode", refused)
    with pytest.raises(OSError, match="Too many open files"):
        files[0]
    assert files.skipped == ()


@pytest.mark.parametrize(
    ("workers", "options"),
    [(0, {}), (2, {}), (1, {"multiprocessing_context": "spawn"})],
    ids=["main", "fork", "spawn"],
)
def test_skipped_files_are_counted_wherever_they_are_met(
    folder: Path, workers: int, options: dict[str, Any]
) -> None:
    path = break_one(folder)
    files = ImageFiles(folder, np.array, on_error="skip")
    loader = DataLoader(files, batch_size=2, num_workers=workers, **options)
    for _ in range(1 if options else 2):  # a spawned worker takes seconds to start
        seen = [int(image[0, 0, 0]) for images, _ in loader for image in images]
        # The next readable file stands in, and batches keep their size.
        assert seen == [0, 160, 160, 40, 120, 200]
    assert files.skipped == (str(path),)


def test_the_stand_in_brings_its_own_target(folder: Path) -> None:
    (folder / "cat" / "4.png").write_bytes(b"")
    image, target = ImageFiles(folder, on_error="skip")[2]
    assert (colour((image, target)), target) == (40, 1)


def test_where_all_are_broken_it_ends(folder: Path) -> None:
    for path in folder.glob("*/*"):
        path.write_bytes(b"")
    files = ImageFiles(folder, on_error="skip")
    with pytest.raises(BrokenImage, match="none of the 6 files"):
        files[0]
    assert len(files.skipped) == 6


def test_torchvision_decodes_to_the_same_pixels(folder: Path) -> None:
    pytest.importorskip("torchvision")
    by_pil, by_torchvision = ImageFiles(folder), ImageFiles(folder, decoder="torchvision")
    for index in range(6):
        image, _ = by_torchvision[index]
        assert (image.dtype, tuple(image.shape)) == (torch.uint8, (3, SIZE[1], SIZE[0]))
        assert np.array_equal(image.permute(1, 2, 0).numpy(), np.array(by_pil[index][0]))


def test_a_dataset_of_many_files_pickles_small(folder: Path) -> None:
    rows = [(f"some/rather/long/path/{number:08d}.png", number) for number in range(10_000)]
    assert len(pickle.dumps(ImageFiles.from_table(rows))) < 2000


def test_a_picture_of_fixed_size_is_its_middle() -> None:
    image = Image.new("RGB", (30, 10))
    image.paste((255, 255, 255), (10, 0, 20, 10))
    made = FixedSize(10)(image)
    assert (made.dtype, tuple(made.shape)) == (torch.uint8, (3, 10, 10))
    assert int(made.min()) == 255


@pytest.mark.parametrize("workers", ["auto", 1])
def test_the_whole_loader(folder: Path, workers: Any) -> None:
    break_one(folder)
    loader = image_loader(folder, 3, size=16, num_workers=workers, on_error="skip")
    for _ in range(2):
        batches = list(loader)
        assert [tuple(images.shape) for images, _ in batches] == [(3, 3, 16, 16)] * 2
    assert len(loader.dataset.skipped) == 1


def test_options_go_on_to_the_loader(folder: Path) -> None:
    loader = image_loader(
        folder, 4, transform=np.array, shuffle=False, num_workers=0, drop_last=True
    )
    ((images, targets),) = loader
    assert tuple(images.shape) == (4, SIZE[1], SIZE[0], 3)
    assert targets.tolist() == [0, 0, 0, 1]
