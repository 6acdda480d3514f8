"""How much of a loop a process has seen since it began to be looked into."""

from __future__ import annotations


class Counting:
    """Items, calls and epochs so far.

    Args:
        epoch_items: how many items an epoch brings, where that is known; else it is learnt from the
            second epoch, the first that is counted whole.
    """

    def __init__(self, epoch_items: float | None) -> None:
        self.items = self.calls = 0
        self._epochs = self._epoch_begin = 0
        self._epoch_items = epoch_items

    @property
    def epoch_items(self) -> float:
        """The items of an epoch; where that is not known, those so far."""
        return self._epoch_items or self.items or 1

    def passed(self, items: int) -> None:
        """Count a call with so many items."""
        self.items += items
        self.calls += 1

    def epoch_ended(self) -> None:
        """Count an epoch."""
        self._epochs += 1
        if self._epoch_items is None and self._epochs > 1:
            self._epoch_items = self.items - self._epoch_begin
        self._epoch_begin = self.items
