from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from feedrate.errors import OutputError, UsageError
from feedrate.records import Suite
from feedrate.store import ResultFile, load, result_file, save

GOLDEN = Path(__file__).parent.parent / "golden" / "suite-v1.json"


@pytest.fixture(params=["unnamed", "named"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of writing: with a file that has no name (Linux), and the plain one."""
    if request.param == "named":
        monkeypatch.setattr(result_file, "_UNNAMED_FILE", 0)
    return str(request.param)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def shorter(suite: Suite) -> Suite:
    return msgspec.structs.replace(suite, benchmarks=suite.benchmarks[:1])


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """Stand for a full disk: the kernel refuses what is written past ``size``."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


needs_limits = pytest.mark.skipif(sys.platform == "win32", reason="Windows limits no file sizes")


@pytest.mark.usefixtures("way")
def test_each_save_replaces_the_one_before(tmp_path: Path, rich_suite: Suite) -> None:
    path = tmp_path / "run.json"
    with ResultFile.open(path) as file:
        assert not file.saved
        assert names(tmp_path) == []
        file.save(shorter(rich_suite))
        assert file.saved
        assert load(path) == shorter(rich_suite)
        file.save(rich_suite)
        assert names(tmp_path) == ["run.json"]
    assert load(path) == rich_suite
    assert names(tmp_path) == ["run.json"]


@pytest.mark.usefixtures("way")
def test_nothing_stays_where_nothing_was_saved(tmp_path: Path) -> None:
    file = ResultFile.open(tmp_path / "run.json")
    file.discard()
    assert names(tmp_path) == []


@pytest.mark.usefixtures("way")
def test_an_existing_file_is_kept_without_force(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text("mine")
    with pytest.raises(UsageError) as caught:
        ResultFile.open(path)
    assert str(caught.value) == f"{path} exists; name another file, or add --force to replace it"
    assert path.read_text() == "mine"


@pytest.mark.usefixtures("way")
def test_with_force_the_old_content_stays_until_the_first_save(
    tmp_path: Path, rich_suite: Suite
) -> None:
    path = tmp_path / "run.json"
    path.write_text("mine")
    with ResultFile.open(path, force=True) as file:
        assert path.read_text() == "mine"
        file.save(rich_suite)
    assert load(path) == rich_suite
    assert names(tmp_path) == ["run.json"]


@pytest.mark.usefixtures("way")
def test_a_file_that_appears_meanwhile_is_not_overwritten(
    tmp_path: Path, rich_suite: Suite
) -> None:
    path = tmp_path / "run.json"
    with ResultFile.open(path) as file:
        path.write_text("someone else's")
        with pytest.raises(OutputError, match="made by something else meanwhile"):
            file.save(rich_suite)
    assert path.read_text() == "someone else's"
    assert names(tmp_path) == ["run.json"]


@needs_limits
@pytest.mark.usefixtures("way")
def test_a_full_disk_keeps_the_earlier_content_and_a_later_save_succeeds(
    tmp_path: Path, rich_suite: Suite
) -> None:
    path = tmp_path / "run.json"
    with ResultFile.open(path) as file:
        with files_no_larger_than(100), pytest.raises(OutputError, match="nothing is saved yet"):
            file.save(rich_suite)
        assert names(tmp_path) == []
        file.save(shorter(rich_suite))
        with (
            files_no_larger_than(100),
            pytest.raises(OutputError, match=r"run\.json cannot be written: File too large; what"),
        ):
            file.save(rich_suite)
        assert names(tmp_path) == ["run.json"]
        assert load(path) == shorter(rich_suite)
        file.save(rich_suite)
        assert load(path) == rich_suite


def test_where_files_without_names_cannot_be_linked_the_plain_way_is_taken(
    tmp_path: Path, rich_suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **keywords: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "run.json"
    with ResultFile.open(path) as file:
        file.save(shorter(rich_suite))
        file.save(rich_suite)
    assert load(path) == rich_suite
    assert names(tmp_path) == ["run.json"]


def test_the_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError) as caught:
        ResultFile.open(tmp_path / "none" / "run.json")
    assert str(caught.value) == (
        f"there is no folder {tmp_path / 'none'}; make it, or name another file"
    )


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="is a folder; name a file in it"):
        ResultFile.open(tmp_path, force=True)


def test_what_is_below_a_file_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot be written: Not a directory; name another file"):
        ResultFile.open(tmp_path / "file" / "run.json")


def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot be written: File name too long"):
        ResultFile.open(tmp_path / ("x" * 300))


@pytest.mark.skipif(sys.platform == "win32", reason="no such device")
def test_a_device_is_never_replaced() -> None:
    with pytest.raises(OutputError, match="is not a regular file"):
        ResultFile.open(os.devnull, force=True)
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that nobody may write")
@pytest.mark.usefixtures("way")
def test_a_folder_that_cannot_be_written_is_found_before_measuring() -> None:
    with pytest.raises(OutputError, match=r"cannot be written: .+; name a file in another folder"):
        ResultFile.open("/proc/self/run.json")


@pytest.mark.usefixtures("way")
def test_a_link_stays_and_its_file_is_written(tmp_path: Path, rich_suite: Suite) -> None:
    (tmp_path / "data").mkdir()
    link = tmp_path / "latest.json"
    link.symlink_to(tmp_path / "data" / "run.json")
    save(rich_suite, link)
    assert link.is_symlink()
    assert load(tmp_path / "data" / "run.json") == rich_suite
    with pytest.raises(UsageError):
        save(rich_suite, link)
    save(shorter(rich_suite), link, force=True)
    assert load(link) == shorter(rich_suite)
    assert names(tmp_path) == ["data", "latest.json"]


def test_a_relative_path_survives_a_change_of_folder(
    tmp_path: Path, rich_suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with ResultFile.open("run.json") as file:
        monkeypatch.chdir(tmp_path / "elsewhere")
        file.save(rich_suite)
    assert names(tmp_path) == ["elsewhere", "run.json"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no file modes")
@pytest.mark.usefixtures("way")
def test_the_users_mask_is_respected(tmp_path: Path, rich_suite: Suite) -> None:
    before = os.umask(0o027)
    try:
        save(rich_suite, tmp_path / "run.json")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "run.json").stat().st_mode) == 0o640


KILLED_WHILE_WRITING = """
import os, signal, sys
from feedrate.store import ResultFile, load, result_file
if sys.argv[3] == "named":
    result_file._UNNAMED_FILE = 0
suite = load(sys.argv[1])
file = ResultFile.open(sys.argv[2])
file.save(suite)
os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)
file.save(suite)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
@pytest.mark.parametrize("how", ["unnamed", "named"])
def test_a_kill_while_writing_leaves_the_earlier_content(tmp_path: Path, how: str) -> None:
    path = tmp_path / "run.json"
    ended = subprocess.run(
        [sys.executable, "-c", KILLED_WHILE_WRITING, str(GOLDEN), str(path), how],
        check=False,
        timeout=60,
    )
    assert ended.returncode == -signal.SIGKILL
    assert load(path) == load(GOLDEN)
    if how == "unnamed" and sys.platform == "linux":
        assert names(tmp_path) == ["run.json"]
    else:
        assert len(names(tmp_path)) == 2
    # What a killed process had to leave goes when the folder is next written to.
    ResultFile.open(tmp_path / "other.json").discard()
    assert names(tmp_path) == ["run.json"]


def test_the_temporary_file_of_a_running_process_is_left_alone(tmp_path: Path) -> None:
    running = tmp_path / f".feedrate-{os.getppid()}-0.tmp"
    running.touch()
    ResultFile.open(tmp_path / "run.json").discard()
    assert names(tmp_path) == [running.name]


@pytest.mark.usefixtures("way")
def test_a_ctrl_c_while_writing_leaves_nothing_unfinished(
    tmp_path: Path, rich_suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(descriptor: int) -> None:
        raise KeyboardInterrupt

    file = ResultFile.open(tmp_path / "run.json")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            file.save(rich_suite)
    assert names(tmp_path) == []
    file.save(rich_suite)
    assert load(tmp_path / "run.json") == rich_suite


def test_the_file_without_a_name_gets_its_name(
    tmp_path: Path, rich_suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    descriptor = result_file._open_unnamed(tmp_path)
    if descriptor is None:
        pytest.skip("this file system has no files without names")
    os.close(descriptor)
    monkeypatch.delattr(ResultFile, "_write_named")
    with ResultFile.open(tmp_path / "run.json") as file:
        file.save(shorter(rich_suite))
        file.save(rich_suite)
    assert load(tmp_path / "run.json") == rich_suite
