from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedrate.host.memory import PacedSampler, QuickLook
from feedrate.memory_records import MemoryReading, MemorySnapshot


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class FakeSampler:
    """Each sample and look takes a set time on the clock."""

    def __init__(self, clock: Clock, cost: float = 0.01, look_cost: float = 0.0) -> None:
        self.clock = clock
        self.cost = cost
        self.look_cost = look_cost
        self.pss: int | None = 5
        self.shm = 0
        self.gone = False
        self.samples: list[float] = []
        self.looks: list[float] = []

    def sample(self, at: float) -> MemorySnapshot | None:
        self.samples.append(self.clock.now)
        self.clock.now += self.cost
        if self.gone:
            return None
        return MemorySnapshot(
            at=at,
            main=MemoryReading(rss=10, pss=self.pss),
            workers=None,
            worker_count=0,
            shm_bytes=self.shm,
            main_descriptors=3,
            worker_descriptors=None,
        )

    def quick(self) -> QuickLook:
        self.looks.append(self.clock.now)
        self.clock.now += self.look_cost
        return QuickLook(self.shm, 4)


def run(paced: PacedSampler, clock: Clock, seconds: float, step: float) -> None:
    end = clock.now + seconds
    while clock.now < end:
        clock.now += step
        paced.poll()


def test_the_first_poll_samples_and_is_stamped_from_the_start() -> None:
    clock = Clock()
    paced = PacedSampler(FakeSampler(clock), clock)
    clock.now += 0.25
    assert paced.due()
    snapshot = paced.poll()
    assert snapshot is not None
    assert snapshot.at == pytest.approx(0.25)
    assert not paced.due()
    assert paced.poll() is None
    assert paced.snapshots() == (snapshot,)


def test_a_short_run_has_a_sample_and_a_long_one_keeps_to_the_duty() -> None:
    clock = Clock()
    sampler = FakeSampler(clock, cost=0.01)
    paced = PacedSampler(sampler, clock, duty=0.005)
    run(paced, clock, 1.0, 0.05)
    assert len(sampler.samples) == 1
    run(paced, clock, 999.0, 0.05)
    # 0.005 × 1000 s ÷ 0.01 s = 500 samples
    assert 498 <= len(sampler.samples) <= 502
    assert paced.spent_seconds <= 0.005 * 1000


def test_samples_are_never_in_a_burst() -> None:
    clock = Clock()
    sampler = FakeSampler(clock, cost=0.05)
    run(PacedSampler(sampler, clock), clock, 120.0, 0.02)
    gaps = [later - earlier for earlier, later in pairwise(sampler.samples)]
    assert min(gaps) >= 20 * 0.05


def test_forced_samples_come_at_once_and_are_paid_back() -> None:
    clock = Clock()
    sampler = FakeSampler(clock, cost=0.01)
    paced = PacedSampler(sampler, clock, duty=0.005)
    assert all(paced.poll(force=True) for _ in range(10))
    assert paced.spent_seconds == pytest.approx(0.1)
    run(paced, clock, 15.0, 0.05)
    assert len(sampler.samples) == 10  # 0.1 s are more than 0.005 × 15 s + 0.02 s
    run(paced, clock, 10.0, 0.05)
    assert len(sampler.samples) > 10


@given(
    costs=st.lists(st.floats(0.0001, 0.2), min_size=1, max_size=60),
    steps=st.lists(st.floats(0.001, 5.0), min_size=1, max_size=60),
    look=st.floats(0.0, 0.001),
)
def test_the_duty_holds_whatever_samples_cost(
    costs: list[float], steps: list[float], look: float
) -> None:
    clock = Clock()
    sampler = FakeSampler(clock, look_cost=look)
    paced = PacedSampler(sampler, clock, duty=0.005)
    for index, step in enumerate(steps * 3):
        sampler.cost = costs[index % len(costs)]
        clock.now += step
        paced.poll()
        allowed = 0.005 * (clock.now - 1000.0) + 2 * max(costs) + look
        assert paced.spent_seconds <= allowed + 1e-9


def test_a_look_at_every_poll_finds_a_peak_between_samples() -> None:
    clock = Clock()
    sampler = FakeSampler(clock, cost=0.05, look_cost=10e-6)
    paced = PacedSampler(sampler, clock)
    paced.poll()
    for shm in (100, 900, 200):
        clock.now += 0.05
        sampler.shm = shm
        assert paced.poll() is None
    assert len(sampler.looks) == 3
    peaks = paced.peaks(shm_before=50)
    assert peaks is not None
    assert (peaks.shm_bytes, peaks.main_descriptors) == (850, 4)


def test_dear_looks_are_spaced() -> None:
    clock = Clock()
    sampler = FakeSampler(clock, cost=0.05, look_cost=0.001)
    run(PacedSampler(sampler, clock, duty=0.005), clock, 20.0, 0.01)
    assert len(sampler.looks) * 0.001 <= 0.005 / 5 * 20.0 + 0.001


def test_a_main_process_that_is_gone_leaves_what_was_seen() -> None:
    clock = Clock()
    sampler = FakeSampler(clock)
    paced = PacedSampler(sampler, clock)
    sampler.gone = True
    assert paced.poll(force=True) is None
    assert paced.peaks(0) is None
    sampler.gone = False
    assert paced.poll(force=True) is not None
    sampler.gone = True
    assert paced.poll(force=True) is None
    assert len(paced.snapshots()) == 1
    assert paced.peaks(0) is not None


def test_peaks_name_the_kind_of_memory() -> None:
    clock = Clock()
    sampler = FakeSampler(clock)
    sampler.pss = None
    paced = PacedSampler(sampler, clock)
    paced.poll()
    peaks = paced.peaks(None)
    assert peaks is not None
    assert (peaks.memory_kind, peaks.main_bytes) == ("rss", 10)
