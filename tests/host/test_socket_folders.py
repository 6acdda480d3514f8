"""Folders of sockets: only those that nobody listens on are removed."""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from feedrate.host.socket_folders import remove_abandoned_folders

pytestmark = pytest.mark.skipif(
    not Path("/proc/net/unix").exists(), reason="the system does not list its sockets"
)


@pytest.fixture
def folder() -> Iterator[Path]:
    # not tmp_path: the path of a socket has to be short
    with tempfile.TemporaryDirectory(prefix="fr-") as name:
        yield Path(name)


def bound(folder: Path, name: str) -> socket.socket:
    (folder / name).mkdir()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / name / "listener-x"))
    return listener


def test_a_folder_whose_listener_is_gone_is_removed(folder: Path) -> None:
    bound(folder, "pymp-gone").close()
    assert remove_abandoned_folders(time.time() - 60, folder) == ["pymp-gone"]
    assert list(folder.iterdir()) == []


def test_a_folder_with_a_listener_stays(folder: Path) -> None:
    with bound(folder, "pymp-used") as listener:
        listener.listen()
        assert remove_abandoned_folders(time.time() - 60, folder) == []
        assert (folder / "pymp-used" / "listener-x").exists()


def test_what_may_be_in_use_or_is_not_such_a_folder_stays(folder: Path) -> None:
    (folder / "pymp-empty").mkdir()
    (folder / "pymp-file").mkdir()
    (folder / "pymp-file" / "notes").write_text("kept")
    bound(folder, "other").close()
    assert remove_abandoned_folders(time.time() - 60, folder) == []
    assert len(list(folder.iterdir())) == 3


def test_older_folders_stay(folder: Path) -> None:
    bound(folder, "pymp-old").close()
    assert remove_abandoned_folders(time.time() + 60, folder) == []
    assert (folder / "pymp-old").exists()
