"""What is said of a tune whose host several ranks share."""

from __future__ import annotations

import msgspec
import pytest

from builders import make_metadata
from feedrate.analysis.one_rank import of_ranks
from feedrate.analysis.tuning import judge
from tune_builders import tuned_suite


def test_one_rank_has_nothing_to_say() -> None:
    assert of_ranks(make_metadata()) == ()


@pytest.mark.parametrize(
    ("os", "where"), [("Linux 6.1", "on its share of the CPUs"), ("macOS 15", "with all CPUs to")]
)
def test_of_several_it_is_said_that_one_was_measured(os: str, where: str) -> None:
    (made,) = of_ranks(make_metadata(local_ranks=4, usable_cpus=6.0, os=os))
    assert made.code == "tune.one_rank"
    assert made.severity == "info"
    assert f"One rank of 4 was measured, alone, {where}" in made.title
    assert [(each.value, each.unit) for each in made.evidence] == [(4, "ranks"), (1.5, "CPUs")]


def test_a_tune_says_it() -> None:
    suite = tuned_suite()
    metadata = msgspec.structs.replace(suite.metadata, local_ranks=2)
    shared = msgspec.structs.replace(suite, metadata=metadata)
    assert "tune.one_rank" not in [each.code for each in judge(suite)]
    assert "tune.one_rank" in [each.code for each in judge(shared)]
