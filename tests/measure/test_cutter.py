"""What counts as a window of one loader."""

from __future__ import annotations

import pytest

from feedrate.measure.cutter import LEAST_BATCHES, SETTLING_ROUNDS, CpuSeconds, Cutter


class Clocks:
    """CPU clocks that go on by one second in the main process and two in the workers a reading."""

    def __init__(self) -> None:
        self.readings = 0

    def __call__(self) -> CpuSeconds:
        self.readings += 1
        return CpuSeconds(float(self.readings), 2.0 * self.readings)


def cutter(seconds: float = 1.0, **changes: object) -> Cutter:
    options: dict[str, object] = {
        "round_batches": 1,
        "needs_training": False,
        "cpu": Clocks(),
    }
    return Cutter(seconds, **(options | changes))  # type: ignore[arg-type]


def epoch(
    cut: Cutter,
    batches: int,
    *,
    wait: float = 0.125,
    step: float = 0.125,
    begin: float = 0.0,
    trains: bool = True,
    complete: bool = True,
) -> int | None:
    """Run an epoch; return after how many batches the window was full."""
    cut.begins(begin)
    for number in range(1, batches + 1):
        cut.takes(wait, 4)
        if trains:
            cut.trains()
        if number == batches and not complete:
            return None
        cut.steps(step)
        if cut.is_full:
            return number
    cut.ends(0.5)
    return batches if cut.is_full else None


def test_a_long_epoch_is_measured_within_after_the_first_rounds() -> None:
    cut = cutter(2.5)
    assert epoch(cut, 100, begin=5.0) == SETTLING_ROUNDS + 10
    part = cut.result()
    assert part is not None
    assert (part.batches, part.items) == (10, 40)
    assert part.seconds == 2.5  # the start is not in it


def test_a_window_ends_on_a_whole_round() -> None:
    cut = cutter(4.5, round_batches=4)
    assert epoch(cut, 100) == SETTLING_ROUNDS * 4 + 20


def test_a_window_has_ten_batches_unless_these_take_too_long() -> None:
    assert epoch(cutter(1.0), 100) == SETTLING_ROUNDS + LEAST_BATCHES
    # settling ends when it has taken as long as the window is to be; the first wait is the start
    assert epoch(cutter(0.25), 100, wait=0.5, step=0.0) == 2 + 2


def test_short_epochs_are_measured_whole_from_the_second_on() -> None:
    cut = cutter(5.0)
    epochs = [epoch(cut, 8, begin=1.0) for _ in range(3)]
    assert epochs == [None, None, 8]
    part = cut.result()
    assert part is not None
    assert part.batches == 16
    # two epochs: each its start, eight batches, and finding its end
    assert part.seconds == 2 * (1.0 + 8 * 0.25 + 0.5)
    assert part.waits[0] == 1.125
    assert part.more_wait == 1.0


def test_an_epoch_that_is_broken_off_counts_without_its_last_batch() -> None:
    cut = cutter(2.0)
    epoch(cut, 8)
    epoch(cut, 8, complete=False)
    assert epoch(cut, 8) == 8
    part = cut.result()
    assert part is not None
    assert part.batches == 15


def test_a_look_at_one_batch_is_no_epoch() -> None:
    cut = cutter(2.5)
    epoch(cut, 1, complete=False)
    assert epoch(cut, 100) == SETTLING_ROUNDS + 10
    late = cutter(5.0)
    epoch(late, 8)
    epoch(late, 1, complete=False)
    assert not late.is_full
    part = late.result()
    assert part is not None
    assert part.batches == 8 - SETTLING_ROUNDS  # what the first epoch gave


def test_only_iterations_that_train_count_where_that_is_needed() -> None:
    cut = cutter(2.5, needs_training=True)
    assert epoch(cut, 100, trains=False) is None
    assert cut.result() is None
    assert epoch(cut, 100) == SETTLING_ROUNDS + 10


def test_an_optimizer_that_steps_now_and_then_makes_the_whole_iteration_count() -> None:
    cut = cutter(1.0, needs_training=True)
    cut.begins(0.0)
    for _ in range(40):
        cut.takes(0.1, 4)
        cut.steps(0.1)
        assert not cut.is_full
    cut.trains()
    cut.takes(0.1, 4)
    cut.steps(0.1)
    assert cut.is_full


def test_an_epoch_that_has_become_far_longer_is_not_waited_for() -> None:
    cut = cutter(2.5)
    epoch(cut, 8)
    assert epoch(cut, 100) == 30  # three times as long as wanted


def test_what_is_no_step_is_left_out_with_its_batch() -> None:
    cut = cutter(2.0)
    cut.begins(0.0)
    for number in range(40):
        cut.takes(0.1, 4)
        cut.steps(None if number % 2 else 0.1)
    part = cut.result()
    assert part is not None
    assert part.batches == 20 - SETTLING_ROUNDS


def test_what_there_is_of_a_script_with_few_batches() -> None:
    cut = cutter(5.0)
    assert epoch(cut, 3) is None
    part = cut.result()
    assert part is not None
    assert part.batches == 2  # the first came with the start


def test_nothing_came() -> None:
    cut = cutter()
    cut.begins(0.1)
    cut.ends(0.1)
    assert not cut.is_full
    assert cut.result() is None


def test_a_window_that_begins_anew_at_no_cost_goes_on_in_the_next_epoch() -> None:
    cut = cutter(2.5, whole_epochs=False, needs_training=True)
    assert epoch(cut, 8) is None
    assert epoch(cut, 8) == 6  # four of the first epoch, which had four to settle
    part = cut.result()
    assert part is not None
    assert part.batches == 10
    assert part.more_wait == 0.0


def test_cpu_seconds_are_those_of_the_batches_that_count() -> None:
    clocks = Clocks()
    cut = cutter(2.5, cpu=clocks)
    epoch(cut, 100)
    part = cut.result()
    assert part is not None
    assert clocks.readings == 2  # after settling, and at the end
    window = part.window(level=3, prefetch=2, phase="static")
    assert window.main_cpu_seconds == pytest.approx(0.1)
    assert window.worker_cpu_seconds == pytest.approx(0.2)
    assert (window.level, window.prefetch, window.phase) == (3, 2, "static")
    assert window.seconds == pytest.approx(window.wait_seconds + window.step_seconds)
    assert len(window.batch_waits) == len(window.batch_steps) == window.batches == 10


def test_workers_whose_cpu_nobody_tells() -> None:
    cut = cutter(2.0, cpu=lambda: CpuSeconds(1.0, None))
    epoch(cut, 100)
    part = cut.result()
    assert part is not None
    assert part.window(level=1, prefetch=None, phase="own").worker_cpu_seconds is None


def test_a_device_that_is_late_lengthens_the_last_step() -> None:
    cut = cutter(2.5)
    epoch(cut, 100)
    cut.lengthens(0.75)
    part = cut.result()
    assert part is not None
    assert part.seconds == 3.25
