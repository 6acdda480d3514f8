"""The run of a watch, and the loader in it that was watched."""

from __future__ import annotations

from feedrate.records import LoaderUse, Run, Suite


def watched_run(suite: Suite) -> Run | None:
    """Return the run that was watched."""
    runs = [run for benchmark in suite.benchmarks for run in benchmark.runs]
    return runs[0] if runs else None


def trained_use(run: Run) -> LoaderUse | None:
    """Return what is known of the watched loader."""
    return next((use for use in run.loaders if use.number == run.training_loader), None)


def wait_share(run: Run) -> float | None:
    """Return the share of the loop's time that it waited for batches."""
    seconds = sum(window.seconds for window in run.windows)
    waited = sum(window.wait_seconds for window in run.windows)
    return waited / seconds if seconds > 0 else None
