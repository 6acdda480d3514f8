"""What a tune has measured so far, read off its suite: the loader, the ceiling, levels, the race.

Everything that plans, judges or shows a tune starts from here. A tune's benchmarks are told apart
by their part: one look at the settings as they are, one ramp, single runs at chosen levels where a
ramp is not possible, and the race, in which settings are run against the user's own in rotated
rounds; then, `BESIDE` it, what came out with feedrate's loader. What an earlier tune had found and
is only confirmed now comes as the part `EARLIER`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from feedrate.analysis.epochs import epoch_batches, expected, is_another
from feedrate.analysis.race import Entry
from feedrate.analysis.roofline import Roofline, roofline
from feedrate.analysis.windows import Stretch, by_level, of_phase, together
from feedrate.records import (
    Benchmark,
    Choice,
    LoaderFacts,
    LoaderUse,
    Metadata,
    Procedure,
    Run,
    RunError,
    Suite,
    Window,
)
from feedrate.settings import LoaderSettings

LOOK, RAMP, LEVELS, RACE, EARLIER = "look", "ramp", "levels", "confirmation", "earlier"
BESIDE = "feedrate"
OWN_LABEL = "your settings"
NO_TIME = "the time budget held no more"
"""Why settings that the measurements speak for were not raced."""
TORCH_PREFETCH = 2
"""torch's own prefetch_factor with workers where none is set."""


class Tuned(msgspec.Struct, frozen=True, kw_only=True):
    """A tune so far. ``None`` and empty: not measured (yet).

    Attributes:
        loaders: those that the script iterated; ``use`` is the one that it trains from.
        own: its settings, all of them named.
        look: the loop with its own settings; ``look_windows`` are behind it. ``look_error`` is
            what the script said when it failed after that.
        cached: the loop fed by one batch, the ceiling.
        levels: one stretch for each level that was measured, ascending.
        ramped: the levels are of one ramp and not of single runs.
        choices: what the ramp decided, in order.
        roof: the ceilings that follow.
        race: the user's own settings and those held against them, in the order of measuring.
        beside: what the race ended at, and the same on feedrate's loader.
        runs: every run, the earlier tune's and those beside left out, in the order of the
            benchmarks.
        earlier: the levels are those of an earlier tune.
    """

    metadata: Metadata
    procedure: Procedure
    runs: tuple[Run, ...] = ()
    loaders: tuple[LoaderUse, ...] = ()
    use: LoaderUse | None = None
    own: LoaderSettings | None = None
    look: Stretch | None = None
    look_windows: tuple[Window, ...] = ()
    look_error: str | None = None
    cached: Stretch | None = None
    levels: tuple[Stretch, ...] = ()
    ramped: bool = False
    choices: tuple[Choice, ...] = ()
    ramp_runs: tuple[Run, ...] = ()
    level_runs: tuple[Benchmark, ...] = ()
    roof: Roofline = Roofline(cpus=1.0)
    race: tuple[Entry, ...] = ()
    beside: tuple[Entry, ...] = ()
    earlier: bool = False

    @property
    def facts(self) -> LoaderFacts | None:
        """The training loader as it is."""
        return self.use.facts if self.use is not None else None

    @property
    def most_gain(self) -> float | None:
        """What a loader that costs nothing would gain, as a share of the present rate.

        By the loop fed by one batch, and by the time that it waits with its own settings, whichever
        is more: they differ where the step itself was disturbed, and then neither is sure.
        """
        if self.look is None or self.cached is None or self.look.rate <= 0:
            return None
        by_wait = self.look.wait_share / max(1 - self.look.wait_share, 1e-9)
        return max(0.0, self.cached.rate / self.look.rate - 1, by_wait)

    def surpasses(self, ceiling: float) -> bool:
        """Whether the loop with its own settings was faster than a ceiling in batches/s.

        Workers can cost so much that the CPUs give less with them than without.
        """
        return self.look is not None and self.look.batch_rate > ceiling

    @property
    def step_bound(self) -> bool:
        """Whether a loader that costs nothing would gain less than the tolerance."""
        return self.most_gain is not None and self.most_gain < self.procedure.tolerance

    @property
    def every_run(self) -> tuple[Run, ...]:
        """Those beside too."""
        return (*self.runs, *(run for each in self.beside for run in each.benchmark.runs))

    @property
    def spent(self) -> float:
        """The seconds that all runs took."""
        return sum(run.seconds or 0.0 for run in self.every_run)

    @property
    def own_entry(self) -> Entry | None:
        """The user's own settings in the race."""
        return next((entry for entry in self.race if entry.own), None)

    @property
    def broken_level(self) -> int | None:
        """The lowest level at which a ramp's child failed; ``None`` where none did.

        A script that fails as it did with its own settings is not broken by the level.
        """
        broke = [run for run in self.ramp_runs if _told(run.error) != self.look_error]
        return min((level for run in broke if (level := broke_at(run)) is not None), default=None)

    def level(self, count: int) -> Stretch | None:
        """Return what was measured at a level."""
        return next((each for each in self.levels if each.level == count), None)


def read(suite: Suite) -> Tuned:
    """Return what the suite of a tune holds."""
    look = next(iter(_runs(suite, LOOK)), None)
    use = _training_loader(look)
    own = own_settings(use.facts) if use is not None else None
    earlier = _runs(suite, EARLIER) if not _runs(suite, RAMP) else ()
    ramp = earlier or _runs(suite, RAMP)
    level_runs = tuple(b for b in suite.benchmarks if b.part == LEVELS)
    single = (*earlier, *(run for b in level_runs for run in b.runs))
    ramp_levels = by_level(w for run in ramp for w in of_phase(run.windows, "ramp"))
    levels = ramp_levels or by_level(w for run in single for w in of_phase(run.windows, "static"))
    windows = look.windows if look is not None else ()
    cpus = suite.metadata.usable_cpus / suite.metadata.local_ranks
    own_windows = of_phase(windows, "own")
    stretch, cached = together(own_windows), together(of_phase(windows, "cached"))
    without_workers = (stretch,) if stretch is not None and stretch.level == 0 else ()
    return Tuned(
        metadata=suite.metadata,
        procedure=suite.procedure,
        runs=tuple(
            run for b in suite.benchmarks if b.part not in (EARLIER, BESIDE) for run in b.runs
        ),
        loaders=look.loaders if look is not None else (),
        use=use,
        own=own,
        look=stretch,
        look_windows=own_windows,
        look_error=_told(look.error) if look is not None else None,
        cached=cached,
        levels=levels,
        ramped=bool(ramp_levels),
        choices=tuple(choice for run in ramp for choice in run.choices),
        ramp_runs=ramp,
        level_runs=level_runs,
        roof=roofline((*without_workers, *levels), cached, cpus),
        race=_entries(suite, RACE, own, use),
        beside=_entries(suite, BESIDE, own, use),
        earlier=bool(earlier),
    )


def own_settings(facts: LoaderFacts) -> LoaderSettings:
    """Return the settings that a loader has, each of them named."""
    fed = facts.num_workers > 0
    return LoaderSettings(
        num_workers=facts.num_workers,
        prefetch_factor=facts.prefetch_factor if fed else None,
        pin_memory=facts.pin_memory,
        persistent_workers=facts.persistent_workers if fed else None,
        in_order=False if fed and facts.in_order is False else None,
    )


def _told(error: RunError | None) -> str | None:
    return error.sentence if error is not None else None


def broke_at(run: Run) -> int | None:
    """Return the level that a ramp had come to when it failed; ``None`` if it did not."""
    if run.error is None or run.error.kind in ("interrupted", "fixed_workers"):
        return None
    return run.choices[-1].level if run.choices else None


def same_settings(one: LoaderSettings, other: LoaderSettings, own: LoaderSettings) -> bool:
    """Say whether two settings are the same on a loader that has ``own``."""
    return _effective(one, own) == _effective(other, own)


def run_rate(run: Run) -> float | None:
    """Return the items/s of a run with given settings; ``None`` if it failed or has none."""
    if run.error is not None:
        return None
    stretch = together(of_phase(run.windows, "static"))
    return stretch.rate if stretch is not None and stretch.rate > 0 else None


def cheapest(levels: Sequence[Stretch], tolerance: float) -> Stretch | None:
    """Return the lowest level whose rate is within the tolerance of the best; ``None`` of none."""
    best = max((each.rate for each in levels), default=0.0)
    enough = [each for each in levels if each.rate * (1 + tolerance) >= best]
    return min(enough, key=lambda each: each.level, default=None)


def _effective(settings: LoaderSettings, own: LoaderSettings) -> tuple[object, ...]:
    pin = own.pin_memory if settings.pin_memory is None else settings.pin_memory
    rest = (pin, settings.main_threads, settings.batch_size)
    if settings.num_workers == 0:
        return (0, *rest)
    keeps = settings.persistent_workers
    in_order = own.in_order if settings.in_order is None else settings.in_order
    return (
        settings.num_workers,
        *rest,
        settings.prefetch_factor or own.prefetch_factor or TORCH_PREFETCH,
        bool(own.persistent_workers if keeps is None else keeps),
        in_order is not False,
    )


def _runs(suite: Suite, part: str) -> tuple[Run, ...]:
    return tuple(run for b in suite.benchmarks if b.part == part for run in b.runs)


def _training_loader(look: Run | None) -> LoaderUse | None:
    if look is None:
        return None
    return next((use for use in look.loaders if use.number == look.training_loader), None)


def _entries(
    suite: Suite, part: str, own: LoaderSettings | None, use: LoaderUse | None
) -> tuple[Entry, ...]:
    """Return what runs against what: the user's own settings, or torch's loader beside ours."""
    if use is None:
        return ()
    raced = [b for b in suite.benchmarks if b.part == RACE]
    seen = (each for b in raced if b.settings == own for each in _uses(b, use.number))
    usual = next((found for each in (use, *seen) if (found := epoch_batches(each))), None)
    return tuple(
        Entry(
            benchmark=b,
            own=b.settings == own if part == RACE else b.settings.loader is None,
            rates={run.repeat: rate for run in b.runs if (rate := run_rate(run)) is not None},
            error=next((run.error for run in b.runs if run.error is not None), None),
            differs=any(
                is_another(each, expected(usual, use.facts, b), suite.procedure.tolerance)
                for each in _uses(b, use.number)
            ),
        )
        for b in suite.benchmarks
        if b.part == part
    )


def _uses(benchmark: Benchmark, number: int) -> Iterator[LoaderUse]:
    return (use for run in benchmark.runs for use in run.loaders if use.number == number)
