from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from feedrate.experiments import idx


@pytest.fixture(scope="session")
def synthetic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with synthetic files, made once; tests only read it."""
    folder = tmp_path_factory.mktemp("synthetic")
    idx.write_synthetic(folder)
    return folder


@pytest.fixture
def original(synthetic: Path, tmp_path: Path) -> Path:
    """A folder with whole files that feedrate did not make, as far as it can tell."""
    place_files(synthetic, tmp_path)
    return tmp_path


def place_files(source: Path, data_dir: Path) -> None:
    folder = idx.raw_folder(data_dir)
    folder.mkdir(parents=True, exist_ok=True)
    for file in idx.FILES:
        (folder / file.name).hardlink_to(idx.raw_folder(source) / file.name)


@pytest.fixture
def place(synthetic: Path) -> Callable[[Path], None]:
    """Puts whole files into a data folder, without the marker."""
    return lambda data_dir: place_files(synthetic, data_dir)
