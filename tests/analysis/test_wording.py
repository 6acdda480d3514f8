from __future__ import annotations

import pytest

from feedrate import units
from feedrate.analysis import wording
from feedrate.analysis.stats import Interval, Ratio, Summary


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (62103.4, "62,103 items/s"),
        (99.96, "100 items/s"),
        (99.94, "99.9 items/s"),
        (9.996, "10.0 items/s"),
        (1.234, "1.23 items/s"),
        (0.1234, "0.123 items/s"),
    ],
)
def test_rate(value: float, text: str) -> None:
    assert wording.rate(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.027, "2.7 %"), (-0.023, "−2.3 %"), (0.34, "34 %"), (-0.0001, "0.0 %"), (12.5, "1,250 %")],
)
def test_percent(value: float, text: str) -> None:
    assert wording.percent(value) == text


def test_a_limit_has_no_digit_more_than_it_was_given() -> None:
    assert wording.limit(0.03) == "3 %"
    assert wording.limit(0.025) == "2.5 %"


def test_change_tells_its_interval() -> None:
    made = Ratio(value=1.02, interval=Interval(low=0.99, high=1.045), paired=True)
    assert wording.change(made) == "2.0 % (95 % interval −1.0 % to 4.5 %)"
    assert wording.change(Ratio(value=0.9, interval=None, paired=True)) == "−10 %"


def test_spread_names_a_common_unit_once() -> None:
    values = Summary(values=(881.0, 890.0, 899.0))
    assert wording.spread(values, wording.rate) == " (median of 3 runs, 881 to 899 items/s)"
    wide = Summary(values=(0.5, 2.0))
    assert wording.spread(wide, units.seconds) == " (median of 2 runs, 500 ms to 2.00 s)"
    assert wording.spread(Summary(values=(1.0,)), wording.rate) == ""
    assert wording.spread(None, wording.rate) == ""


def test_lists_and_counts() -> None:
    assert wording.listed([8]) == "8"
    assert wording.listed([8, 12]) == "8 and 12"
    assert wording.listed([8, 12, 16]) == "8, 12 and 16"
    assert wording.workers(1) == "1 worker"
    assert wording.workers(0) == "0 workers"
    assert wording.some_of(["a", "b"], 9) == "a and b"
    assert wording.some_of(list("abcde"), 9) == "5 of 9 settings"


def test_names_of_settings_are_not_capitalised() -> None:
    assert wording.sentence("the rate") == "The rate"
    assert wording.sentence("pin_memory is better") == "pin_memory is better"
    assert wording.sentence("") == ""


def test_evidence_has_an_interval_where_there_are_runs() -> None:
    several = wording.median_of("rate", Summary(values=(1.0, 2.0, 3.0)), "items/s")
    assert several is not None
    assert (several.value, several.low, several.high) == (2.0, 1.0, 3.0)
    single = wording.median_of("rate", Summary(values=(1.0,)), "items/s")
    assert single is not None
    assert (single.low, single.high) == (None, None)
    assert wording.median_of("rate", None, "items/s") is None
