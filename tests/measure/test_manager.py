"""The manager: order, saving, skipping, failing and interrupting, without processes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from builders import make_benchmark, make_metadata, make_procedure
from fakes import FakeExecutor, Script, fail, in_turn, succeed
from feedrate.errors import (
    Interrupted,
    MeasuringTimeout,
    NothingMeasured,
    OutputError,
    TargetError,
)
from feedrate.measure import wire
from feedrate.measure.manager import Manager, Place, Watcher
from feedrate.records import Benchmark, Run, Suite
from feedrate.settings import Budget

PLENTY = Budget(cpus=2, ram_bytes=2**40, shm_bytes=2**40)


class Notes(Watcher):
    """A watcher that keeps what it is told."""

    def __init__(self) -> None:
        self.started: list[tuple[Place, str, int, float | None]] = []
        self.skips: list[str] = []
        self.lost: list[str] = []

    def run_started(
        self, place: Place, benchmark: Benchmark, repeat: int, left: float | None
    ) -> None:
        self.started.append((place, benchmark.label, repeat, left))

    def skipped(self, benchmark: Benchmark) -> None:
        self.skips.append(benchmark.label)

    def not_saved(self, error: OutputError) -> None:
        self.lost.append(str(error))


class Bench:
    """A manager with its fakes."""

    def __init__(self, script: Script = succeed, free: Budget = PLENTY) -> None:
        self.executor = FakeExecutor(script)
        self.saved: list[Suite] = []
        self.notes = Notes()
        self.manager = Manager(
            Suite(metadata=make_metadata(torch_version=None), procedure=make_procedure()),
            executor=self.executor,
            spec_for=lambda b: wire.ChildSpec(target="t.py:f", settings=b.settings, epochs=2),
            free=lambda: free,
            save=self.saved.append,
            watcher=self.notes,
        )

    def measure(self, workers: Sequence[int], repeats: int = 1) -> Suite:
        self.manager.measure([make_benchmark(n) for n in workers], repeats)
        return self.manager.suite

    @property
    def order(self) -> list[int]:
        return [spec.settings.num_workers for spec in self.executor.specs if spec.settings]

    def runs(self) -> list[Run]:
        return [run for benchmark in self.manager.suite.benchmarks for run in benchmark.runs]


def test_each_round_starts_one_setting_later():
    bench = Bench()
    bench.measure([0, 1, 2], repeats=3)
    assert bench.order == [0, 1, 2, 1, 2, 0, 2, 0, 1]
    assert sorted(run.position for run in bench.runs()) == list(range(9))
    assert [[run.repeat for run in b.runs] for b in bench.manager.suite.benchmarks] == [
        [0, 1, 2]
    ] * 3


def test_the_suite_is_saved_after_every_run():
    bench = Bench()
    bench.measure([0, 1], repeats=2)
    assert [sum(len(b.runs) for b in suite.benchmarks) for suite in bench.saved] == [1, 2, 3, 4]


def test_a_second_series_is_added_to_the_first():
    bench = Bench()
    bench.measure([0, 1])
    bench.measure([2], repeats=2)
    assert [len(b.runs) for b in bench.manager.suite.benchmarks] == [1, 1, 2]
    assert bench.runs()[-1].position == 3


def test_metadata_is_completed_by_the_first_child():
    suite = Bench().measure([0])
    assert suite.metadata.torch_version == "2.6.0"
    assert suite.metadata.default_start_method == "fork"


def test_a_failed_setting_is_kept_with_its_error_and_not_tried_again():
    bench = Bench(in_turn(succeed, fail("killed"), succeed))
    bench.measure([0, 1], repeats=2)
    good, bad = bench.manager.suite.benchmarks
    assert [run.error for run in good.runs] == [None, None]
    assert [run.error.kind for run in bad.runs if run.error] == ["killed"]
    bench.manager.require_a_result()


def test_a_target_that_cannot_be_used_ends_it_with_its_sentence_and_traceback():
    bench = Bench(lambda _: fail("target", "no such file", "Traceback …"))
    with pytest.raises(TargetError, match="no such file") as caught:
        bench.measure([0, 1])
    assert caught.value.details == "Traceback …"
    assert bench.order == [0]


def test_nothing_measured_says_the_first_cause():
    bench = Bench(lambda _: fail("exception", "item 7 is broken"))
    bench.measure([0, 1])
    with pytest.raises(NothingMeasured, match="no setting could be measured: item 7 is broken"):
        bench.manager.require_a_result()


def test_nothing_but_hangs_is_a_timeout():
    bench = Bench(lambda _: fail("timeout", "nothing came for 5 s"))
    bench.measure([0, 1])
    with pytest.raises(MeasuringTimeout) as caught:
        bench.manager.require_a_result()
    assert caught.value.exit_code == 124


def test_an_interrupt_keeps_what_was_measured_and_stops():
    bench = Bench(in_turn(succeed, fail("interrupted"), succeed))
    with pytest.raises(Interrupted):
        bench.measure([0, 1, 2])
    assert len(bench.order) == 2
    assert [len(b.runs) for b in bench.saved[-1].benchmarks] == [1, 0, 0]


def test_a_setting_that_cannot_fit_is_skipped_with_the_reason_and_not_run():
    small = Budget(cpus=2, ram_bytes=2**40, shm_bytes=20 * 2**20)
    bench = Bench(free=small)  # a batch has 4 MiB: 2 workers queue 16, 4 workers 32
    suite = bench.measure([0, 2, 4])
    assert bench.order == [0, 2]
    assert bench.notes.skips == [suite.benchmarks[2].label]
    assert "/dev/shm" in str(suite.benchmarks[2].skipped)


def test_a_full_disk_is_told_and_measuring_goes_on():
    bench = Bench()

    def full(suite: Suite) -> None:
        raise OutputError("no space left")

    bench.manager._save = full
    bench.measure([0, 1])
    assert bench.notes.lost == ["no space left"] * 2
    assert len(bench.runs()) == 2


def test_time_left_follows_from_the_runs_so_far():
    bench = Bench(in_turn(*(lambda s, t=t: succeed(s, seconds=t) for t in (4.0, 8.0, 4.0, 8.0))))
    bench.measure([0, 1], repeats=2)
    lefts = [note[-1] for note in bench.notes.started]
    # None known; then 4 s a run and 3 to go; then each setting's own (8 and 4); at last 4.
    assert lefts == [None, 12.0, 12.0, 4.0]


def test_each_run_is_told_with_its_place_in_its_part():
    bench = Bench()
    bench.measure([0, 1])
    bench.manager.measure([make_benchmark(2)], repeats=2, part=2, parts=3)
    assert [note[0] for note in bench.notes.started] == [
        Place(position=1, total=2),
        Place(position=2, total=2),
        Place(position=1, total=2, part=2, parts=3),
        Place(position=2, total=2, part=2, parts=3),
    ]
