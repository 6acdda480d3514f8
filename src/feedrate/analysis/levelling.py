"""Growth that gets less from epoch to epoch: where it ends."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FEWEST = 6
_RATIOS = np.linspace(0.02, 0.96, 48)
_BETTER = 0.3
"""A curve that levels off has to leave at most this share of a straight line's squared errors."""


class Levelling(msgspec.Struct, frozen=True, kw_only=True):
    """A rise whose steps shrink by the factor ``ratio`` each epoch.

    ``final`` is the level it tends to, ``remaining`` what is still to come, ``first_step`` what the
    first step added.
    """

    ratio: float
    final: float
    remaining: float
    first_step: float


def levelling(values: Sequence[float]) -> Levelling | None:
    """Return the curve that a rising series follows to its end, ``None`` where a line fits as well.

    The model is v = final − c·ratio^k over the values' numbers k, fitted by least squares for each
    of a row of ratios; a cache that fills with what a worker has not seen yet follows it exactly.
    """
    count = len(values)
    if count < FEWEST:
        return None
    observed = np.asarray(values, dtype=float)
    numbers = np.arange(count, dtype=float)
    line = _fit(numbers[np.newaxis], observed)[0][0]
    errors, weights, finals = _fit(_RATIOS[:, np.newaxis] ** numbers, observed)
    best = int(np.argmin(errors))
    ratio, weight = float(_RATIOS[best]), float(weights[best])
    # What rounding leaves of a straight line is no curve; a falling one is no growth.
    is_straight = line <= 1e-26 * float(observed @ observed)
    if is_straight or errors[best] >= _BETTER * line or weight >= 0:
        return None
    return Levelling(
        ratio=ratio,
        final=float(finals[best]),
        remaining=-weight * ratio ** (count - 1),
        first_step=-weight * (1 - ratio),
    )


def _fit(shapes: Floats, observed: Floats) -> tuple[Floats, Floats, Floats]:
    """Return squared errors, weights and constants of observed ≈ constant + weight·shape."""
    means = shapes.mean(axis=1)
    centred = shapes - means[:, np.newaxis]
    weights = centred @ observed / (centred * centred).sum(axis=1)
    constants = observed.mean() - weights * means
    rest = observed - constants[:, np.newaxis] - weights[:, np.newaxis] * shapes
    return (rest * rest).sum(axis=1), weights, constants
