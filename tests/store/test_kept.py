from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from feedrate.errors import OutputError
from feedrate.records import Suite
from feedrate.store import default_path, latest, load, prune, save, state_folder
from feedrate.store.kept import KEPT_RESULTS

NOON = datetime(2026, 11, 29, 12, 0, 0, 123_456, tzinfo=timezone.utc)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "feedrate"


def test_the_name_is_the_time_and_the_kind(folder: Path) -> None:
    assert default_path("bench", NOON) == folder / "2026-11-29T120000.123Z-bench.json"
    assert folder.is_dir()


def test_a_time_elsewhere_is_written_as_utc() -> None:
    there = NOON.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert default_path("bench", there) == default_path("bench", NOON)


def test_the_latest_is_the_newest_of_any_kind(rich_suite: Suite) -> None:
    assert latest() is None
    newest = default_path("tune", NOON + timedelta(milliseconds=1))
    save(rich_suite, newest)
    save(rich_suite, default_path("bench", NOON))
    assert latest() == newest
    assert load(newest) == rich_suite


def test_only_the_newest_are_kept_and_other_files_stay(folder: Path) -> None:
    folder.mkdir()
    (folder / "my own.json").touch()
    for minute in range(KEPT_RESULTS + 5):
        default_path("bench", NOON + timedelta(minutes=minute)).touch()
    kept = sorted(path.name for path in folder.iterdir())
    assert len(kept) == KEPT_RESULTS + 1
    assert kept[0] == "2026-11-29T120500.123Z-bench.json"
    assert kept[-1] == "my own.json"
    prune(keep=1)
    assert latest() == folder / "2026-11-29T122400.123Z-bench.json"
    assert len(list(folder.iterdir())) == 2


def test_a_folder_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(OutputError, match="cannot be made: Not a directory; name a file with -o"):
        default_path("bench", NOON)
    assert latest() is None


def test_a_relative_state_folder_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    chosen = state_folder()
    assert chosen is not None
    assert chosen.is_absolute()
    assert chosen.is_relative_to(Path.home())


def test_without_a_home_an_output_file_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(Path, "home", unknown)
    with pytest.raises(OutputError, match="name a file with -o"):
        default_path("bench", NOON)
    assert latest() is None
    assert "XDG_STATE_HOME" not in os.environ
