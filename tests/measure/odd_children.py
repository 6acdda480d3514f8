"""What is asked of a child that measures one of tests/targets/odd_loaders.py."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from feedrate.measure import wire
from feedrate.settings import LoaderSettings

TARGETS = Path(__file__).parents[1] / "targets" / "odd_loaders.py"


def spec(name: str, workers: int = 2, **changes: object) -> wire.ChildSpec:
    fields: dict[str, object] = {
        "target": f"{TARGETS}:{name}",
        "settings": LoaderSettings(num_workers=workers),
        "epochs": 2,
        "seed": 0,
    }
    return wire.ChildSpec(**(fields | changes))  # type: ignore[arg-type]


def wait_until(true: Callable[[], object], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "what was waited for did not come"
        time.sleep(0.02)
