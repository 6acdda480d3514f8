from __future__ import annotations

import pytest
from found import evidence, none, one

from builders import make_benchmark, make_epoch, make_facts, make_run, make_suite
from feedrate.records import Benchmark

CODE = "sweep.start_method"


def started(
    method: str,
    startup: float,
    later: float | None = 2.0,
    *,
    cold: float = 3.0,
    workers: int = 2,
    runs: int = 5,
    kept: bool = True,
) -> Benchmark:
    """Return a benchmark with these seconds to the first batch and in each later epoch."""
    epochs = [make_epoch(seconds=cold + startup)]
    if later is not None:
        epochs.append(make_epoch(seconds=later))
    run = make_run(
        num_workers=workers,
        startup_seconds=startup,
        epochs=tuple(epochs),
        facts=make_facts(workers, start_method=method, persistent_workers=kept),
    )
    return make_benchmark(workers, runs=[run] * runs, start_method=method)


def test_what_a_dearer_start_costs_and_that_nothing_pays_it_back() -> None:
    made = one(make_suite([started("spawn", 3.2, 2.01), started("fork", 0.2)]), CODE)
    assert made.title == (
        "With 2 workers the first batch comes after 200 ms by fork and 3.20 s by spawn; the 3.00 s "
        "more by spawn is never paid back: later epochs are not faster (2.01 s instead of 2.00 s)."
    )
    assert made.remedy == (
        'Use multiprocessing_context="fork", unless the program needs spawn: fork does not go with '
        "threads, or with CUDA used before."
    )
    assert evidence(made, "start-up by spawn").value == pytest.approx(3.2)
    assert evidence(made, "later epoch by fork").value == pytest.approx(2.0)


def test_when_it_is_paid_back() -> None:
    made = one(make_suite([started("spawn", 3.2, 1.0), started("fork", 0.2)]), CODE)
    # 3 s more in the first epoch, 1 s less in each later one
    assert "is paid back by the end of epoch 4: later epochs are faster" in made.title
    assert evidence(made, "spawn paid back from epoch").value == 4
    assert made.remedy.startswith("For fewer epochs than 4 use multiprocessing_context=")


def test_a_gain_within_the_tolerance_pays_nothing_back() -> None:
    made = one(
        make_suite([started("spawn", 3.2, 1.98, runs=1), started("fork", 0.2, runs=1)]), CODE
    )
    assert made.title.startswith("From one run each, with 2 workers the first batch comes after")
    assert "is never paid back" in made.title


def test_several_methods_are_told_each() -> None:
    suite = make_suite([started("fork", 0.2), started("spawn", 3.2), started("forkserver", 2.2)])
    made = one(suite, CODE)
    assert made.title.startswith(
        "With 2 workers the first batch comes after 200 ms by fork, 2.20 s by forkserver and "
        "3.20 s by spawn; the 2.00 s more by forkserver is never paid back"
    )
    assert "; the 3.00 s more by spawn is never" in made.title
    assert "needs forkserver or spawn" in made.remedy


def test_workers_that_start_for_each_epoch_cost_at_each() -> None:
    suite = make_suite([started("fork", 0.2, kept=False), started("spawn", 3.2, 5.0, kept=False)])
    assert "; the 3.00 s more by spawn at every epoch is never" in one(suite, CODE).title


def test_first_epochs_alone_leave_it_open() -> None:
    suite = make_suite([started("fork", 0.2, None), started("spawn", 3.2, None)])
    assert one(suite, CODE).title.endswith("whether later epochs pay that back was not measured.")


def test_no_difference() -> None:
    made = one(make_suite([started("fork", 0.2), started("spawn", 0.202)]), CODE)
    assert made.title.endswith("202 ms by spawn: no difference that matters.")
    assert made.remedy == ""


def test_nothing_to_compare() -> None:
    assert none(make_suite([started("fork", 0.2)]), CODE)
    assert none(make_suite([started("fork", 0.2), started("spawn", 3.2, workers=4)]), CODE)
    assert none(make_suite(), CODE)
