from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from feedrate.experiments import download, idx

pytestmark = pytest.mark.torch
datasets = pytest.importorskip("torchvision.datasets")


def test_files_appear_only_when_all_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Callable[[Path], None]
) -> None:
    def fetch(root: str, download: bool) -> None:
        assert download
        place(Path(root))
        assert not any((idx.raw_folder(tmp_path) / file.name).exists() for file in idx.FILES)

    monkeypatch.setattr(datasets, "FashionMNIST", fetch)
    download.download(tmp_path)
    assert idx.present(tmp_path)
    assert [path.name for path in (tmp_path / "FashionMNIST").iterdir()] == ["raw"]


def test_an_interrupted_download_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Callable[[Path], None]
) -> None:
    def fetch(root: str, download: Any) -> None:
        place(Path(root))
        raise KeyboardInterrupt

    monkeypatch.setattr(datasets, "FashionMNIST", fetch)
    with pytest.raises(KeyboardInterrupt):
        download.download(tmp_path)
    assert list((tmp_path / "FashionMNIST").rglob("*ubyte*")) == []


def test_a_refused_connection_is_one_line_and_an_exit_status(tmp_path: Path) -> None:
    # port 9 of this machine: nobody listens there, so no network is needed to fail
    refused = {"http_proxy": "http://127.0.0.1:9", "no_proxy": ""}
    result = subprocess.run(
        [sys.executable, "-m", "feedrate.experiments.download", str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | refused,
    )
    assert result.returncode == 1
    assert "refused" in result.stderr.splitlines()[-1].lower()
    assert "Traceback" not in result.stderr
    assert not idx.present(tmp_path)
