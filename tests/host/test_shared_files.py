"""What torch leaves in /dev/shm, in a folder of our own."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from feedrate.host.shared_files import remove_abandoned

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/dev/shm and /proc are Linux's")
SIZE = 4096


@pytest.fixture(scope="module")
def dead() -> int:
    """Return the number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.fixture
def since() -> float:
    return time.time()


def make(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_bytes(bytes(SIZE))
    return path


def test_files_of_makers_that_have_ended_are_removed(tmp_path: Path, dead: int, since: float):
    left = [make(tmp_path, f"torch_{dead}_{n}_0") for n in (3, 1, 2)]
    names = sorted(path.name for path in left)
    assert remove_abandoned(since, tmp_path) == names
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name",
    [
        "torch_{alive}_1_0",
        "torch_1_1_0",  # the first process always lives
        "other_{dead}_1_0",
        "psm_{dead}",
        "torch{dead}_1",
        "torch_",
        "torch_x{dead}_1",
        "torch_-{dead}_1",
        "torch_\u00b2_1",  # a digit to Python, and no number
        ".torch_{dead}_1",
    ],
)
def test_other_files_stay(tmp_path: Path, dead: int, since: float, name: str):
    path = make(tmp_path, name.format(alive=os.getpid(), dead=dead))
    assert remove_abandoned(since, tmp_path) == []
    assert path.exists()


def test_older_files_stay(tmp_path: Path, dead: int):
    path = make(tmp_path, f"torch_{dead}_1_0")
    assert remove_abandoned(path.stat().st_ctime + 2, tmp_path) == []
    assert path.exists()


def test_links_and_folders_stay(tmp_path: Path, dead: int, since: float):
    outside = make(tmp_path, "precious")
    folder = tmp_path / "shm"
    (folder / f"torch_{dead}_2_0").mkdir(parents=True)
    link = folder / f"torch_{dead}_1_0"
    link.symlink_to(outside)
    assert remove_abandoned(since, folder) == []
    assert link.is_symlink()
    assert outside.exists()


@pytest.mark.parametrize("name", ["shm", "my shared memory"])
def test_a_mapped_file_stays_until_it_is_let_go(tmp_path: Path, dead: int, since: float, name: str):
    folder = tmp_path / name
    folder.mkdir()
    path = make(folder, f"torch_{dead}_1_0")
    with path.open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), SIZE)
    with mapped:
        assert remove_abandoned(since, folder) == []
        assert path.exists()
    assert remove_abandoned(since, folder) == [path.name]


def test_an_open_file_stays_until_it_is_closed(tmp_path: Path, dead: int, since: float):
    path = make(tmp_path, f"torch_{dead}_1_0")
    unused = make(tmp_path, f"torch_{dead}_2_0")
    with path.open("rb"):
        assert remove_abandoned(since, tmp_path) == [unused.name]
    assert remove_abandoned(since, tmp_path) == [path.name]


def test_a_folder_that_is_a_link_is_looked_through(tmp_path: Path, dead: int, since: float):
    folder, link = tmp_path / "run-shm", tmp_path / "dev-shm"
    folder.mkdir()
    link.symlink_to(folder)
    path = make(folder, f"torch_{dead}_1_0")
    with path.open("rb"):
        assert remove_abandoned(since, link) == []  # /proc knows it by its real place alone
    assert remove_abandoned(since, link) == [path.name]


def test_a_folder_that_is_not_there_is_no_error(tmp_path: Path, since: float):
    assert remove_abandoned(since, tmp_path / "none") == []


@pytest.mark.needs_root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_files_of_another_user_stay(tmp_path: Path, dead: int, since: float):
    path = make(tmp_path, f"torch_{dead}_1_0")
    os.chown(path, 12345, 12345)
    assert remove_abandoned(since, tmp_path) == []
    assert path.exists()


def test_a_file_of_torchs_own_is_recognized(tmp_path: Path, since: float):
    """Hold the names against torch's own, should it ever call its files otherwise."""
    pytest.importorskip("torch")
    script = (
        "import os, torch, torch.multiprocessing as mp\n"
        "mp.set_sharing_strategy('file_system')\n"
        "print(torch.zeros(9).share_memory_().untyped_storage()._share_filename_cpu_()[1])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60
    )
    name = done.stdout.split("'")[1].lstrip("/")
    assert remove_abandoned(since, tmp_path) == []
    path = make(tmp_path, name)
    assert remove_abandoned(since, tmp_path) == [path.name]
