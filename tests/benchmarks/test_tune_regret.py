from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    module = importlib.import_module("tune_page")
    monkeypatch.setattr(module.tables, "made_by", lambda script: f"Made by {script}.")
    return module


@pytest.fixture
def plan(page: ModuleType) -> Any:
    return importlib.import_module("tune_plan")


def tried(plan: Any, tuner: str, chosen: Any, seconds: float = 30.0) -> Any:
    said = "gain" if chosen is not None else "it took more than 180 s"
    return plan.Tried(tuner, seconds, chosen, said, {"look": 4.0, "between": seconds - 4})


def result(plan: Any, *by: Any, work: str = "tiny items", again: Any = None) -> Any:
    """Return a result with 1, 2 and 4 workers; in truth 2 are better than 4."""
    one, two, four = plan.setting(1, None), plan.setting(2, None), plan.setting(4, 2)
    rates = {one: (80.0, 80.0, 80.0), two: (100.0, 90.0, 101.0), four: (95.0, 95.0, 95.0)}
    return plan.Result(work, {one: 85.0, two: 99.0, four: 100.0}, 300.0, by, again or rates)


def row_of(table: str, first: str) -> list[str]:
    (found,) = [line for line in table.splitlines() if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in found.strip("|").split("|")]


def test_the_grids_best_is_the_better_of_its_two_best_when_measured_again(plan: Any) -> None:
    assert result(plan).best == plan.setting(2, None)


def test_regret_is_the_median_of_the_rounds(plan: Any) -> None:
    four = result(plan, tried(plan, "feedrate", plan.setting(4, None)))
    assert four.regret("feedrate") == pytest.approx(0.05)
    two = result(plan, tried(plan, "feedrate", plan.setting(2, 2)))
    assert two.regret("feedrate") == 0
    assert two.regret("loadtune") is None
    assert result(plan, tried(plan, "feedrate", None)).regret("feedrate") is None


def test_what_was_chosen_is_measured_again_beside_the_best(plan: Any) -> None:
    grid = {plan.setting(count, None): float(count) for count in (0, 1, 2, 4)}
    chosen = [tried(plan, "feedrate", plan.setting(10, 4)), tried(plan, "loadtune", None)]

    found = plan.finalists(grid, chosen)

    assert [str(each) for each in found] == ["4 workers", "2 workers", "10 workers, 4 each"]
    assert plan.finalists(grid, [tried(plan, "feedrate", plan.setting(4, 2))]) == found[:2]


def test_without_workers_nothing_is_prefetched(plan: Any) -> None:
    assert plan.setting(0, 4) == plan.NOTHING_SET
    assert plan.setting(0, 4, False) == plan.NOTHING_SET
    assert plan.setting(1, None) == plan.setting(1, 2)


def test_a_grid_has_all_that_may_be_set_once(plan: Any) -> None:
    found = plan.all_settings(plan.FULL.workers, plan.FULL.prefetch)
    assert len(found) == len(set(found)) == 1 + 16 * 3 * 2
    assert str(plan.setting(4, 8, False)) == "4 workers, 8 each, any order"


def test_rotated_begins_with_another_setting_each_turn(plan: Any) -> None:
    assert plan.rotated("abc", 1) == ["b", "c", "a"]
    assert plan.rotated("abc", 3) == ["a", "b", "c"]


def test_the_goals_are_judged_by_the_worst_of_all_works(page: ModuleType, plan: Any) -> None:
    good = result(plan, tried(plan, "feedrate", plan.setting(2, None)))
    poor = result(plan, tried(plan, "feedrate", plan.setting(1, None)), work="text, padded")
    none = result(plan, tried(plan, "feedrate", None), work="big batches")

    assert row_of(page.goals([good]), "regret") == ["regret", "0.0%", "0.0%", "3%", "pass"]
    assert row_of(page.goals([good, poor]), "regret")[1:] == ["10.0%", "20.0%", "3%", "short"]
    assert row_of(page.goals([good, none]), "regret")[-1] == "short"
    share = "share of the grid's time"
    assert row_of(page.goals([good]), share)[1:] == ["10.0%", "10.0%", "10%", "pass"]
    slow = result(plan, tried(plan, "feedrate", plan.setting(2, None), seconds=31.0))
    assert row_of(page.goals([slow]), share)[-1] == "short"


def test_a_peer_that_chose_nothing_is_said_with_its_reason(page: ModuleType, plan: Any) -> None:
    by = [
        tried(plan, "feedrate", plan.setting(2, None)),
        tried(plan, "loadtune", plan.setting(4, None)),
        tried(plan, "dataloader-param-helper", None, seconds=180.0),
    ]
    both = [result(plan, *by), result(plan, *by, work="text, padded")]

    text = "\n\n".join(page.page(both, ["loadtune 0.3.0"], plan.FULL))

    ours, theirs = ["2 workers", "+0.0%", "30"], ["4 workers", "+5.0%", "30"]
    assert f"| tiny items | {' | '.join([*ours, *theirs])} | nothing | – | 180 |" in text
    assert "| tiny items | 2 workers | 100 | 2 workers | 100 | +0.0% | 30 | 300 | 10% |" in text
    assert "| tiny items | 4.0 | 26.0 | 1% | gain |" in text
    reason = "(tiny items; text, padded): it took more than 180 s"
    assert f"- dataloader-param-helper {reason}" in text
    assert "Peers: loadtune 0.3.0." in text


def test_what_loadtune_prints_is_read(page: ModuleType, plan: Any) -> None:
    pytest.importorskip("torch")
    peers = importlib.import_module("tune_peers")

    def read(best: str) -> Any:
        return peers.chosen_by_loadtune(f"[loadtune] baseline ...\n[loadtune] {best}\n")

    assert read("no better config found in this round.") == plan.NOTHING_SET
    assert read("best overall: workers=2 — 2.11x baseline") == plan.setting(2, 2)
    said = "best overall: workers=4, prefetch=8, persistent, threads=1 — 3.00x baseline"
    assert read(said) == plan.setting(4, 8)
