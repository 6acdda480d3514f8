"""How deep looks go: one worker's pages in the first pass, then as the time allows."""

from __future__ import annotations

from feedrate.measure import wire
from feedrate.measure.depths import Depth, Depths

DUTY = 0.005
COST: dict[Depth, float] = {"counters": 0.0003, "worker": 0.008, "whole": 0.03}


def mark(
    epoch: int, batches: int, *, loader: int = 0, workers: int = 2, forked: bool = True
) -> wire.Mark:
    return wire.Mark(
        loader=loader,
        epoch=epoch,
        batches=batches,
        items=batches,
        length=10,
        is_end=batches == 10,
        workers=tuple(range(workers)),
        forked=forked and workers > 0,
    )


def chosen(
    epochs: int, *, epoch_seconds: float, workers: int = 2, forked: bool = True
) -> list[tuple[Depth, ...]]:
    """Return how deep each epoch was looked into, at its first batch, midway and at its end."""
    depths = Depths(DUTY)
    now, found = 0.0, []
    for epoch in range(epochs):
        row = []
        for batches in (1, 5, 10):
            depth = depths.due(mark(epoch, batches, workers=workers, forked=forked), now)
            depths.took(depth, COST[depth])
            now += epoch_seconds / 3
            row.append(depth)
        found.append(tuple(row))
    return found


def spent(rows: list[tuple[Depth, ...]]) -> float:
    return sum(COST[depth] for row in rows for depth in row if depth != "counters")


def test_one_worker_is_looked_into_at_both_ends_of_the_first_pass() -> None:
    first, *rest = chosen(20, epoch_seconds=0.1)
    assert first == ("worker", "counters", "worker")
    assert set(rest) == {("counters",) * 3}, "there is no time for more in two seconds"


def test_where_nothing_is_shared_all_are_looked_into_as_the_time_allows() -> None:
    for workers, forked in ((0, True), (2, False)):
        rows = chosen(400, epoch_seconds=1.0, workers=workers, forked=forked)
        assert rows[0] == ("counters",) * 3
        assert {row[0] for row in rows} == {"counters", "whole"}


def test_both_ends_of_a_pass_go_equally_deep() -> None:
    rows = chosen(400, epoch_seconds=1.0)
    assert all(row[0] == row[2] for row in rows)
    assert {row[0] for row in rows} == {"counters", "worker", "whole"}


def test_all_of_it_stays_within_its_share_of_the_time() -> None:
    for epoch_seconds in (0.1, 1.0, 10.0):
        rows = chosen(400, epoch_seconds=epoch_seconds)
        assert spent(rows) <= DUTY * 400 * epoch_seconds


def test_each_loader_has_a_first_pass() -> None:
    depths = Depths(DUTY)
    assert depths.due(mark(0, 1), 0.0) == "worker"
    assert depths.due(mark(0, 1, loader=1), 0.0) == "worker"
