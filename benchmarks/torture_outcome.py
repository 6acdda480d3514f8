"""One way to run the torture, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass

from torture_keeping import Tally
from torture_memory import LEAST_LOOKS, MIB, Look, Trend, trends


@dataclass(frozen=True, slots=True)
class Config:
    """One way to run it.

    ``kill_seconds`` is the mean time between two kills, ``kept_bytes`` the size of the replay
    buffer, ``fork_share`` the share of batches that are handed to forked processes, and
    ``move_share`` of those after which a worker more or less is asked for. Memory is looked at
    after ``warm_batches``, and may gain ``slack_bytes`` by chance. It ends early once
    ``most_wrong`` things are wrong.
    """

    method: str = "fork"
    seconds: float = 10.0
    seed: int = 0
    in_order: bool = True
    kill_seconds: float = 0.3
    window_seconds: float = 1.0
    kept_bytes: int = 16 * MIB
    fork_share: float = 0.02
    move_share: float = 0.02
    slack_bytes: int = 16 * MIB
    warm_batches: int = 1000
    most_wrong: int = 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it. ``left`` says what should have been gone in the end."""

    config: Config
    tally: Tally
    replaced: int
    looks: tuple[Look, ...]
    left: tuple[str, ...]

    @property
    def trends(self) -> dict[str, Trend]:
        """How memory and descriptors went; empty where it was too short to tell.

        All of it grows, as it should, until the replay buffer is full, and until each worker has
        had batches of all sizes.
        """
        full, warm = 0.9 * self.config.kept_bytes, self.config.warm_batches
        ready = [each.retained >= full and each.batches >= warm for each in self.looks]
        steady = self.looks[ready.index(True) :] if any(ready) else ()
        return trends(steady, self.config.slack_bytes) if len(steady) >= LEAST_LOOKS else {}

    @property
    def faults(self) -> list[str]:
        """All that is wrong, in words."""
        found = [*self.tally.wrong, *self.left]
        found += [f"{name} grows: {each}" for name, each in self.trends.items() if each.grows]
        if not self.trends:
            found.append("too few looks at the memory after the warm-up: run it for longer")
        return found
