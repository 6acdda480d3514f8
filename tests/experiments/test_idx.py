from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from feedrate.errors import MissingExtra, OutputError, TargetError
from feedrate.experiments import idx, vision


def read(data_dir: Path, file: idx.IdxFile) -> Any:
    return np.fromfile(
        idx.raw_folder(data_dir) / file.name, dtype=np.uint8, offset=len(file.header)
    ).reshape(file.shape)


@pytest.mark.parametrize(
    ("file", "size", "magic"),
    # sizes and first four bytes of the files that FashionMNIST's authors publish, unpacked
    [
        (idx.TRAIN.images, 47_040_016, "00000803"),
        (idx.TRAIN.labels, 60_008, "00000801"),
        (idx.TEST.images, 7_840_016, "00000803"),
        (idx.TEST.labels, 10_008, "00000801"),
    ],
)
def test_files_have_the_size_and_type_of_the_original(
    synthetic: Path, file: idx.IdxFile, size: int, magic: str
) -> None:
    data = (idx.raw_folder(synthetic) / file.name).read_bytes()
    assert len(data) == file.size == size
    assert data[:4].hex() == magic


def test_images_have_structure_and_depend_on_the_label(synthetic: Path) -> None:
    images = read(synthetic, idx.TRAIN.images).astype(float)
    labels = read(synthetic, idx.TRAIN.labels)
    black = (images == 0).mean()
    assert 0.25 < black < 0.75  # FashionMNIST: one half
    # neighbouring pixels are alike, which those of noise are not
    flat, shifted = images[:500, :, :-1].ravel(), images[:500, :, 1:].ravel()
    assert np.corrcoef(flat, shifted)[0, 1] > 0.9
    means = np.stack([images[labels == label].mean(axis=0) for label in range(10)])
    nearest = ((images[:2000, None] - means) ** 2).sum(axis=(2, 3)).argmin(axis=1)
    assert (nearest == labels[:2000]).mean() > 0.5  # chance: 0.1


def test_classes_are_balanced_and_mixed(synthetic: Path) -> None:
    labels = read(synthetic, idx.TRAIN.labels)
    assert np.bincount(labels).tolist() == [6_000] * 10
    assert len(set(labels[:256])) == 10


def test_the_seed_decides_the_files(synthetic: Path, tmp_path: Path) -> None:
    for seed, same in ((0, True), (1, False)):
        idx.write_synthetic(tmp_path, seed=seed)
        for file in idx.FILES:
            assert np.array_equal(read(synthetic, file), read(tmp_path, file)) is same


def test_present_wants_all_files_whole(original: Path) -> None:
    assert idx.present(original)
    path = idx.raw_folder(original) / idx.TEST.labels.name
    data = path.read_bytes()
    path.unlink()
    assert not idx.present(original)
    path.write_bytes(data[:-1])
    assert not idx.present(original)
    path.write_bytes(b"\x1f\x8b" + data[2:])
    assert not idx.present(original)
    path.write_bytes(data)
    assert idx.present(original)


def test_files_that_are_there_are_used_and_named_for_what_they_are(
    synthetic: Path, original: Path
) -> None:
    stamps = [(idx.raw_folder(original) / file.name).stat().st_mtime_ns for file in idx.FILES]
    for wish in (True, False):
        assert idx.ensure(original, synthetic=wish) == "original"
        assert idx.ensure(synthetic, synthetic=wish) == "synthetic"
    assert stamps == [
        (idx.raw_folder(original) / file.name).stat().st_mtime_ns for file in idx.FILES
    ]
    assert not idx.is_synthetic(original)


def test_whole_files_are_never_overwritten(original: Path) -> None:
    with pytest.raises(TargetError, match=r"does not overwrite.*--data-dir"):
        idx.write_synthetic(original)


@pytest.mark.parametrize("synthetic_wanted", [True, False])
def test_a_damaged_file_is_named(original: Path, synthetic_wanted: bool) -> None:
    path = idx.raw_folder(original) / idx.TRAIN.images.name
    path.unlink()
    path.write_bytes(b"half")
    with pytest.raises(TargetError, match=r"train-images-idx3-ubyte is not .* 47,040,016 bytes"):
        idx.ensure(original, synthetic=synthetic_wanted)
    assert path.read_bytes() == b"half"


def test_an_interrupted_pass_leaves_no_half_file_and_can_be_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original_draw = idx._draw

    def draw(rng: Any, shapes: Any, labels: Any) -> Any:
        if len(labels) == idx.TEST.labels.shape[0]:
            raise KeyboardInterrupt
        return original_draw(rng, shapes, labels)

    monkeypatch.setattr(idx, "_draw", draw)
    with pytest.raises(KeyboardInterrupt):
        idx.write_synthetic(tmp_path)
    assert sorted(path.name for path in idx.raw_folder(tmp_path).iterdir()) == [
        "synthetic.json",
        idx.TRAIN.images.name,
        idx.TRAIN.labels.name,
    ]
    assert not idx.present(tmp_path)
    monkeypatch.undo()
    assert idx.ensure(tmp_path, synthetic=True) == "synthetic"
    assert idx.present(tmp_path)


def test_a_full_disk_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(OutputError, match=r"No space left on device.*--data-dir"):
        idx.write_synthetic(tmp_path)
    assert list(idx.raw_folder(tmp_path).iterdir()) == []


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="--data-dir"):
        idx.ensure(tmp_path / "file", synthetic=True)


def fake_process(
    monkeypatch: pytest.MonkeyPatch, returncode: int, stderr: str, act: Callable[[Path], None]
) -> None:
    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        assert command[1:3] == ["-m", "feedrate.experiments.download"]
        act(Path(command[3]))
        return subprocess.CompletedProcess(command, returncode, "", stderr)

    monkeypatch.setattr(idx, "require_vision", lambda purpose: None)
    monkeypatch.setattr(subprocess, "run", run)


def test_without_a_network_the_way_out_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_process(monkeypatch, 1, "progress\n<urlopen error no name>\n", lambda folder: None)
    with pytest.raises(TargetError, match=r"\(<urlopen error no name>\).*--synthetic") as caught:
        idx.ensure(tmp_path, synthetic=False)
    assert "\n" not in str(caught.value)


def test_a_download_that_brought_nothing_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_process(monkeypatch, 0, "", lambda folder: None)
    with pytest.raises(TargetError, match="exit status 0"):
        idx.ensure(tmp_path, synthetic=False)


def test_downloaded_files_lose_the_marker_of_an_earlier_half_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Callable[[Path], None]
) -> None:
    marker = idx.raw_folder(tmp_path) / "synthetic.json"
    marker.parent.mkdir(parents=True)
    marker.write_text("{}")
    fake_process(monkeypatch, 0, "", place)
    assert idx.ensure(tmp_path, synthetic=False) == "original"
    assert idx.origin(tmp_path) == "original"


def test_a_missing_torchvision_is_named_before_anything_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vision, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'feedrate\[vision\]'"):
        idx.ensure(tmp_path, synthetic=False)
