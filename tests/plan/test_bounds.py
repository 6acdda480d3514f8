from __future__ import annotations

import math
from typing import Any

import pytest

from feedrate.errors import UsageError
from feedrate.plan import bounds
from feedrate.plan.bounds import check
from feedrate.records import Procedure


def procedure(**changes: Any) -> Procedure:
    return Procedure(**({"epochs": 2, "repeats": 1} | changes))


@pytest.mark.parametrize("seed", [None, 0, -1, 2**64 - 1, -(2**63)])
def test_what_can_be_meant(seed: int | None) -> None:
    check(procedure(max_batches=1, step_seconds=0.0, timeout_seconds=0.5, tolerance=0), seed)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"epochs": 2.5}, "epochs must be .* not 2.5"),
        ({"repeats": True}, "repeats must be .* not True"),
        ({"timeout_seconds": "10s"}, "timeout must be .* not '10s'"),
        ({"tolerance": "0.1"}, "tolerance must be .* not '0.1'"),
        ({"epochs": 0}, "epochs must be 1 to 1000000000, not 0"),
        ({"epochs": 10**20}, "epochs must be 1 to 1000000000, not 1"),
        ({"repeats": 10**6}, "repeats must be 1 to 10000, not 1000000"),
        ({"max_batches": 0}, "max_batches must be"),
        ({"plan_epochs": -1}, "plan_epochs must be"),
        ({"timeout_seconds": math.inf}, "timeout must be a number of seconds above 0, not inf"),
        ({"timeout_seconds": math.nan}, "timeout must be .* not nan"),
        ({"timeout_seconds": 0}, "timeout must be .* not 0"),
        ({"step_seconds": math.inf}, r"step_ms .* less than the timeout \(300 s\), not inf"),
        ({"step_seconds": math.nan}, "step_ms .* not nan"),
        ({"step_seconds": -0.001}, "step_ms must be 0 or more .* not -1"),
        ({"step_seconds": 3.0, "timeout_seconds": 3.0}, "step_ms .* not 3000"),
        ({"tolerance": math.nan}, "tolerance must be 0 to 0.5, not nan"),
        ({"tolerance": 1}, "tolerance must be"),
    ],
)
def test_what_cannot(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        check(procedure(**changes), 0)


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1])
def test_seeds_that_torch_does_not_take(seed: int) -> None:
    with pytest.raises(UsageError, match="seed must be"):
        check(procedure(), seed)


def test_what_is_no_number_is_refused_with_its_name() -> None:
    with pytest.raises(UsageError, match=r"seconds must be .* not '10s'"):
        bounds.check_seconds("seconds", "10s")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="workers must be 0 or more, not True"):
        bounds.check_least(0, workers=True)
    with pytest.raises(UsageError, match=r"loader must be 0 or more, not 1\.5"):
        bounds.check_least(0, loader=1.5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="step_ms must be a number of milliseconds, not '5'"):
        bounds.step_seconds("5")  # type: ignore[arg-type]
    assert (bounds.step_seconds(None), bounds.step_seconds(5)) == (None, 0.005)
