"""How many batches an epoch has, and whether that is another number with other settings."""

from __future__ import annotations

from feedrate.records import Benchmark, LoaderFacts, LoaderUse


def epoch_batches(use: LoaderUse) -> float | None:
    """Return the batches of an epoch, known where one came to its end.

    An IterableDataset's end is where it says so, and not where its length has it. Of other loaders
    all epochs that were begun must have come to their end.
    """
    if use.facts.iterable and use.most_batches:
        return use.ended_batches
    if not use.complete_epochs or use.complete_epochs != use.epochs:
        return None
    return use.batches / use.complete_epochs


def expected(usual: float | None, own: LoaderFacts, benchmark: Benchmark) -> float | None:
    """Return the batches that an epoch has with the benchmark's batch size."""
    size = benchmark.settings.batch_size
    if usual is None or size is None or not own.batch_size:
        return usual
    return usual * own.batch_size / size


def is_another(use: LoaderUse, usual: float | None, tolerance: float) -> bool:
    """Tell whether an epoch has another number of batches than with the user's own settings.

    Each worker of an IterableDataset has a last batch of its own, which need not be full. An epoch
    that has not ended has more already, or tells nothing.
    """
    if not usual:
        return False
    spare = max(tolerance * usual, use.facts.num_workers if use.facts.iterable else 1, 1)
    found = epoch_batches(use)
    if found is None:
        return use.facts.iterable and use.most_batches - usual > spare
    return abs(found - usual) > spare
