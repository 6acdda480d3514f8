"""Trials of correctness: random numbers, streams, and what changes between epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from feedrate.measure.examined import Randomness, Stale, Stream, Untried
from feedrate.measure.examining import randomness, staleness, streams
from feedrate.measure.examining.indices import choose, is_plain
from feedrate.measure.examining.probe import AVAILABLE, run_probe

if TYPE_CHECKING:
    from feedrate.measure.examining.examiner import Examiner

_PROBE_GRACE = 4.0
_DRAWS = 16
_READ = 4
"""Items that are read to see which attributes they use."""
NO_FORK = "it needs a process that is forked, which this platform has not"


class CorrectnessTrials:
    """The trials on one loader; they start workers."""

    def __init__(self, examiner: Examiner) -> None:
        self._all = examiner
        self._loader = examiner.loader

    def run(self) -> None:
        """Try what applies."""
        if self._all.setup.facts.iterable:
            self._try_stream()
            return
        self._try_randomness()
        if self._loader.num_workers and self._loader.persistent_workers and is_plain(self._loader):
            self._try_changes()

    def _try_changes(self) -> None:
        """Try what the dataset's own set_epoch changes, or else what the script did."""
        found = self._all.attempt(
            "changes between epochs", 2.0, lambda: staleness.try_set_epoch(self._loader)
        )
        changes = self._all.changes
        if not changes or (isinstance(found, Stale) and found.unseen) or not AVAILABLE:
            return
        indices = choose(self._loader, _DRAWS)[:_READ]

        def find(tell: Any, place: Any) -> None:
            staleness.find_reads(self._loader, changes, indices, tell, place)

        told = run_probe(find, min(4.0, max(0.2, self._all.left())))
        read = {name for part in told.parts if isinstance(part, Stale) for name in part.changed}
        used = {name: value for name, value in changes.items() if name in read}
        if used:
            self._all.attempt(
                "what the script changes between epochs",
                2.0,
                lambda: staleness.try_changes(self._loader, used),
            )

    def _try_randomness(self) -> None:
        indices = choose(self._loader, _DRAWS)[:_DRAWS]
        median = self._all.items.median if self._all.items is not None else 0.0
        if median:
            indices = indices[: max(3, int(2.0 / (4 * median)))]
        known: list[Randomness] = []

        def find(tell: Any, place: Any) -> None:
            randomness.find_sources(self._loader, indices[:8], tell, place)

        if not AVAILABLE:
            self._all.untried("random numbers", NO_FORK)
            return
        told = run_probe(find, min(8.0, max(0.2, self._all.left())))
        known = [part for part in told.parts if isinstance(part, Randomness)]
        for part in told.parts:
            if isinstance(part, Untried):
                self._all.tell(part)
        if not known or not known[0].sources:
            for part in known:
                self._all.tell(part)  # items draw from nothing that is known
            return
        self._all.attempt(
            "random numbers",
            3.0 + 8 * median * len(indices) / 2,
            lambda: randomness.compare(self._loader, indices, known[0].sources),
        )

    def _try_stream(self) -> None:
        seconds = min(2.0, 0.1 * self._all.budget)
        found: list[Stream] = []

        def count(tell: Any, place: Any) -> None:
            streams.count_alone(self._loader, seconds, tell, place)

        if not AVAILABLE:
            self._all.untried("sharing a stream out", NO_FORK)
            return
        told = run_probe(count, min(2 * seconds + _PROBE_GRACE, max(0.2, self._all.left())))
        found = [part for part in told.parts if isinstance(part, Stream)]
        if not found:
            self._all.untried("sharing a stream out", f"iterating it alone {told.end}")
            return
        self._all.attempt(
            "sharing a stream out",
            seconds + 1.0,
            lambda: streams.count_shares(self._loader, found[0], 2 * seconds),
        )
