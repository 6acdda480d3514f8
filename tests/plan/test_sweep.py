from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedrate.plan.sweep import MOST_LEVELS, Axes, default_workers, grid, rotated
from feedrate.settings import LoaderSettings


@pytest.mark.parametrize(
    ("cpus", "levels"),
    [
        (0.25, (0, 1)),
        (0.5, (0, 1)),
        (1, (0, 1, 2)),
        (1.5, (0, 1, 2, 3)),
        (2, (0, 1, 2, 4)),
        (3, (0, 1, 2, 3, 6)),
        (4, (0, 1, 2, 4, 6, 8)),
        (7.9, (0, 1, 2, 4, 7, 11, 15)),
        (8, (0, 1, 2, 4, 8, 12, 16)),
        (28, (0, 1, 2, 4, 8, 16, 28, 42, 56)),
        (64, (0, 1, 4, 8, 16, 32, 64, 96, 128)),
        (192, (0, 1, 4, 16, 64, 128, 192, 288, 384)),
    ],
)
def test_default_workers(cpus: float, levels: tuple[int, ...]) -> None:
    assert default_workers(cpus) == levels


@given(st.floats(0.01, 1024, allow_nan=False))
def test_default_workers_ascend_to_twice_the_cpus_and_are_few(cpus: float) -> None:
    levels = default_workers(cpus)
    assert list(levels) == sorted(set(levels))
    assert levels[:2] == (0, 1)
    assert levels[-1] == max(1, int(2 * cpus))
    assert max(1, int(cpus)) in levels
    assert len(levels) <= MOST_LEVELS


def test_workers_alone() -> None:
    benchmarks = grid(Axes(workers=(4, 0, 1)))
    assert [each.label for each in benchmarks] == ["0 workers", "1 worker", "4 workers"]
    assert [each.settings for each in benchmarks] == [
        LoaderSettings(num_workers=0),
        LoaderSettings(num_workers=1),
        LoaderSettings(num_workers=4),
    ]
    assert all(each.runs == () and each.left_out == () for each in benchmarks)


def test_the_product_keeps_the_order_of_the_axes_after_the_workers() -> None:
    axes = Axes(workers=(2, 0), pin_memory=(True, False), batch_size=(64, 32))
    assert [each.label for each in grid(axes)] == [
        "0 workers · pin_memory on · batch_size 64",
        "0 workers · pin_memory on · batch_size 32",
        "0 workers · pin_memory off · batch_size 64",
        "0 workers · pin_memory off · batch_size 32",
        "2 workers · pin_memory on · batch_size 64",
        "2 workers · pin_memory on · batch_size 32",
        "2 workers · pin_memory off · batch_size 64",
        "2 workers · pin_memory off · batch_size 32",
    ]


def test_what_does_not_vary_is_set_and_not_in_the_label() -> None:
    axes = Axes(workers=(4,), pin_memory=(False, True), prefetch_factor=(2,))
    off, on = grid(axes)
    assert (off.label, on.label) == ("4 workers · pin_memory off", "4 workers · pin_memory on")
    assert on.settings == LoaderSettings(num_workers=4, pin_memory=True, prefetch_factor=2)


def test_settings_that_need_workers_are_left_out_without_and_say_so() -> None:
    axes = Axes(
        workers=(0, 2),
        prefetch_factor=(2, 4),
        persistent_workers=(True,),
        start_method=("fork", "spawn"),
    )
    none, *others = grid(axes)
    assert none.label == "0 workers"
    assert none.settings == LoaderSettings(num_workers=0)
    assert none.left_out == (
        "prefetch_factor: there are no workers to prefetch",
        "persistent_workers: there are no workers to keep",
        "start_method: there are no workers to start",
    )
    assert [each.label for each in others] == [
        "2 workers · prefetch_factor 2 · start_method fork",
        "2 workers · prefetch_factor 2 · start_method spawn",
        "2 workers · prefetch_factor 4 · start_method fork",
        "2 workers · prefetch_factor 4 · start_method spawn",
    ]
    assert all(each.left_out == () for each in others)
    assert all(each.settings.persistent_workers for each in others)


def test_values_given_twice_are_tried_once() -> None:
    assert len(grid(Axes(workers=(2, 2), pin_memory=(True, True)))) == 1
    assert grid(Axes(workers=(2,), pin_memory=(True, True)))[0].label == "2 workers"


def test_a_sweep_needs_a_worker_count() -> None:
    with pytest.raises(ValueError, match="at least one worker count"):
        Axes(workers=())


@given(
    st.lists(st.integers(0, 8), min_size=1, max_size=4),
    st.lists(st.integers(1, 4), max_size=3),
    st.lists(st.booleans(), max_size=2),
    st.lists(st.booleans(), max_size=2),
)
def test_settings_and_labels_are_unique(
    workers: list[int], prefetch: list[int], pinned: list[bool], persistent: list[bool]
) -> None:
    benchmarks = grid(
        Axes(
            workers=tuple(workers),
            prefetch_factor=tuple(prefetch),
            pin_memory=tuple(pinned),
            persistent_workers=tuple(persistent),
        )
    )
    assert len({each.settings for each in benchmarks}) == len(benchmarks)
    assert len({each.label for each in benchmarks}) == len(benchmarks)


def test_round_k_starts_at_setting_k() -> None:
    assert rotated(3, 2) == ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (1, 0))
    assert rotated(2, 3) == ((0, 0), (0, 1), (1, 1), (1, 0), (2, 0), (2, 1))
    assert rotated(0, 3) == ()


@given(st.integers(1, 9), st.integers(0, 9))
def test_every_round_runs_every_setting_once(count: int, repeats: int) -> None:
    order = rotated(count, repeats)
    assert sorted(order) == [(round_, index) for round_ in range(repeats) for index in range(count)]
    assert [round_ for round_, _ in order] == sorted(round_ for round_, _ in order)
