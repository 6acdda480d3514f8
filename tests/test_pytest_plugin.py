"""The fixture in a test suite of its own; and as a function, on runs that were made up."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from feedrate.memory_records import Cause, MemoryWatch
from feedrate.pytest_plugin import FeedrateLeaks, describe
from feedrate.records import Finding

PLUGIN = "feedrate.pytest_plugin"

LEAK = Finding(
    code="memory.worker_growth",
    severity="warning",
    title="Memory of 2 workers grows by 1 MiB per epoch.",
    evidence=(),
    remedy="Bound it.",
)
CAUSE = Cause(
    process="worker 0",
    file="train.py",
    line=12,
    type_name="bytes",
    held_by=("dataset.cache", "dict"),
)


@dataclass
class Suite:
    leaks: tuple[Finding, ...] = ()
    watch: MemoryWatch | None = None
    asked: list[Any] = field(default_factory=list)

    def table(self) -> str:
        return "the table"

    def check(self, target: Any, step: Any = None, **options: Any) -> Suite:
        self.asked.append((target, step, options))
        return self


def test_a_run_without_growth_is_returned() -> None:
    suite = Suite()
    assert FeedrateLeaks(suite.check)("loader", "step", epochs=5) is suite
    assert suite.asked == [("loader", "step", {"epochs": 5})]


def test_growth_fails_the_test_with_its_sentences() -> None:
    watch = MemoryWatch(looks=(), complete_epochs=5, num_workers=2, objects=(CAUSE,))
    suite = Suite(leaks=(LEAK,), watch=watch)
    with pytest.raises(pytest.fail.Exception) as failed:
        FeedrateLeaks(suite.check)("loader")
    said = str(failed.value)
    assert said == describe(suite)
    assert said.splitlines() == [
        "Memory of 2 workers grows by 1 MiB per epoch. [memory.worker_growth] Bound it.",
        "  worker 0: bytes made at train.py:12, held by dataset.cache → dict",
    ]


def test_what_is_not_known_of_a_cause_is_left_out() -> None:
    watch = MemoryWatch(
        looks=(), complete_epochs=5, num_workers=2, objects=(Cause(process="main"),)
    )
    suite = Suite(leaks=(LEAK,), watch=watch)
    assert describe(suite).splitlines()[1] == "  main: memory made at an unknown line"


def run_pytest(folder: Path, source: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(source, "utf-8")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, str(folder)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=folder,
        # no other plugin, and this one whether the package is installed with it or not
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        check=False,
    )


def test_the_fixture_asks_check_leaks(tmp_path: Path) -> None:
    source = """
import feedrate

def test_it(feedrate_leaks, monkeypatch):
    asked = []
    class Suite:
        leaks = ()
    def check(target, step, **options):
        asked.append((target, step, options))
        return Suite()
    feedrate_leaks._check = check
    assert isinstance(feedrate_leaks("loader", epochs=3), Suite)
    assert asked == [("loader", None, {"epochs": 3})]
"""
    answer = run_pytest(tmp_path, source, "-p", PLUGIN)
    assert answer.returncode == 0, answer.stdout


LOADERS = """
import torch
from torch.utils.data import DataLoader, Dataset

class Items(Dataset):
    def __init__(self, kept):
        self.kept, self.held = kept, []

    def __len__(self):
        return 400

    def __getitem__(self, index):
        self.held.append(bytes(self.kept))
        if not self.kept:
            self.held.clear()
        return torch.full((8,), float(index))

def leaking():
    return DataLoader(Items(10_000), batch_size=20)

def clean():
    return DataLoader(Items(0), batch_size=20)

def test_it_leaks(feedrate_leaks):
    feedrate_leaks(leaking, epochs=12, seconds=60)

def test_it_is_clean(feedrate_leaks):
    feedrate_leaks(clean, epochs=12, seconds=60)
"""


@pytest.mark.torch
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what is a process's own")
def test_a_leak_fails_with_its_report_and_a_clean_loader_passes(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    answer = run_pytest(tmp_path, LOADERS, "-p", PLUGIN)
    assert answer.returncode == 1, answer.stdout
    assert "1 failed, 1 passed" in answer.stdout
    assert "test_it.py::test_it_leaks" in answer.stdout
    line = next(n for n, text in enumerate(LOADERS.splitlines(), 1) if "held.append" in text)
    assert f"test_it.py:{line}, held by dataset.held" in answer.stdout
    assert "INTERNALERROR" not in answer.stdout
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".py"] in (
        [],
        ["__pycache__"],
    )


def test_the_plugin_loads_nothing_heavy(tmp_path: Path) -> None:
    source = """
import sys

def test_it(request):
    assert request.config.pluginmanager.has_plugin("feedrate.pytest_plugin")
    heavy = {"torch", "numpy", "scipy", "msgspec", "matplotlib", "psutil"}
    assert not heavy & set(sys.modules)
"""
    answer = run_pytest(tmp_path, source, "-p", PLUGIN)
    assert answer.returncode == 0, answer.stdout


def test_a_suite_without_the_plugin_runs(tmp_path: Path) -> None:
    answer = run_pytest(tmp_path, "def test_it(): pass", "-p", "no:feedrate")
    assert answer.returncode == 0, answer.stdout


def test_the_package_tells_pytest_of_it() -> None:
    found = [each for each in entry_points(group="pytest11") if each.name == "feedrate"]
    if not found:
        pytest.skip("this installation was made before the package had a plugin")
    assert found[0].value == PLUGIN
