"""Where shared bytes lie: files that are replaced, folders that change, systems without memfd."""

from __future__ import annotations

import mmap
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import textwrap
import weakref
from multiprocessing import reduction
from pathlib import Path
from typing import Any

import pytest

from feedrate.remedies import shared_bytes
from feedrate.remedies.shared_dict import SharedDict
from feedrate.remedies.shared_list import SharedList


def run(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program that the fault would kill, or that needs modules of its own."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *words],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_a_file_that_is_written_anew_leaves_the_former_list_whole(tmp_path: Path) -> None:
    program = """
        import sys
        from feedrate.remedies.shared_list import SharedList
        first = SharedList(range(200_000), file=sys.argv[1])
        second = SharedList([1, 2], file=sys.argv[1])
        print(first[10], first[199_999], list(second))
        third = SharedList(range(1000), file=sys.argv[1])
        print(sum(SharedList((2 * each for each in third), file=sys.argv[1])))
    """
    done = run(program, str(tmp_path / "records"))
    assert done.returncode != -signal.SIGBUS
    assert done.stdout == "10 199999 [1, 2]\n999000\n", done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["records"]


def first_and_last(shared: SharedList[int], answers: Any) -> None:
    try:
        answers.put([shared[0], shared[-1]])
    except BaseException as error:
        answers.put(repr(error))


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_workers_read_a_list_whose_file_was_replaced(tmp_path: Path, method: str) -> None:
    file = str(tmp_path / "records")
    first = SharedList(range(1000), file=file)
    SharedList(["another"], file=file)
    context = multiprocessing.get_context(method)
    answers = context.SimpleQueue()
    process = context.Process(target=first_and_last, args=(first, answers))
    process.start()
    process.join()  # it may end without an answer
    try:
        assert not answers.empty(), f"it ended with {process.exitcode}"
        assert answers.get() == [0, 999]
    finally:
        answers.close()


def test_a_pickle_finds_its_own_list_after_the_file_was_replaced(tmp_path: Path) -> None:
    file = str(tmp_path / "records")
    first = SharedList(range(5), file=file)
    words = pickle.dumps(first)
    second = SharedList(["another"], file=file)
    assert list(pickle.loads(words)) == [0, 1, 2, 3, 4]
    assert list(pickle.loads(pickle.dumps(second))) == ["another"]
    del first
    with pytest.raises(
        OSError, match=r"records does not hold the shared records any more: .* file"
    ):
        pickle.loads(words)


def test_a_list_in_a_file_outlives_the_object_that_was_pickled(tmp_path: Path) -> None:
    words = pickle.dumps(SharedList(range(5), file=tmp_path / "records"))
    assert list(pickle.loads(words)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt])
def test_what_ends_it_leaves_the_file_as_it_was(tmp_path: Path, error: type[BaseException]) -> None:
    def items() -> Any:
        yield 1
        raise error("mine")

    file = tmp_path / "records"
    file.write_text("before")
    with pytest.raises(error, match="mine"):
        SharedList(items(), file=str(file))
    assert [each.name for each in tmp_path.iterdir()] == ["records"]
    assert file.read_text() == "before"


@pytest.mark.parametrize("nameless", [True, False])
def test_a_process_that_is_killed_while_it_writes_leaves_the_file_as_it_was(
    tmp_path: Path, nameless: bool
) -> None:
    if nameless and not hasattr(os, "O_TMPFILE"):
        pytest.skip("no file without a name here")
    file = tmp_path / "records"
    file.write_bytes(b"mine")
    program = f"""
        import os, signal
        from feedrate.remedies import shared_bytes
        if not {nameless}:
            shared_bytes._nameless_file = lambda folder: None
        def parts():
            yield bytes(1 << 20)
            os.kill(os.getpid(), signal.SIGKILL)
        shared_bytes.SharedBytes(parts(), {str(file)!r})
    """
    assert run(program).returncode == -signal.SIGKILL
    assert file.read_bytes() == b"mine"
    left = [each.name for each in tmp_path.iterdir() if each != file]
    assert len(left) == (0 if nameless else 1)


@pytest.mark.parametrize("nameless", [True, False])
def test_a_new_file_has_the_usual_rights(
    tmp_path: Path, nameless: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not nameless:
        monkeypatch.setattr(shared_bytes, "_nameless_file", lambda _: None)
    usual = tmp_path / "usual"
    usual.touch()
    made = shared_bytes.SharedBytes([b"some"], tmp_path / "records")
    assert (tmp_path / "records").stat().st_mode == usual.stat().st_mode
    assert bytes(made.data) == b"some"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["records", "usual"]


def test_what_is_no_file_is_left_alone(tmp_path: Path) -> None:
    for place in (str(tmp_path), os.devnull):
        with pytest.raises(OSError, match="is no plain file: pass the path of one"):
            SharedList([1], file=place)
    assert list(tmp_path.iterdir()) == []


def test_a_link_leads_to_the_file_that_is_written(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    link = tmp_path / "records"
    link.symlink_to(tmp_path / "disk" / "records")
    SharedList([1], file=link)
    assert link.is_symlink()
    assert (tmp_path / "disk" / "records").is_file()


def test_a_relative_file_is_found_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = pickle.dumps(SharedList(range(3), file="records"))
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert list(pickle.loads(words)) == [0, 1, 2]


class NamedMemory:
    """What the module mmap is on Windows, with memory by name that ends with its last user."""

    ACCESS_READ = mmap.ACCESS_READ
    ACCESS_WRITE = mmap.ACCESS_WRITE

    class Section(bytearray):
        """A bytearray that can be referred to weakly."""

    def __init__(self) -> None:
        self.sections: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()

    def mmap(self, descriptor: int, size: int, *, access: int, tagname: str | None = None) -> Any:
        if descriptor >= 0:
            return mmap.mmap(descriptor, size, access=access)
        assert tagname is not None
        section = self.sections.setdefault(tagname, self.Section(size))
        view = memoryview(section)
        return view.toreadonly() if access == self.ACCESS_READ else view


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> NamedMemory:
    made = NamedMemory()
    monkeypatch.setattr(shared_bytes, "_WINDOWS", True)
    monkeypatch.setattr(shared_bytes, "mmap", made)
    monkeypatch.delattr(reduction, "DupFd")
    monkeypatch.delattr(os, "pread")
    monkeypatch.delattr(os, "memfd_create")
    return made


def test_on_windows_it_is_memory_with_a_name(windows: NamedMemory) -> None:
    shared = SharedList(["a", (1, 2)])
    numbers = SharedDict({"cat": 0, "dog": 1})
    words = pickle.dumps((shared, numbers))
    copy, copied = pickle.loads(words)
    assert list(copy) == ["a", (1, 2)]
    assert copied["dog"] == 1
    assert len(windows.sections) == 4
    with pytest.raises(TypeError):
        copy._shared.data[0] = 1
    del shared, numbers, copy, copied
    assert len(windows.sections) == 0
    with pytest.raises(OSError, match="does not hold the shared records any more"):
        pickle.loads(words)


def test_on_windows_a_file_is_found_by_its_name(windows: NamedMemory, tmp_path: Path) -> None:
    words = pickle.dumps(SharedList(range(5), file=tmp_path / "records"))
    assert list(pickle.loads(words)) == [0, 1, 2, 3, 4]
    assert [each.name for each in tmp_path.iterdir()] == ["records"]


def test_it_can_be_imported_where_descriptors_are_not_handed_over() -> None:
    program = """
        import os
        from multiprocessing import reduction
        del reduction.DupFd, os.pread
        from feedrate.remedies.shared_dict import SharedDict
        print(SharedDict({"cat": 0})["cat"])
    """
    done = run(program)
    assert done.stdout == "0\n", done.stderr


def test_elsewhere_it_is_a_temporary_file_that_goes_with_its_maker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    shared = SharedList(range(5))
    assert len(list(tmp_path.iterdir())) == 1
    copy = pickle.loads(pickle.dumps(shared))
    del shared
    assert list(tmp_path.iterdir()) == []
    assert list(copy) == [0, 1, 2, 3, 4]
    with pytest.raises(TypeError, match="item 0 of type function"):
        SharedList([lambda: None])
    assert list(tmp_path.iterdir()) == []
