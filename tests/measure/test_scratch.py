from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from feedrate.measure import scratch


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_what_is_left_is_removed(place: Path) -> None:
    left = scratch.make_scratch("causes")
    (left / "seen.json").write_text("{}")
    scratch.make_scratch("memray")
    assert len(list(place.iterdir())) == 2
    scratch.remove_scratch()
    assert list(place.iterdir()) == []


def test_what_another_child_made_stays(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as other:
        other.setattr(scratch, "_TOKEN", "0" * 16)
        made = scratch.make_scratch("causes")
    scratch.remove_scratch()
    assert list(place.iterdir()) == [made]
