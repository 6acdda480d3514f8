"""``feedrate demo`` in a folder that somebody uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders import make_metadata, make_suite
from feedrate import store
from feedrate.cli.experiment import run_demo
from feedrate.errors import OutputError, UsageError
from feedrate.experiments import photos


@pytest.mark.parametrize(
    ("name", "makes"),
    [
        ("result.json", lambda path: path.write_text("mine")),
        ("result.json", lambda path: store.save(make_suite(rates={0: [100.0]}), path)),
        ("figure.png", lambda path: path.write_text("mine")),
        ("photos/me.jpg", lambda path: path.write_text("mine")),
        ("photos/holidays/me.jpg", lambda path: path.write_text("mine")),
    ],
)
def test_what_no_demo_has_made_is_not_touched(tmp_path: Path, name: str, makes) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    makes(tmp_path / name)
    before = (tmp_path / name).read_bytes()
    with pytest.raises(UsageError, match="is not the demo's: name another folder with --folder"):
        run_demo(tmp_path, verbose=False)
    assert (tmp_path / name).read_bytes() == before
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == [tmp_path / name]


def test_a_demo_may_be_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Begun(OutputError):
        pass

    def make_photos(_: Path) -> Path:
        raise Begun("photographs are made")

    monkeypatch.setattr(photos, "make_photos", make_photos)
    suite = make_suite(rates={0: [100.0]}, metadata=make_metadata(target="demo"))
    store.save(suite, tmp_path / "result.json")
    (tmp_path / "figure.png").write_text("the demo's")
    (tmp_path / "photos" / "upper").mkdir(parents=True)
    with pytest.raises(Begun):
        run_demo(tmp_path, verbose=False)
