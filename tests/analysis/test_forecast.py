from __future__ import annotations

import pytest
from watch_builder import MIB, make_watch

from feedrate.analysis.forecast import forecast
from feedrate.analysis.stats import Interval


def test_items_epochs_and_time() -> None:
    watch = make_watch(epochs=4, items=500, epoch_seconds=30)
    found = forecast(watch, "memory", 100 * MIB, 1024.0, Interval(low=512, high=2048))
    assert found is not None
    assert found.items == 100 * 1024
    assert found.soonest == 50 * 1024
    assert found.epochs == pytest.approx(100 * 1024 / 500)
    assert found.seconds == pytest.approx(100 * 1024 * 30 / 500)


def test_no_limit_or_no_growth_no_forecast() -> None:
    watch = make_watch(epochs=4)
    still = Interval(low=0, high=0)
    assert forecast(watch, "memory", None, 1024.0, still) is None
    assert forecast(watch, "memory", 100, 0.0, still) is None


def test_a_limit_that_is_passed_already_is_reached_now() -> None:
    found = forecast(make_watch(epochs=4), "x", -5, 1.0, Interval(low=1, high=1))
    assert found is not None
    assert (found.items, found.left) == (0, 0)
