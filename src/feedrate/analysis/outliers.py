"""Single runs that stand out from their neighbours, by the median absolute deviation."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

# Makes the MAD of normal values their standard deviation (Rousseeuw and Croux, Alternatives to the
# Median Absolute Deviation, JASA 1993).
_MAD_TO_SIGMA = 1.4826
# Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993: |modified z| above 3.5.
OUTLIER_Z = 3.5
FEWEST_FOR_OUTLIERS = 5
FEWEST_FOR_SLOW_FIRST = 4


def outliers(values: Sequence[float], tolerance: float) -> tuple[int, ...]:
    """Return the indices of the values that stand out from the others.

    A value stands out when its modified z-score is above 3.5, and it is further than ``tolerance``
    from the median: where all agree within it, nobody needs to know. None for fewer than 5 values,
    of which the MAD says too little.
    """
    if len(values) < FEWEST_FOR_OUTLIERS:
        return ()
    centre = median(values)
    return tuple(i for i, value in enumerate(values) if _far(value, values, centre, tolerance))


def first_stands_out(values: Sequence[float], tolerance: float) -> bool:
    """Say whether the first value lies below all others, further than these scatter.

    As for `outliers`, but held against the others alone, and for 4 values or more: something that
    only the first run meets (a cold page cache, a CPU that is still clocked down) is expected.
    """
    if len(values) < FEWEST_FOR_SLOW_FIRST:
        return False
    first, *others = values
    return first < min(others) and _far(first, others, median(others), tolerance)


def _far(value: float, values: Sequence[float], centre: float, tolerance: float) -> bool:
    sigma = _MAD_TO_SIGMA * median(abs(other - centre) for other in values)
    distance = abs(value - centre)
    return distance > OUTLIER_Z * sigma and distance > tolerance * centre
