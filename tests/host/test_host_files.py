from __future__ import annotations

from pathlib import Path

from feedrate.host.files import FakeReader, SystemReader


def test_system_reader_reads_text_and_names(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"caf\xc3\xa9 \xff")
    reader = SystemReader()
    assert reader.read(str(tmp_path / "a")) == "café �"
    assert reader.listdir(str(tmp_path)) == ["a"]


def test_what_is_missing_is_none(tmp_path: Path) -> None:
    reader = SystemReader()
    assert reader.read(str(tmp_path / "missing")) is None
    assert reader.read(str(tmp_path)) is None
    assert reader.listdir(str(tmp_path / "missing")) is None


def test_fake_reader_lists_what_its_paths_imply() -> None:
    reader = FakeReader({"/proc/1/fd/0": "", "/proc/1/fd/1": "", "/proc/12/stat": "x"})
    assert reader.listdir("/proc/1/fd") == ["0", "1"]
    assert reader.listdir("/proc/") == ["1", "12"]
    assert reader.listdir("/proc/2") is None
    assert reader.read("/proc/12/stat") == "x"
    assert reader.read("/proc/12") is None
