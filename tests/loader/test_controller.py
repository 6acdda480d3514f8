"""The controller, on models of loops whose rate at each level is known."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedrate.loader.controller import Controller
from feedrate.loader.levels import Decision, Window, knee


@dataclass(frozen=True)
class Loop:
    """A loop by its feeding roofline; ``noise`` is the relative standard deviation of a rate."""

    fetch: float = 0.04
    cpu: float = 0.001
    step: float = 0.002
    cpus: float = 2.0
    cost_per_worker: float = 0.0
    variation: float = 0.1
    noise: float = 0.0

    def rate(self, level: int) -> float:
        cpu = self.cpu * (1 + self.cost_per_worker * level) + 0.0002
        return min(level / self.fetch, self.cpus / cpu, 1 / self.step)

    def window(self, level: int, prefetch: int = 2, rng: random.Random | None = None) -> Window:
        rate = self.rate(level)
        if rng is not None:
            rate *= max(0.5, rng.gauss(1, self.noise))
        return Window(
            level=level,
            prefetch=prefetch,
            batches=level * 5,
            wait=max(0.0, 1 / rate - self.step),
            step=self.step,
            fetch=self.fetch,
            worker_cpu=self.cpu,
            main_cpu=0.0002,
            fetch_variation=self.variation,
        )


def drive(controller: Controller, look: Callable[[int, int], Window], windows: int = 40) -> int:
    """Feed the controller until it settles; return the number of windows that took."""
    for count in range(1, windows + 1):
        controller.observe(look(controller.level, controller.prefetch))
        if controller.settled:
            return count
    raise AssertionError(f"not settled after {windows} windows")


def test_the_knee_is_the_lower_of_two_ceilings() -> None:
    window = Loop(fetch=0.08, cpu=0.004, step=0.01).window(1)
    assert knee(window, cpus=2) == pytest.approx(0.08 * min(2 / 0.0042, 1 / 0.01))
    assert knee(replace(window, step=0.0, worker_cpu=0.0, main_cpu=0.0), cpus=2) == math.inf


@pytest.mark.parametrize(
    ("loop", "levels"),
    [
        (Loop(fetch=0.08, cpu=0.001, step=0.01), range(8, 10)),  # waits for storage
        (Loop(fetch=0.02, cpu=0.02, step=0.002), range(2, 3)),  # decodes on two CPUs
        (Loop(fetch=0.002, cpu=0.002, step=0.1), range(1, 2)),  # a slow step
        (Loop(fetch=0.2, cpu=0.001, step=0.001), range(32, 33)),  # more than is allowed
    ],
)
def test_it_settles_at_the_plateau(loop: Loop, levels: range) -> None:
    controller = Controller(cpus=loop.cpus, most=32)
    taken = drive(controller, loop.window)
    assert controller.level in levels
    assert taken <= 8


def test_workers_that_slow_each_other_down_are_let_go() -> None:
    loop = Loop(fetch=0.01, cpu=0.004, step=0.001, cost_per_worker=0.5)
    best = max(loop.rate(level) for level in range(1, 33))
    controller = Controller(cpus=2, most=32)
    drive(controller, loop.window)
    assert loop.rate(controller.level) >= 0.97 * best


@given(
    st.floats(0.001, 0.2),
    st.floats(0.05, 1.0),
    st.floats(0.0005, 0.1),
    st.integers(1, 8),
    st.integers(0, 2**32),
)
def test_it_comes_within_three_percent_of_the_best_on_quiet_machines(
    fetch: float, cpu_share: float, step: float, cpus: int, seed: int
) -> None:
    loop = Loop(fetch=fetch, cpu=fetch * cpu_share, step=step, cpus=float(cpus))
    controller = Controller(cpus=loop.cpus, most=32)
    drive(controller, loop.window)
    best = max(loop.rate(level) for level in range(1, 33))
    assert loop.rate(controller.level) >= 0.97 * best


@given(st.integers(0, 2**32))
def test_noise_does_not_make_it_oscillate(seed: int) -> None:
    rng = random.Random(seed)
    loop = Loop(fetch=0.08, cpu=0.001, step=0.01, noise=0.03)
    controller = Controller(cpus=2, most=32)

    def look(level: int, prefetch: int) -> Window:
        return loop.window(level, prefetch, rng)

    drive(controller, look)
    moves = sum(
        controller.observe(look(controller.level, controller.prefetch)) is not None
        for _ in range(60)
    )
    assert moves <= 2


def test_uneven_batches_get_a_deeper_queue_where_it_helps() -> None:
    loop = Loop(fetch=0.04, cpu=0.001, step=0.004, variation=1.0)

    def look(level: int, prefetch: int) -> Window:
        window = loop.window(level, prefetch)
        # head-of-line blocking costs a fifth with two batches ahead, a tenth with four
        lost = 1 + 0.4 / prefetch
        return replace(window, wait=window.wait * lost + (lost - 1) * window.step)

    controller = Controller(cpus=2, most=32)
    drive(controller, look)
    assert controller.prefetch > 2


def settled(loop: Loop) -> Controller:
    controller = Controller(cpus=loop.cpus, most=32)
    drive(controller, loop.window)
    return controller


def test_a_slower_loop_lets_workers_go() -> None:
    fast = Loop(fetch=0.08, cpu=0.001, step=0.01)
    controller = settled(fast)
    before = controller.level
    slow = replace(fast, step=0.04)
    decisions = [controller.observe(slow.window(controller.level)) for _ in range(20)]
    assert controller.level < before
    assert controller.level / fast.fetch >= 1 / slow.step  # they keep up with the slower loop
    assert len([decision for decision in decisions if decision]) == 1


def test_a_shrink_that_starves_the_loop_is_taken_back_for_good() -> None:
    fast = Loop(fetch=0.08, cpu=0.001, step=0.01)
    controller = settled(fast)
    slow = replace(fast, step=0.04)
    while controller.observe(slow.window(controller.level)) is None:
        pass
    low = controller.level
    assert isinstance(controller.observe(replace(slow.window(low), wait=0.02)), Decision)
    assert controller.level == low + 1
    assert not any(controller.observe(slow.window(controller.level)) for _ in range(20))


def test_a_loop_that_starves_later_is_looked_at_again() -> None:
    slow = Loop(fetch=0.08, cpu=0.001, step=0.04)
    controller = settled(slow)
    before = controller.level
    fast = replace(slow, step=0.01)
    for _ in range(30):
        controller.observe(fast.window(controller.level))
    assert controller.level > before
    assert fast.rate(controller.level) >= 0.97 / fast.step


def test_short_memory_takes_workers_away() -> None:
    loop = Loop(fetch=0.08, cpu=0.001, step=0.01)
    controller = Controller(cpus=2, most=32)
    drive(controller, loop.window)
    decision = controller.limit(3, "memory is short")
    assert decision is not None
    assert (decision.level, decision.reason) == (3, "memory is short")
    assert controller.limit(3, "memory is short") is None


def test_what_memory_has_no_room_for_is_not_asked_for_again() -> None:
    loop = Loop(fetch=0.08, cpu=0.001, step=0.01)
    controller = settled(loop)
    assert controller.limit(3, "memory is short") is not None
    for _ in range(30):
        assert controller.observe(loop.window(controller.level)) is None
        assert controller.limit(3, "memory is short") is None


def test_short_memory_while_it_looks_leaves_what_does_not_fit_out() -> None:
    loop = Loop(fetch=0.08, cpu=0.001, step=0.01)
    controller = Controller(cpus=2, most=32)
    controller.observe(loop.window(1))
    assert controller.level > 3  # the knee is far above
    controller.limit(3, "memory is short")
    drive(controller, loop.window)
    assert controller.level == 3


def test_when_memory_is_there_again_it_looks_again_and_then_rests() -> None:
    loop = Loop(fetch=0.08, cpu=0.001, step=0.01)
    controller = settled(loop)
    before = controller.level
    controller.limit(3, "memory is short")
    assert [controller.observe(loop.window(3)) for _ in range(10)] == [None] * 10
    controller.limit(32, "")
    for _ in range(30):
        controller.observe(loop.window(controller.level))
    assert controller.level == before
    assert controller.settled


def test_a_disturbed_window_is_measured_again() -> None:
    loop = Loop(fetch=0.04, cpu=0.038, step=0.004)
    controller = Controller(cpus=2, most=32)
    disturbed = [True]

    def look(level: int, prefetch: int) -> Window:
        window = loop.window(level, prefetch)
        if level == 2 and disturbed:
            disturbed.pop()
            return replace(window, wait=window.wait + 0.05)
        return window

    drive(controller, look)
    assert not disturbed
    assert loop.rate(controller.level) >= 0.97 * loop.rate(32)


def test_windows_of_another_level_say_nothing() -> None:
    controller = Controller(cpus=2, most=32)
    assert controller.observe(Loop().window(4)) is None
    assert controller.level == 1


def test_a_decision_reads_as_one_line() -> None:
    decision = Decision(4, 2, "with 2 workers the loop still waits", Loop().window(2))
    assert str(decision) == "4 workers, prefetch_factor 2: with 2 workers the loop still waits"
    assert str(Decision(1, 2, "it keeps up")).startswith("1 worker, ")
    assert "Window" not in repr(decision)
