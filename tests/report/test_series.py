"""How points are grouped into tables and lines."""

from __future__ import annotations

from typing import Any

from builders import make_benchmark, make_facts, make_failed_run, make_suite
from feedrate.analysis.summary import Point, summarize
from feedrate.records import Benchmark
from feedrate.report.series import Group, lines_of, parts_of


def points(*benchmarks: Benchmark) -> tuple[Point, ...]:
    return summarize(make_suite(benchmarks))


def with_facts(workers: int, rate: float = 500.0, **facts: Any) -> Benchmark:
    asked = {name: value for name, value in facts.items() if value is not None}
    return make_benchmark(
        workers, [rate], run_fields={"facts": make_facts(workers, **facts)}, **asked
    )


def shape(groups: tuple[Group, ...]) -> list[tuple[str, list[int]]]:
    return [(group.others, [point.workers for point in group.points]) for group in groups]


def test_conditions_and_parts_are_apart_in_the_order_of_measuring() -> None:
    groups = parts_of(
        points(
            make_benchmark(2, [1.0], condition="b"),
            make_benchmark(0, [1.0], condition="b"),
            make_benchmark(4, [1.0], condition="a", part="repeated"),
            make_benchmark(4, [1.0], condition="b", part="repeated"),
        )
    )
    assert [(g.condition, g.part) for g in groups] == [
        ("b", "sweep"),
        ("a", "repeated"),
        ("b", "repeated"),
    ]
    assert [point.workers for point in groups[0].points] == [0, 2]


def test_settings_that_are_equal_do_not_vary() -> None:
    (group,) = parts_of(points(with_facts(0), with_facts(2), with_facts(4)))
    assert group.varying == ()


def test_what_needs_workers_does_not_vary_for_lack_of_them() -> None:
    (group,) = parts_of(points(with_facts(0), with_facts(2, prefetch_factor=4)))
    assert group.varying == ()


def test_lines_differ_in_the_settings_that_vary() -> None:
    lines = lines_of(
        points(
            with_facts(0),
            with_facts(2, prefetch_factor=1),
            with_facts(2, prefetch_factor=4),
            with_facts(4, prefetch_factor=1),
            with_facts(4, prefetch_factor=4),
        )
    )
    assert shape(lines) == [("prefetch_factor 1", [0, 2, 4]), ("prefetch_factor 4", [0, 2, 4])]


def test_no_workers_stand_only_in_lines_that_agree_in_the_rest() -> None:
    lines = lines_of(
        points(
            with_facts(0, pin_memory=False),
            with_facts(2, pin_memory=False),
            with_facts(2, pin_memory=True),
        )
    )
    assert shape(lines) == [("pin_memory off", [0, 2]), ("pin_memory on", [2])]


def test_what_failed_before_it_told_its_settings_is_in_the_line_it_was_asked_for() -> None:
    lines = lines_of(
        points(
            with_facts(2, prefetch_factor=1),
            with_facts(2, prefetch_factor=4),
            make_benchmark(8, runs=[make_failed_run()], prefetch_factor=4),
        )
    )
    assert shape(lines) == [("prefetch_factor 1", [2]), ("prefetch_factor 4", [2, 8])]


def test_what_was_not_asked_for_is_as_the_target_has_it() -> None:
    (group,) = parts_of(
        points(
            make_benchmark(2, [1.0], run_fields={"facts": make_facts(2, batch_size=32)}),
            make_benchmark(2, [1.0], run_fields={"facts": make_facts(2, batch_size=64)}),
        )
    )
    assert [setting.name for setting in group.varying] == ["batch_size"]
    assert [group.varying[0].of(point.benchmark) for point in group.points] == ["32", "64"]
