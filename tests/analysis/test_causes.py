from __future__ import annotations

from collections.abc import Sequence

import pytest

from feedrate.analysis.causes import (
    Amount,
    Rising,
    Sight,
    comparable,
    dropped,
    filled_lines,
    grown,
    leading,
    node_slope,
    rising_lines,
    slope,
)

ITEMS = [100 * look for look in range(1, 9)]
CACHE = ("train.py", 12)
OTHER = ("train.py", 40)


def sights(sizes: Sequence[int]) -> list[Sight]:
    return [
        Sight(items=items, lines={CACHE: Amount(size, size // 200)})
        for items, size in zip(ITEMS, sizes, strict=True)
    ]


def test_the_slope_of_steady_growth_is_exact() -> None:
    assert slope(ITEMS, [200.0 * items for items in ITEMS]) == 200.0


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([5, 5, 5, 5, 5, 5, 5, 5], "it stands still"),
        ([0, 800, 900, 950, 960, 960, 960, 960], "it has come to rest"),
        ([0, 900, 0, 900, 0, 900, 0, 900], "it goes up and down"),
        ([900, 800, 700, 600, 500, 400, 300, 200], "it falls"),
        ([0, 100, 200, 300, 0, 100, 200, 310], "it begins anew with each epoch"),
        ([0, 0, 0, 0, 0, 0, 0, 900], "it came once"),
        ([0, 100, 200], "there are too few looks"),
    ],
)
def test_what_does_not_keep_growing_has_no_slope(values: list[float], why: str) -> None:
    assert slope(ITEMS, values) == 0.0, why


def test_a_cache_that_fills_more_and_more_slowly_still_rises() -> None:
    values = [1000 * (1 - 0.5**look) for look in range(6)]
    values = [value + 300 * look for look, value in enumerate(values)]
    assert slope(ITEMS[:6], values) > 0


def test_one_step_without_growth_is_not_the_end_of_it() -> None:
    values = [0, 100, 200, 300, 300, 500, 600, 700]
    assert slope(ITEMS, values) == pytest.approx(1.0)


def test_rising_lines_come_with_bytes_and_blocks_per_item() -> None:
    found = rising_lines(sights([200 * items for items in ITEMS]))
    assert found == (Rising(place=CACHE, size=200.0, count=1.0),)


def test_a_number_for_each_batch_is_no_cause() -> None:
    assert rising_lines(sights(list(ITEMS))) == ()


def test_a_small_tensor_with_a_graph_is_one() -> None:
    made = [
        Sight(items=items, lines={CACHE: Amount(items, items)}, graphs={CACHE: items // 100})
        for items in ITEMS
    ]
    (line,) = rising_lines(made)
    assert line.graphs == pytest.approx(0.01)


def test_lines_that_bring_little_beside_the_largest_are_left_out() -> None:
    lines = [
        Rising(place=OTHER, size=5.0, count=1.0),
        Rising(place=CACHE, size=1000.0, count=1.0),
    ]
    assert leading(lines) == (lines[1],)
    assert leading([]) == ()


def test_ends_of_epochs_are_compared_where_there_are_enough() -> None:
    within = [Sight(items=items, lines={}) for items in ITEMS]
    ends = [Sight(items=1000 * end, lines={}, ends_epoch=True) for end in range(1, 6)]
    assert comparable([*within, *ends]) == tuple(ends[1:])
    assert comparable([*within, *ends[:4]]) == tuple(within[1:])
    assert comparable([]) == ()


def test_the_growth_is_that_from_the_first_to_the_last_look() -> None:
    made = [
        Sight(items=items, lines={}, private=private)
        for items, private in zip(ITEMS, [50, None, 70, 90], strict=False)
    ]
    assert grown(made) == 40
    assert grown(made[::-1]) == 0
    assert grown([]) == 0


def test_a_graph_that_grows_has_a_slope_in_nodes() -> None:
    made = [Sight(items=items, lines={}, nodes=items // 10) for items in ITEMS]
    assert node_slope(made) == pytest.approx(0.1)


def test_what_a_collection_gives_back_is_told_by_line() -> None:
    before = Sight(items=1, lines={CACHE: Amount(900, 9), OTHER: Amount(50, 1)})
    after = Sight(items=1, lines={CACHE: Amount(100, 1), OTHER: Amount(50, 1)})
    assert dropped(before, after) == {CACHE: Amount(800, 8)}


FULL = [0, 40_000, 90_000, 100_000, 100_000, 100_000, 100_000, 100_000]


def filled(sizes: list[int], private: int, block: int = 100) -> list[Sight]:
    return [
        Sight(items=items, lines={CACHE: Amount(size, size // block)}, private=private * items)
        for items, size in zip(ITEMS, sizes, strict=True)
    ]


def test_a_cache_that_is_full_explains_a_known_growth() -> None:
    made = filled(FULL, 200)
    assert rising_lines(made) == ()
    (line,) = filled_lines(made)
    assert line.place == CACHE
    assert line.size == pytest.approx(100_000 / 700)


def test_what_is_full_does_not_explain_more_than_it_holds() -> None:
    assert filled_lines(filled(FULL, 1000)) == ()


def test_what_came_in_one_step_did_not_fill_up() -> None:
    assert filled_lines(filled([0, *[100_000] * 7], 200, block=50_000)) == ()
    assert filled_lines([]) == ()


def test_many_objects_that_came_between_two_looks_did() -> None:
    (line,) = filled_lines(filled([0, *[100_000] * 7], 200))
    assert line.place == CACHE
    assert filled_lines(filled([100_000] * 8, 200)) == (), "they were there before"
