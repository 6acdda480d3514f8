from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SMALL, MIDDLE, LARGE = "4 KiB, 1 tensor", "1 MiB, 2 tensors", "40 MiB, 2 tensors"


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    module = importlib.import_module("transport_page")
    monkeypatch.setattr(module.tables, "made_by", lambda script: f"Made by {script}.")
    return module


@pytest.fixture
def plan(page: ModuleType) -> Any:
    return importlib.import_module("transport_plan")


@pytest.fixture
def command(page: ModuleType) -> Any:
    return importlib.import_module("transport")


@pytest.fixture
def results(page: ModuleType, plan: Any) -> Callable[..., Any]:
    """Make results from microseconds by peer and batch, with one worker, one for each round."""

    def make(given: dict[tuple[str, str], list[float]]) -> Any:
        return page.Results(
            plan.Value(peer, batch, 1, micros * 1e-6, micros * 2e-6)
            for (peer, batch), rounds in given.items()
            for micros in rounds
        )

    return make


def row_of(table: str, batch: str, workers: int = 1) -> list[str]:
    (found,) = [line for line in table.splitlines() if line.startswith(f"| {batch} | {workers} |")]
    return [cell.strip() for cell in found.strip("|").split("|")]


def test_small_batches_are_judged_by_time_and_large_ones_by_memcpys(
    page: ModuleType, results: Any
) -> None:
    given = {
        ("arena", SMALL): [60.0, 59.0, 99.0],
        ("arena", MIDDLE): [100.0],
        ("arena", LARGE): [1400.0],
        ("memcpy", MIDDLE): [50.0],
        ("memcpy", LARGE): [1000.0],
    }
    table = page.goals(results(given))

    assert row_of(table, SMALL)[2:] == ["60 (59–99)", "–", "–", "pass"]
    assert row_of(table, MIDDLE)[2:] == ["100 (100–100)", "2.00", "2.00", "–"]
    assert row_of(table, LARGE)[2:] == ["1,400 (1,400–1,400)", "1.40", "1.40", "short"]
    assert row_of(table, SMALL, workers=2)[2:] == ["–", "–", "–", "–"]

    better = given | {("arena", LARGE): [1299.0], ("arena", SMALL): [60.1]}
    table = page.goals(results(better))
    assert row_of(table, LARGE)[-1] == "pass"
    assert row_of(table, SMALL)[-1] == "short"


def test_a_peer_without_values_has_no_column_and_its_reason_stands_below(
    page: ModuleType, plan: Any, results: Any
) -> None:
    failures = [
        plan.Failure("torchdata", "torchdata could not be had from PyPI (no network)"),
        plan.Failure("spdl", "WrongBatchError: batch 3", LARGE, 2),
        plan.Failure("spdl", "WrongBatchError: batch 3", LARGE, 2),
    ]
    values = results({("arena", SMALL): [50.0], ("torch", SMALL): [400.0]})

    text = "\n\n".join(page.page(values, failures, {"NumPy": "2.4"}, rounds=3))

    assert "| Batch | workers | torch's DataLoader | feedrate.DataLoader | one memcpy |" in text
    assert "| Batch | workers | torch's DataLoader | feedrate.DataLoader |\n" in text
    assert f"| {SMALL} | 1 | 800 (800–800) | 100 (100–100) |" in text
    assert "Peers: NumPy 2.4." in text
    assert "- torchdata's StatefulDataLoader: torchdata could not be had from PyPI" in text
    said = f"- SPDL's PyTorch-style loader ({LARGE}, workers: 2): WrongBatchError: batch 3"
    assert text.count(said) == 1


def test_what_fails_for_all_batches_is_said_once(page: ModuleType, plan: Any) -> None:
    failures = [
        plan.Failure("spdl", "ImportError: no such name", batch.name, workers)
        for batch in plan.BATCHES
        for workers in plan.WORKERS
    ]

    assert page.missing(failures) == "- SPDL's PyTorch-style loader: ImportError: no such name"


def test_nothing_is_credited_that_was_not_right_in_the_first_round(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: Any, plan: Any
) -> None:
    turns: dict[str, int] = {}

    def run(peer: Any, folder: Path, pace: Any, *, check: bool) -> list[Any]:
        turn = turns[peer.key] = turns.get(peer.key, 0) + 1
        assert check == (turn == 1)
        bad = plan.Failure(peer.key, "WrongBatchError", LARGE, 1)
        wrong = check and peer.key == "spdl"
        return [
            plan.Value(peer.key, SMALL, 1, turn, turn),
            bad if wrong else plan.Value(peer.key, LARGE, 1, turn, turn),
        ]

    def install(package: str, folder: Path) -> str | None:
        return "no network" if package == "torchdata" else None

    monkeypatch.setattr(command, "run", run)
    monkeypatch.setattr(command, "install", install)

    values, failures, versions = command.measure(tmp_path, command.Pace(3, 0.1))

    of_spdl = [(value.batch, value.seconds) for value in values if value.peer == "spdl"]
    assert of_spdl == [(SMALL, 1), (SMALL, 2), (SMALL, 3)]
    assert sum(value.peer == "torch" for value in values) == 6
    assert {failure.peer for failure in failures} == {"torchdata", "spdl"}
    assert "torchdata" not in versions
    assert "torchdata" not in turns


def test_every_batch_has_the_bytes_that_its_name_says(plan: Any) -> None:
    sizes = {batch.name: batch.bytes for batch in plan.BATCHES}

    assert sizes["4 KiB, 64 tensors"] == sizes[SMALL] == 4096
    assert sizes["150 MiB, 2 tensors"] == 150 * 2**20
    goals = [batch.goal for batch in plan.BATCHES]
    assert goals == ["time"] * 4 + [None] + ["memcpy"] * 2
    assert all(size % 4 == 0 for batch in plan.BATCHES for size in batch.sizes)
