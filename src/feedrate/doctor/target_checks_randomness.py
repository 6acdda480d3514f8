"""Checks of random numbers and of what changes between epochs: tried with workers."""

from __future__ import annotations

from feedrate.doctor.target_check import figure, found, of_target
from feedrate.doctor.target_facts import TargetFacts
from feedrate.measure.examined import Randomness, Stale
from feedrate.records import Evidence, Finding

_FEWEST = 3
"""Fewer items that vary may be the same by chance."""
_SEED = "numpy.random.seed(torch.initial_seed() % 2**32)"


def _tried(target: TargetFacts) -> Randomness | None:
    drawn = target.randomness
    return drawn if drawn is not None and drawn.varying >= _FEWEST else None


def _copied(target: TargetFacts) -> Finding | None:
    drawn = _tried(target)
    if drawn is None or drawn.workers_same < drawn.varying:
        return None
    return found(
        "correctness.rng_copied",
        "warning" if target.workers else "info",
        f"two workers draw the same random numbers: {drawn.workers_same} of {drawn.varying} items "
        f"that draw from {_sources(drawn)} came out the same in both",
        why=_why(target, drawn)
        + ("" if target.workers else " (the loader has no workers now; two were tried)"),
        remedy=_remedy(target, drawn),
        evidence=_evidence(drawn, "the same in both workers", drawn.workers_same),
    )


def _repeated(target: TargetFacts) -> Finding | None:
    drawn = _tried(target)
    if drawn is None or drawn.epochs_same < drawn.varying:
        return None
    init = target.setup.init if target.setup is not None else ""
    return found(
        "correctness.same_seed_each_epoch",
        "warning" if target.workers else "info",
        f"every epoch draws the same random numbers: {drawn.epochs_same} of {drawn.varying} items "
        f"that draw from {_sources(drawn)} came out the same in a second epoch"
        + (f", as worker_init_fn ({init}) seeds them" if init else ""),
        why=_why(target, drawn)
        + ("" if target.workers else " (the loader has no workers now; two were tried)"),
        remedy=_remedy(target, drawn),
        evidence=_evidence(drawn, "the same in both epochs", drawn.epochs_same),
    )


def _sources(drawn: Randomness) -> str:
    return ", ".join(drawn.sources)


def _own(drawn: Randomness) -> list[str]:
    return [name for name in drawn.sources if name.startswith("dataset")]


def _why(target: TargetFacts, drawn: Randomness) -> str:
    init = target.setup.init if target.setup is not None else ""
    if _own(drawn):
        return (
            f"{_own(drawn)[0]} is a generator of the dataset's own: each worker begins with a copy "
            "of it as the main process has it"
        )
    if init:
        return f"worker_init_fn ({init}) gives a seed that does not change with the epoch or worker"
    return "something in the dataset seeds the generator itself"


def _remedy(target: TargetFacts, drawn: Randomness) -> str:
    if _own(drawn):
        return (
            "make the generator in the worker, from torch.initial_seed(), which differs for each "
            "worker and epoch; or draw from torch"
        )
    if target.setup is not None and target.setup.init:
        return f"seed from torch's own seed in worker_init_fn: {_SEED}"
    return f"do not seed in __getitem__ or __iter__; or {_SEED}"


def _evidence(drawn: Randomness, name: str, count: int) -> tuple[Evidence, ...]:
    return (
        figure("items tried", drawn.items, "items"),
        figure("items that vary", drawn.varying, "items"),
        figure(name, count, "items"),
    )


def _seen(target: TargetFacts) -> str:
    drawn = target.randomness
    if drawn is None:
        return ""
    if not drawn.sources:
        return "items draw from no generator that is known"
    if not drawn.varying:
        return f"items draw from {_sources(drawn)}, and do not vary by it"
    return f"{drawn.varying} items differ between two workers, and between two epochs"


def _who(stale: Stale) -> str:
    return f"dataset.{stale.method}() sets" if stale.method else "the script changes"


def _stale(target: TargetFacts) -> Finding | None:
    stale = target.stale
    if stale is None or not stale.unseen:
        return None
    names = ", ".join(f"dataset.{name}" for name in stale.unseen)
    return found(
        "correctness.stale_worker_state",
        "warning",
        f"{names}, which {_who(stale)} for each epoch, stays as it was in the workers: "
        "persistent_workers=True keeps them",
        why="a worker has the dataset as it was when the worker started; what the main process "
        "changes later it does not see (tried: the workers of a second epoch had the old value)",
        remedy="keep it in shared memory (a tensor after share_memory_(), multiprocessing.Value), "
        "or set persistent_workers=False",
        evidence=(
            figure("attributes changed", len(stale.changed), "attributes"),
            figure("attributes that workers did not see", len(stale.unseen), "attributes"),
        ),
    )


CHECKS = (
    of_target("random numbers of workers", _copied, _seen),
    of_target("random numbers of epochs", _repeated),
    of_target("changes between epochs", _stale),
)
