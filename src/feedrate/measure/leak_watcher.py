"""Who is told how a search for leaks goes on."""

from __future__ import annotations

from feedrate.errors import OutputError
from feedrate.measure import wire
from feedrate.memory_records import MemoryLook


class LeakWatcher:
    """Told of everything as it happens. This one shows nothing; others show what they override."""

    def message(self, message: wire.Message) -> None:
        """Take note of a message from the child."""

    def looked(self, look: MemoryLook) -> None:
        """Take note of a look at memory."""

    def explaining(self) -> None:
        """Take note that the watch is over, and what grew is looked into."""

    def note(self, text: str) -> None:
        """Take note of a sentence about the course of the watch."""

    def not_saved(self, error: OutputError) -> None:
        """Take note that the save failed."""
