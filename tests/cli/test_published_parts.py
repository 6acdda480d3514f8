"""``feedrate bench fashion-mnist``: the parts of the protocol, as they are told while measuring."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from fakes import FakeExecutor, succeed
from feedrate import api
from feedrate.cli.experiment import run_published
from feedrate.cli.output import Output
from feedrate.experiments import idx
from feedrate.measure.manager import Place, Watcher
from feedrate.records import Benchmark, Suite


class Notes(Watcher):
    def __init__(self) -> None:
        self.places: list[tuple[str, str, Place]] = []

    def run_started(
        self, place: Place, benchmark: Benchmark, repeat: int, left: float | None
    ) -> None:
        self.places.append((benchmark.condition, benchmark.part, place))


class Out:
    """Takes the place of an output."""

    def __init__(self) -> None:
        self.notes = Notes()

    def save(self, suite: Suite) -> None:
        """Keep nothing."""

    def measure(self, measure: Callable[[Watcher], Suite], *, cut: bool = False) -> Suite:
        return measure(self.notes)


@pytest.mark.parametrize(
    ("conditions", "parts"),
    [
        (
            None,
            [
                ("light", "sweep", 3),
                ("augmented", "sweep", 3),
                ("augmented", "repeated", 6),
                ("augmented", "pin_memory", 4),
            ],
        ),
        ("light", [("light", "sweep", 3)]),
    ],
)
def test_every_run_is_told_with_its_part(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, conditions: str | None, parts: list[Any]
) -> None:
    monkeypatch.setattr(api, "SubprocessExecutor", lambda: FakeExecutor(succeed))
    monkeypatch.setattr(idx, "ensure", lambda *_: "original")
    out = Out()
    run_published(
        cast(Output, out),
        data_dir=tmp_path,
        synthetic=False,
        quick=True,
        conditions=conditions,
        workers=None,
        loaders=(),
        device="cpu",
        seed=0,
        timeout=300,
        tolerance=0.03,
    )
    assert out.notes.places == [
        (condition, series, Place(position=k, total=runs, part=number, parts=len(parts)))
        for number, (condition, series, runs) in enumerate(parts, 1)
        for k in range(1, runs + 1)
    ]
