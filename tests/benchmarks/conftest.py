from __future__ import annotations

from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def scripts_import_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """As they do where they are run: their folder is the first place to look in."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
