"""How near a loader comes to what the CPUs can give."""

from __future__ import annotations

import pytest
from found import evidence, none, one

from builders import make_suite
from feedrate.analysis.cpu_limit import cheapest_cost, item_cost, most_items
from feedrate.analysis.summary import summarize
from feedrate.analysis.verdicts import judge
from feedrate.records import Finding, Suite
from two_loaders import ITEMS, OURS, TORCHS, alone, side, two_loaders

CODE = "sweep.cpu_limit"


def measured(*, with_zero: bool = True) -> Suite:
    """2 CPUs. An item costs 8 ms without workers; with them torch's 10 ms, ours 9 ms."""
    zero = [alone(main_cpu_seconds=0.008 * ITEMS, worker_cpu_seconds=None)] if with_zero else []
    return make_suite(
        [
            *zero,
            *side(
                TORCHS,
                "torch",
                main_cpu_seconds=0.002 * ITEMS,
                worker_cpu_seconds=0.008 * ITEMS,
            ),
            *side(
                {n: [r[0] / 2] for n, r in OURS.items()},
                "feedrate",
                main_cpu_seconds=0.001 * ITEMS,
                worker_cpu_seconds=0.008 * ITEMS,
            ),
        ]
    )


def both(suite: Suite) -> tuple[Finding, Finding]:
    torchs, ours = (finding for finding in judge(suite) if finding.code == CODE)
    assert (torchs.loader, ours.loader) == ("torch", "feedrate")
    return torchs, ours


def test_the_limit_is_cpus_over_the_cost_of_an_item() -> None:
    cost = cheapest_cost(summarize(measured()))
    assert cost is not None
    assert (cost.workers, cost.main, cost.in_workers) == (0, pytest.approx(0.008), 0.0)
    assert most_items(cost, 2.0) == pytest.approx(250.0)
    assert most_items(cost, 0.5) == pytest.approx(62.5)


def test_each_loader_is_held_against_the_same_limit() -> None:
    torchs, ours = both(measured())
    assert torchs.title == (
        "From one run each, the highest rate, 185 items/s with 4 workers, reaches 74 % of what "
        "2 CPUs can give at 8.00 ms of CPU an item without workers; with 1 worker, transport "
        "included, it costs 10.0 ms."
    )
    assert ours.title.endswith("with 1 worker, transport included, it costs 9.00 ms.")
    assert evidence(torchs, "the CPUs' limit").value == pytest.approx(250.0)
    assert evidence(ours, "share of the CPUs' limit").value == pytest.approx(150 / 250)
    assert evidence(ours, "main process's CPU for an item, with 1 worker").value == pytest.approx(
        0.001
    )
    assert evidence(ours, "the worker's CPU for an item, with 1 worker").value == pytest.approx(
        0.008
    )


def test_without_a_run_without_workers_the_cost_has_the_transport_in_it() -> None:
    torchs, ours = both(measured(with_zero=False))
    assert "can give at 10.0 ms of CPU an item with 1 worker." in torchs.title
    assert evidence(torchs, "the CPUs' limit").value == pytest.approx(200.0)
    assert evidence(ours, "the CPUs' limit").value == pytest.approx(2 / 0.009)


def test_what_the_loop_reaches_without_workers_is_no_loaders() -> None:
    fast = alone((1000.0,), main_cpu_seconds=0.008 * ITEMS)
    made = one(make_suite([fast, *side(TORCHS, "torch")]), CODE)
    assert "the highest rate, 185 items/s with 4 workers, reaches 74 % of what" in made.title


def test_a_share_above_one_is_said_as_it_is() -> None:
    """Figures of another clock or cache may pass the limit; they are not cut."""
    suite = make_suite(
        [alone(main_cpu_seconds=0.02 * ITEMS), *side({2: (180.0,), 1: (100.0,)}, "torch")]
    )
    assert "reaches 180 % of what 2 CPUs can give at 20.0 ms" in one(suite, CODE).title


def test_a_fraction_of_a_cpu() -> None:
    suite = two_loaders(usable_cpus=0.5)
    assert "of what 0.500 CPUs can give" in both(suite)[0].title


def test_medians_over_the_runs() -> None:
    benchmark = alone((90.0, 90.0, 90.0), main_cpu_seconds=1.28)
    (point,) = summarize(make_suite([benchmark]))
    cost = item_cost(point)
    assert cost is not None
    assert cost.total == pytest.approx(0.001)


def test_nothing_is_said_without_cpu_times_or_low_counts() -> None:
    unknown = {"main_cpu_seconds": None, "worker_cpu_seconds": None}
    assert none(make_suite([alone(**unknown), *side(TORCHS, "torch", **unknown)]), CODE)
    half = {"worker_cpu_seconds": None}
    assert none(make_suite(side(TORCHS, "torch", **half)), CODE)
    assert none(make_suite(side({2: (180.0,), 4: (185.0,)}, "torch")), CODE)


def test_it_is_said_only_where_loaders_were_asked_for() -> None:
    assert none(make_suite(), CODE)
