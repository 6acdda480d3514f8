from __future__ import annotations

import pytest
from found import evidence, none, one

from builders import make_benchmark, make_epoch, make_facts, make_run, make_suite
from feedrate.records import Benchmark, Suite

CODE = "sweep.startup"


def timed(
    count: int, cold: float, later: float | None, *, complete: bool = True, runs: int = 5
) -> Benchmark:
    """Return a benchmark whose epochs take so many seconds."""
    epochs = [make_epoch(seconds=cold, complete=complete)]
    if later is not None:
        epochs.append(make_epoch(seconds=later, complete=complete, wait_share=0.5))
    run = make_run(num_workers=count, epochs=tuple(epochs), facts=make_facts(count, length=40))
    return make_benchmark(count, runs=[run] * runs)


def two(dear: tuple[float, float | None], cheap: tuple[float, float | None]) -> Suite:
    return make_suite([timed(0, *cheap), timed(4, *dear)])


def test_paid_back_after_some_epochs() -> None:
    made = one(two(dear=(10, 2), cheap=(5, 3)), CODE)
    assert made.title == (
        "The first batch comes after 250 ms with 4 workers and after 50.0 ms with 0; 4 workers "
        "have paid that back by the end of epoch 6."
    )
    assert made.remedy == "For fewer epochs than 6 use num_workers=0."
    assert evidence(made, "paid back from epoch").value == 6
    assert evidence(made, "first epoch with 4 workers").value == 10
    assert evidence(made, "later epoch with 0 workers").value == 3


def test_ahead_in_the_first_epoch() -> None:
    made = one(two(dear=(4, 2), cheap=(5, 3)), CODE)
    assert made.title.endswith("; 4 workers are ahead by the end of the first epoch already.")
    assert made.remedy == ""


def test_only_first_epochs_leave_it_open() -> None:
    made = one(make_suite([timed(0, 5, None), timed(4, 4.5, None)]), CODE)
    assert made.title.endswith("are ahead by the end of the first epoch already.")


def test_not_measured_is_said_so() -> None:
    # by their rates 4 workers are the choice, but their epochs are longer: more items in them,
    # which only cut epochs may have
    epoch = make_epoch(seconds=6, items=9000, complete=False)
    slow = make_run(num_workers=4, epochs=(epoch,), facts=make_facts(4))
    suite = make_suite([timed(0, 5, None), make_benchmark(4, runs=[slow] * 5)])
    made = one(suite, CODE)
    assert made.title.endswith("; whether later epochs pay that back was not measured.")
    assert made.remedy == "Measure a later epoch too (--epochs 2)."


def test_never_paid_back() -> None:
    slow = make_run(
        num_workers=4,
        epochs=(make_epoch(seconds=9), make_epoch(seconds=3, items=9000)),
        facts=make_facts(4),
    )
    suite = make_suite([timed(0, 5, 3), make_benchmark(4, runs=[slow] * 5)])
    made = one(suite, CODE)
    assert made.title.endswith("; 4 workers never pay that back.")
    assert made.remedy == "Use num_workers=0."


def test_epochs_cut_short_are_completed_and_it_is_said() -> None:
    suite = make_suite([timed(0, 5, 3, complete=False), timed(4, 10, 2, complete=False)])
    made = one(suite, CODE)
    # 20 of 40 batches: 3 s and 2 s more in each epoch, so each later epoch gains 2 s, not 1 s
    assert "by the end of epoch 3, its length completed at the measured pace" in made.title
    assert evidence(made, "later epoch with 0 workers").value == pytest.approx(6)


def test_one_count_tells_its_start_alone() -> None:
    made = one(make_suite([timed(2, 5, 3)]), CODE)
    assert made.title == "The first batch comes after 150 ms with 2 workers."


def test_no_workers_have_no_start_worth_a_word() -> None:
    assert none(make_suite([timed(0, 5, 3)]), CODE)
    assert none(two(dear=(10, 3), cheap=(5, 3)), CODE)
    unknown = make_run(startup_seconds=None)
    assert none(make_suite([make_benchmark(2, runs=[unknown])]), CODE)


def test_single_runs_say_so() -> None:
    suite = make_suite([timed(0, 5, 3, runs=1), timed(4, 10, 2, runs=1)])
    assert one(suite, CODE).title.startswith("From one run each, the first batch comes after")


def test_one_worker_is_ahead() -> None:
    made = one(make_suite([timed(0, 5, 3), timed(1, 4, 2)]), CODE)
    assert "; 1 worker is ahead by the end" in made.title
    made = one(make_suite([timed(0, 5, 3), timed(1, 6, 2)]), CODE)
    assert "; 1 worker has paid that back by" in made.title
