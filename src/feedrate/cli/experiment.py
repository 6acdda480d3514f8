"""The published experiment, as ``feedrate bench fashion-mnist`` runs it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from feedrate.cli.output import Output
from feedrate.errors import UsageError
from feedrate.measure.handover import Handover
from feedrate.measure.manager import Watcher
from feedrate.records import Benchmark, Procedure, Suite
from feedrate.settings import LoaderKind

TARGET = "fashion-mnist"
_FACTORY = "feedrate.experiments.fashion_mnist:make_run"


def refuse(reason: str, **options: object) -> None:
    """Raise for the first option that was given.

    Raises:
        UsageError: it names the option and the reason.
    """
    for name, value in options.items():
        if value is not None:
            raise UsageError(f"--{name.replace('_', '-')} {reason}")


def run_published(
    out: Output,
    *,
    data_dir: Path | None,
    synthetic: bool,
    quick: bool,
    conditions: str | None,
    workers: Sequence[int] | None,
    loaders: Sequence[LoaderKind],
    device: str,
    seed: int,
    timeout: float,
    tolerance: float,
) -> Suite:
    """Run the protocol behind the published figures, or a part of it."""
    from feedrate import api
    from feedrate.experiments import idx, published

    if data_dir is None:
        raise UsageError(
            f"feedrate bench {TARGET} needs --data-dir DIR: where FashionMNIST is or goes"
        )
    chosen = _conditions(conditions, published.CONDITIONS)
    protocol = published.QUICK if quick else published.FULL
    counts = tuple(workers) if workers is not None else protocol.workers
    origin = idx.ensure(data_dir, synthetic)
    shown = TARGET if origin == "original" else f"{TARGET} ({origin} images)"

    def arguments(benchmark: Benchmark) -> dict[str, object]:
        return {
            "data_dir": str(data_dir),
            "condition": benchmark.condition,
            "images": protocol.images,
            "device": device,
        }

    def measure(watcher: Watcher) -> Suite:
        manager = api.open_manager(
            Procedure(
                epochs=protocol.epochs,
                repeats=protocol.repeats,
                device=device,
                timeout_seconds=timeout,
                tolerance=tolerance,
            ),
            Handover(target=_FACTORY),
            seed=seed,
            arguments=arguments,
            save=out.save,
            watcher=watcher,
            shown_target=shown,
        )

        repeated = [each for each in chosen if each in protocol.repeated_conditions]
        parts = len(chosen) + len(repeated) + (published.AUGMENTED in chosen)
        number = itertools.count(1)

        def measure_part(benchmarks: Sequence[Benchmark], repeats: int) -> None:
            manager.measure(benchmarks, repeats, part=next(number), parts=parts)

        def all_parts() -> None:
            for condition in chosen:
                measure_part(published.sweep_benchmarks([condition], counts, loaders), 1)
                if condition in repeated:
                    top = published.top_workers(manager.suite, condition, loaders)
                    again = published.repeated_benchmarks(condition, top, loaders)
                    measure_part(again, protocol.repeats)
            if published.AUGMENTED in chosen:
                pins = published.pin_benchmarks(workers=protocol.pin_workers, loaders=loaders)
                measure_part(pins, protocol.repeats)

        api.with_result(manager, all_parts)
        return manager.suite

    return out.measure(measure)


def _conditions(text: str | None, known: Sequence[str]) -> tuple[str, ...]:
    if text is None:
        return tuple(known)
    chosen = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
    for name in chosen:
        if name not in known:
            raise UsageError(f"--conditions takes {', '.join(known)}, and not {name!r}")
    return chosen
