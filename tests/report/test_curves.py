"""Which points make a line of the figure, and what it is called."""

from __future__ import annotations

from builders import make_benchmark, make_facts, make_failed_run, make_suite
from feedrate.analysis.conditions import conditions
from feedrate.analysis.plateau import plateau
from feedrate.records import Benchmark, Suite
from feedrate.report.curves import Curve, curves_of, only_count, panels_of, shows_warm


def workers(curve: Curve) -> tuple[list[int], list[int]]:
    return [p.workers for p in curve.main], [p.workers for p in curve.repeated]


def pinned(on: bool, rate: float = 800.0) -> Benchmark:
    return make_benchmark(4, [rate, rate], part="pin_memory", pin_memory=on)


def test_each_condition_has_its_line_and_its_repeated_points(published: Suite) -> None:
    light, augmented = curves_of(published)
    assert (light.name, augmented.name) == ("light", "augmented")
    assert workers(light) == ([0, 1, 2, 4, 8, 12, 16], [])
    assert workers(augmented) == ([0, 1, 2, 4, 8, 12, 16], [8, 12, 16])


def test_the_plateau_is_the_one_that_is_judged(published: Suite) -> None:
    for curve, condition in zip(curves_of(published), conditions(published), strict=True):
        assert curve.best == condition.curve
        assert curve.found == plateau(condition.curve, condition.tolerance)


def test_the_start_is_a_repeated_point_where_there_is_one(published: Suite) -> None:
    augmented = curves_of(published)[1]
    assert augmented.start is not None
    assert (augmented.start.workers, augmented.start.benchmark.part) == (12, "repeated")
    assert "plateau starts at 12" in augmented.plateau_words


def test_no_plateau_is_claimed_at_the_edge_or_for_a_single_count() -> None:
    (rising,) = curves_of(make_suite(rates={0: [100.0], 1: [200.0], 2: [400.0]}))
    assert rising.start is None
    assert rising.plateau_words == "no plateau up to 2 workers"
    (single,) = curves_of(make_suite(rates={2: [400.0]}))
    assert (single.start, single.plateau_words) == (None, "")


def test_a_plateau_that_the_runs_do_not_settle_is_called_undecided() -> None:
    (once,) = curves_of(make_suite(rates={0: [100.0], 2: [400.0], 4: [401.0]}))
    assert once.plateau_words == "plateau starts at 2 (ring), undecided"
    often = {0: [100.0] * 5, 2: [400.0] * 5, 4: [401.0] * 5}
    (settled,) = curves_of(make_suite(rates=often))
    assert settled.plateau_words == "plateau starts at 2 (ring)"


def test_repeated_points_go_to_the_line_with_their_settings() -> None:
    def at(count: int, factor: int, part: str = "sweep") -> Benchmark:
        facts = make_facts(count, prefetch_factor=factor)
        return make_benchmark(
            count, [100.0 * count], part=part, prefetch_factor=factor, run_fields={"facts": facts}
        )

    lines = curves_of(make_suite([at(2, 2), at(2, 8), at(4, 2), at(4, 8), at(4, 8, "repeated")]))
    assert [(line.name, *workers(line)) for line in lines] == [
        ("prefetch_factor 2", [2, 4], []),
        ("prefetch_factor 8", [2, 4], [4]),
    ]


def test_other_series_are_drawn_only_where_there_is_no_sweep() -> None:
    sweep = [make_benchmark(n, [100.0]) for n in (0, 4)]
    assert [line.name for line in curves_of(make_suite([*sweep, pinned(False), pinned(True)]))] == [
        ""
    ]
    lines = curves_of(make_suite([pinned(False), pinned(True)]))
    assert [line.name for line in lines] == ["pin_memory off", "pin_memory on"]


def test_one_count_for_all_makes_one_panel_with_a_place_for_each_line() -> None:
    lines = curves_of(make_suite([pinned(False), pinned(True)]))
    assert only_count(lines) == 4
    (panel,) = panels_of(lines)
    assert panel.axis == "with 4 workers"
    assert [label for label, _ in panel.bars] == ["pin_memory off", "pin_memory on"]


def test_several_counts_make_a_panel_for_each_line(published: Suite) -> None:
    lines = curves_of(published)
    assert only_count(lines) is None
    panels = panels_of(lines)
    assert [panel.title for panel in panels] == ["light", "augmented"]
    assert [label for label, _ in panels[0].bars] == ["0", "1", "2", "4", "8", "12", "16"]


def test_cold_epochs_alone_are_told_from_warm_ones() -> None:
    cold = make_benchmark(2, [100.0], run_fields={"later_epochs": 0})
    assert not shows_warm(curves_of(make_suite([cold])))
    assert shows_warm(curves_of(make_suite([cold, make_benchmark(4, [100.0])])))
    # with nothing measured at all there is nothing cold to warn of
    assert shows_warm(curves_of(make_suite([make_benchmark(2, runs=[make_failed_run()])])))
