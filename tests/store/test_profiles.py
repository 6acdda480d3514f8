"""What earlier tunes found: kept, found again, and never in the way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from builders import make_suite
from feedrate.store import profiles
from feedrate.store.profiles import content_hash, load_profile, profile_key, save_profile


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "feedrate" / "profiles"


def test_what_is_kept_is_found_again() -> None:
    assert load_profile("a") is None
    save_profile("a", make_suite(rates={0: [1.0]}))
    save_profile("a", make_suite(rates={2: [2.0]}))
    assert load_profile("a") == make_suite(rates={2: [2.0]})
    assert load_profile("b") is None


def test_the_key_changes_with_every_fact_and_not_with_their_order() -> None:
    facts = {"host": "a", "argv": ["--epochs", "3"], "content": None}
    assert profile_key(facts) == profile_key(dict(reversed(facts.items())))
    for name in facts:
        assert profile_key(facts | {name: "other"}) != profile_key(facts)


def test_content_is_told_from_other_content(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("one")
    first = content_hash(file)
    file.write_text("two")
    assert content_hash(file) not in (None, first)
    assert content_hash(tmp_path / "none.py") is None


def test_a_damaged_profile_is_none(cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / "a.json").write_text('{"format": "feedrate", "ver')
    assert load_profile("a") is None


def test_a_cache_that_cannot_be_written_costs_nothing(cache: Path) -> None:
    cache.parent.parent.mkdir()
    cache.parent.write_text("a file where the folder goes")
    save_profile("a", make_suite(rates={0: [1.0]}))
    assert load_profile("a") is None


def test_the_newest_are_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiles, "KEPT_PROFILES", 2)
    for number, name in enumerate("abc"):
        save_profile(name, make_suite(rates={0: [1.0]}))
        os.utime(cache / f"{name}.json", (number, number)) if name != "c" else None
    assert sorted(path.stem for path in cache.iterdir()) == ["b", "c"]


def test_a_relative_cache_folder_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = profiles.cache_folder()
    assert folder is not None
    assert folder.is_relative_to(tmp_path)
