from __future__ import annotations

import pytest
from found import evidence, none, one

from builders import (
    make_benchmark,
    make_epoch,
    make_facts,
    make_metadata,
    make_procedure,
    make_run,
    make_suite,
)
from feedrate.records import Benchmark, Finding

CODE = "sweep.short_job"


def timed(count: int, cold: float, later: float, runs: int = 5) -> Benchmark:
    epochs = (make_epoch(seconds=cold), make_epoch(seconds=later))
    run = make_run(num_workers=count, epochs=epochs, facts=make_facts(count))
    return make_benchmark(count, runs=[run] * runs)


def judged(epochs: int, *benchmarks: Benchmark) -> Finding:
    return one(make_suite(benchmarks, procedure=make_procedure(plan_epochs=epochs)), CODE)


SLOW_START = timed(8, cold=20, later=1)
QUICK_START = timed(2, cold=4, later=2)


def test_a_short_job_takes_what_starts_quickly() -> None:
    made = judged(3, QUICK_START, SLOW_START)
    assert made.title == (
        "A job of 3 epochs takes the least time with 2 workers: 8.00 s (median of 5 runs, 8.00 to "
        "8.00 s), set-up not counted; 8 workers, faster in the long run, would take 22.0 s."
    )
    assert made.remedy == (
        "For jobs of 3 epochs use 2 workers; plan_epochs (--plan-epochs) sets the number."
    )
    assert evidence(made, "3 epochs with 2 workers").value == pytest.approx(8)
    assert evidence(made, "3 epochs with 8 workers").value == pytest.approx(22)


def test_a_long_job_takes_the_fastest() -> None:
    made = judged(100, QUICK_START, SLOW_START)
    assert "with 8 workers: 119 s" in made.title
    assert made.title.endswith("; these are the settings for long jobs too.")
    assert len(made.evidence) == 1


def test_the_cheaper_of_the_same_is_taken() -> None:
    made = judged(10, timed(2, 4, 2.02), timed(4, 4, 2))
    assert "takes the least time with 2 workers" in made.title


def test_one_epoch_needs_no_later_one() -> None:
    cold = [
        make_benchmark(
            n, runs=[make_run(100.0 * n, later_epochs=0, facts=make_facts(n))], label=f"{n} w"
        )
        for n in (1, 2)
    ]
    made = judged(1, *cold)
    assert made.title.startswith("From one run each, by first epochs only, a job of 1 epoch takes")
    assert none(make_suite(cold), CODE)


def test_cut_epochs_are_completed_and_it_is_said() -> None:
    def cut(count: int, cold: float, later: float) -> Benchmark:
        epochs = [make_epoch(seconds=s, complete=False, batches=10) for s in (cold, later)]
        facts = make_facts(count, length=100)
        return make_benchmark(count, runs=[make_run(epochs=tuple(epochs), facts=facts)] * 5)

    # as measured 2 workers would win (4 + 2 · 0.2 < 6 + 2 · 0.1), but whole epochs are ten times
    # as long: 4 + 1.8 + 2 · 2 > 6 + 0.9 + 2 · 1
    made = judged(3, cut(2, 4, 0.2), cut(8, 6, 0.1))
    assert "with 8 workers: 8.90 s" in made.title
    assert made.title.endswith("; epochs were cut short and are completed at the measured pace.")


def test_one_setting_is_no_choice() -> None:
    assert none(make_suite([QUICK_START]), CODE)
    assert none(make_suite([]), CODE)


def test_pinning_is_no_choice_without_an_accelerator() -> None:
    def pinned(count: int, cold: float, later: float, *, pin: bool) -> Benchmark:
        runs = timed(count, cold, later).runs
        word = "on" if pin else "off"
        return make_benchmark(
            count, runs=runs, pin_memory=pin, label=f"{count} workers · pin_memory {word}"
        )

    both = [pinned(2, 4, 2, pin=False), pinned(2, 5, 3, pin=True)]
    assert none(make_suite(both), CODE)
    made = judged(3, *both, pinned(8, 20, 1, pin=False), pinned(8, 20, 1, pin=True))
    assert "pin_memory" not in made.title + made.remedy
    with_one = make_suite(both, metadata=make_metadata(accelerator="Example GPU"))
    assert "with 2 workers, pin_memory off: " in one(with_one, CODE).title


def test_only_what_whole_later_epochs_show_is_faster_in_the_long_run() -> None:
    def items(count: int, later: float, items: int) -> Benchmark:
        epochs = (make_epoch(seconds=4), make_epoch(seconds=later, items=items, complete=False))
        run = make_run(num_workers=count, epochs=epochs, facts=make_facts(count))
        return make_benchmark(count, runs=[run] * 5)

    # the rate is higher because the cut epochs have more items, not because they take less time
    made = judged(3, items(2, 2, 1280), items(8, 3, 9000))
    assert "takes the least time with 2 workers" in made.title
    assert "long run" not in made.title
