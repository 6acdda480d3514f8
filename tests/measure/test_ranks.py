"""One rank by itself: what its child is told, and on which CPUs it runs."""

from __future__ import annotations

import os

import pytest

from feedrate.measure import ranks
from feedrate.measure.ranks import Rank, alone, become_alone, keep_to_share, rank_of, share_of

TORCHRUN = {
    "RANK": "5",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "4",
    "GROUP_RANK": "1",
    "MASTER_ADDR": "10.0.0.1",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
    "TORCHELASTIC_ERROR_FILE": "/tmp/error.json",
    "TORCHELASTIC_RUN_ID": "none",
}


@pytest.fixture(autouse=True)
def by_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({}, None),
        ({"RANK": "1"}, None),
        ({"RANK": "one", "WORLD_SIZE": "2"}, None),
        ({"RANK": "2", "WORLD_SIZE": "2"}, None),
        ({"RANK": "0", "WORLD_SIZE": "1"}, Rank(number=0, ranks=1)),
        (TORCHRUN, Rank(number=5, ranks=8)),
    ],
)
def test_which_rank_this_is(environ: dict[str, str], found: Rank | None) -> None:
    assert rank_of(environ) == found


@pytest.mark.parametrize(
    ("cpus", "usable", "ranks", "local_rank", "share"),
    [
        ({0, 1}, 2.0, 2, 0, {0}),
        ({0, 1}, 2.0, 2, 1, {1}),
        (range(8), 8.0, 3, 2, {6, 7, 0}),
        ({4, 5, 6, 7}, 4.0, 2, 1, {6, 7}),
        (range(8), 2.0, 2, 1, {1}),  # a quota of two CPUs
        ({0, 1}, 0.5, 2, 0, {0}),
        ({0, 1}, 2.0, 8, 5, {1}),  # more ranks than CPUs
        ({3}, 1.0, 2, 1, {3}),
    ],
)
def test_a_share_of_the_cpus(
    cpus: set[int], usable: float, ranks: int, local_rank: int, share: set[int]
) -> None:
    assert share_of(cpus, usable, ranks, local_rank) == share


def test_a_rank_alone_is_a_group_of_one_with_its_own_device() -> None:
    told = TORCHRUN | alone(TORCHRUN, 1234)
    assert rank_of(told) == Rank(number=0, ranks=1)
    assert (told["LOCAL_RANK"], told["LOCAL_WORLD_SIZE"]) == ("1", "1")
    assert (told["MASTER_ADDR"], told["MASTER_PORT"]) == ("127.0.0.1", "1234")
    assert told["TORCHELASTIC_USE_AGENT_STORE"] == "False"
    assert "ROLE_RANK" not in told


@pytest.fixture
def affinity(monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """Pretend that there are eight CPUs; return what the process was bound to."""
    bound: list[set[int]] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, to: bound.append(to), raising=False)
    monkeypatch.setattr(ranks, "usable_cpus", lambda _, count: _Cpus(count))
    return bound


class _Cpus:
    def __init__(self, cpus: float) -> None:
        self.cpus = cpus


def test_a_child_becomes_one_rank_on_its_share(affinity: list[set[int]]) -> None:
    become_alone()
    assert affinity == [{2, 3}]
    assert rank_of(os.environ) == Rank(number=0, ranks=1)
    assert os.environ["MASTER_PORT"] != "29500"
    assert "TORCHELASTIC_ERROR_FILE" not in os.environ


def test_without_ranks_nothing_changes(
    affinity: list[set[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in TORCHRUN:
        monkeypatch.delenv(name)
    before = dict(os.environ)
    become_alone()
    assert affinity == []
    assert dict(os.environ) == before


def test_the_number_of_ranks_alone_gives_a_share(
    affinity: list[set[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in TORCHRUN:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    become_alone()
    assert affinity == [{0, 1, 2, 3}]
    assert "RANK" not in os.environ
    assert "MASTER_PORT" not in os.environ


def test_a_platform_that_binds_to_no_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    keep_to_share()
