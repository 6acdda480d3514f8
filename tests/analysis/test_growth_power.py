"""How many epochs a verdict takes: the table in the docstring of `feedrate.analysis.growth`."""

from __future__ import annotations

import re
import statistics

import numpy as np
import pytest
from memory_patterns import BASE, MIB

from feedrate.analysis import growth as module
from feedrate.analysis.growth import Scale, growth

SCALE = Scale.of_bytes(100)
SEEDS = 20
COUNTS = [*range(9, 30), *range(30, 100, 4)]


def epochs_needed(seed: int, rate: float) -> int:
    """Return after how many epochs growth by ``rate`` is called so, under noise of 1 MiB."""
    rng = np.random.default_rng(seed)
    values = BASE + rate * np.arange(COUNTS[-1]) + rng.normal(0, MIB, COUNTS[-1])
    verdicts = (growth(values[:count].tolist(), SCALE).verdict for count in COUNTS)
    return next(
        (count for count, verdict in zip(COUNTS, verdicts, strict=True) if verdict == "grows"), 100
    )


def told() -> dict[float, int]:
    assert module.__doc__ is not None
    rows = re.findall(r"^([\d.]+)× +(\d+)$", module.__doc__, re.MULTILINE)
    return {float(rate): int(count) for rate, count in rows}


@pytest.mark.parametrize("rate", [10, 2, 1, 0.5, 0.2, 0.1])
def test_the_table_of_the_docstring(rate: float) -> None:
    found = statistics.median(epochs_needed(seed, rate * MIB) for seed in range(SEEDS))
    assert found == pytest.approx(told()[rate], abs=2)


def test_each_rate_has_its_row() -> None:
    assert list(told()) == [10, 2, 1, 0.5, 0.2, 0.1]
