"""For all tests: the guard against what they leave behind, and those that need torch."""

from __future__ import annotations

import gc
import importlib.util
import multiprocessing
import os
from collections.abc import Generator

import pytest
from hypothesis import settings

from leftovers import nothing_left_over

__all__ = ["nothing_left_over"]

# No example may be too slow: how long it takes says more about the machine than about the code.
settings.register_profile("feedrate", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("feedrate")

HAS_TORCH = importlib.util.find_spec("torch") is not None

if HAS_TORCH:
    # A server's workers are forks of it, and each would import torch anew.
    multiprocessing.set_forkserver_preload(["torch"])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if HAS_TORCH:
        return
    for item in items:
        if item.get_closest_marker("torch"):
            item.add_marker(pytest.mark.skip(reason="torch is not installed"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Set aside what all modules hold: each collection of garbage would walk through it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Skip a whole file that cannot be imported for want of torch alone."""
    report = yield
    if report.failed and not HAS_TORCH and "No module named 'torch" in str(report.longrepr):
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 0, "Skipped: torch is not installed")
    return report
