"""What memray tells becomes lines of the user's; on records that were made up, and on real ones."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from feedrate.measure.causes import native
from feedrate.measure.causes.lines import Lines
from feedrate.measure.causes.native import Frame, Kept, NativeInspector, is_installed, kept_by_c

KIB = 1024


@dataclass
class Record:
    """Allocations at one place that were not freed."""

    size: int
    n_allocations: int
    python: Sequence[Frame] = (("__getitem__", "data.py", 12), ("<module>", "train.py", 3))
    c: Sequence[Frame] = (("operator new(unsigned long)", "?", 0), ("open_reader", "?", 0))

    def stack_trace(self) -> Sequence[Frame]:
        return self.python

    def native_stack_trace(self) -> Sequence[Frame]:
        return self.c


def kept(*records: Record, calls: int = 100) -> tuple[Kept, ...]:
    return kept_by_c(records, Lines(), calls)


def test_the_line_and_the_function_that_it_called_are_told() -> None:
    (found,) = kept(Record(1000 * KIB, 1000))
    assert found == Kept(place=("data.py", 12), function="open_reader", count=1000, size=1000 * KIB)


def test_in_a_thread_of_a_library_only_the_function_is_known() -> None:
    (found,) = kept(Record(1000 * KIB, 1000, python=()))
    assert (found.place, found.function) == (None, "open_reader")


def test_allocations_of_one_line_by_one_function_are_one() -> None:
    (found,) = kept(Record(100 * KIB, 60), Record(50 * KIB, 60))
    assert (found.count, found.size) == (120, 150 * KIB)


@pytest.mark.parametrize(
    ("frames", "name"),
    [
        ((("malloc", "?", 0), ("<unknown>", "?", 0), ("decode", "?", 0)), "decode"),
        ((("__GI___strdup", "string/strdup.c", 42), ("ffi_call", "?", 0)), "strdup"),
        ((("operator new(unsigned long)", "?", 0), ("ffi_call", "?", 0)), "operator new"),
        ((("<unknown>", "?", 0),), "a function without a name"),
        ((), "a function without a name"),
    ],
)
def test_functions_that_only_hand_memory_on_say_little(
    frames: tuple[Frame, ...], name: str
) -> None:
    (found,) = kept(Record(100 * KIB, 100, c=frames))
    assert found.function.startswith(name)


@pytest.mark.parametrize(
    "record",
    [
        Record(1000 * KIB, 3),  # set up once, and not with every batch
        Record(10 * KIB, 1000),  # next to nothing
        Record(1000 * KIB, 1000, c=(("_PyObject_Calloc", "Objects/obmalloc.c", 1),)),
        Record(1000 * KIB, 1000, c=(("list_resize", "Objects/listobject.c", 1),)),
    ],
)
def test_what_is_pythons_own_or_does_not_come_again_is_left_out(record: Record) -> None:
    assert kept(record) == ()


def test_what_is_little_beside_the_first_is_left_out() -> None:
    others = [Record(n * KIB, 100, python=(("f", f"{n}.py", 1),)) for n in (900, 800, 50)]
    found = kept(Record(1000 * KIB, 100), *others)
    assert [each.size for each in found] == [1000 * KIB, 900 * KIB, 800 * KIB]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class FakeMemray:
    """Writes an empty file, and tells of the records that it is given."""

    def __init__(self, *records: Record) -> None:
        self.records = records
        self.tracked: list[Path] = []

    def module(self) -> SimpleNamespace:
        fake = self

        class Tracker:
            def __init__(self, path: Path, *, native_traces: bool) -> None:
                assert native_traces
                self.path = path

            def __enter__(self) -> None:
                self.path.touch()
                fake.tracked.append(self.path)

            def __exit__(self, *_: object) -> None:
                pass

        class FileReader:
            def __init__(self, path: Path) -> None:
                assert path.exists()

            def close(self) -> None:
                pass

            def get_leaked_allocation_records(self, *, merge_threads: bool) -> Sequence[Record]:
                assert merge_threads
                return fake.records

        return SimpleNamespace(Tracker=Tracker, FileReader=FileReader)


def inspected(
    monkeypatch: pytest.MonkeyPatch, fake: FakeMemray, *, epoch_items: float | None = 500.0
) -> tuple[NativeInspector, Clock]:
    monkeypatch.setitem(sys.modules, "memray", fake.module())
    clock = Clock()
    return NativeInspector("worker 0", 10.0, epoch_items=epoch_items, clock=clock), clock


def test_a_pass_begins_with_the_second_call_and_ends_when_the_time_is_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = FakeMemray(Record(1000 * KIB, 1000))
    inspector, clock = inspected(monkeypatch, fake)
    for _ in range(101):
        inspector.passed(10)
    assert not inspector.is_over
    clock.now = native.SECONDS
    inspector.passed(0)
    assert inspector.is_over
    told = inspector.inspection
    assert (told.is_complete, told.items) == (True, 1000)
    (cause,) = told.objects
    assert (cause.process, cause.file, cause.line) == ("worker 0", "data.py", 12)
    assert cause.type_name == "C memory (open_reader)"
    assert (cause.count, cause.bytes_per_epoch) == (500.0, 500 * KIB)
    assert not fake.tracked[0].parent.exists(), "nothing stays on disk"


def test_what_was_seen_until_it_is_closed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    inspector, _ = inspected(monkeypatch, FakeMemray(Record(1000 * KIB, 1000)), epoch_items=None)
    for _ in range(21):
        inspector.passed(10)
    inspector.epoch_ended()
    for _ in range(10):
        inspector.passed(10)
    inspector.epoch_ended()
    inspector.close()
    told = inspector.inspection
    assert not told.is_complete
    assert told.objects[0].count == pytest.approx(1000 / 3), "a third of the items is an epoch"
    inspector.passed(10)
    inspector.epoch_ended()
    assert inspector.inspection is told


def test_a_pass_that_never_began_has_nothing_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeMemray()
    inspector, _ = inspected(monkeypatch, fake)
    inspector.epoch_ended()
    inspector.close()
    assert inspector.is_over
    assert (inspector.inspection.objects, fake.tracked) == ((), [])


FAULT = """
import ctypes
from feedrate.measure.causes.native import NativeInspector

take = ctypes.CDLL("libstdc++.so.6")._Znwm  # operator new
take.argtypes, take.restype = [ctypes.c_size_t], ctypes.c_void_p

def read():
    return take(1000)

inspector = NativeInspector("main", 1.0, epoch_items=100.0, clock=lambda: 0.0)
for _ in range(301):
    read()
    inspector.passed(1)
inspector.close()
for each in inspector.inspection.objects:
    print(each.file, each.line, each.type_name, each.count, each.bytes_per_epoch, sep="|")
"""


@pytest.mark.skipif(not is_installed(), reason="memray is not installed: feedrate[memray]")
@pytest.mark.skipif(sys.platform != "linux", reason="takes memory from libstdc++")
def test_memory_that_a_c_library_keeps_is_found_at_its_line(tmp_path: Path) -> None:
    script = tmp_path / "fault.py"
    script.write_text(FAULT)
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    line = next(n for n, text in enumerate(FAULT.splitlines(), 1) if "take(1000)" in text)
    told = f"{script}|{line}|C memory (operator new(unsigned long))|100.0|100000.0"
    assert done.stdout.splitlines() == [told]
