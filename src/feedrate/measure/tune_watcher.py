"""Who is told how a tune goes on."""

from __future__ import annotations

from feedrate.errors import OutputError
from feedrate.measure import wire
from feedrate.records import Run

LOOK_WORDS = "a look at the script as it is"
"""What the first run is called. Its failure is told by itself: as an error, or in a note."""


class TuneWatcher:
    """Told of everything as it happens. This one shows nothing; others show what they override."""

    def step_started(self, what: str, spent: float) -> None:
        """Take note of what is measured now, and the seconds that all runs took so far."""

    def message(self, message: wire.Message) -> None:
        """Take note of a message from the child."""

    def step_ended(self, what: str, run: Run) -> None:
        """Take note of a run's figures or error."""

    def note(self, text: str) -> None:
        """Take note of a sentence about the course of the tune."""

    def not_saved(self, error: OutputError) -> None:
        """Take note that a save failed; measuring goes on, and the next save is tried."""
