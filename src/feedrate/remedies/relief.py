"""What a `MemoryGuard` reports of an attempt to free memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from feedrate import units

_HELPED_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Relief:
    """What an attempt to free memory brought: bytes, and the seconds that it took.

    ``of`` says what was done. ``objects`` is how many unreachable objects a collection found.
    """

    of: Literal["collection", "device cache"]
    freed_bytes: int
    seconds: float
    objects: int = 0

    @property
    def helped(self) -> bool:
        """Whether it freed a mebibyte or more."""
        return self.freed_bytes >= _HELPED_BYTES

    def __str__(self) -> str:
        what = "collecting cycles" if self.of == "collection" else "emptying the device cache"
        result = f"freed {units.size(self.freed_bytes)}" if self.helped else "did not help"
        return f"{what} {result} ({units.seconds(self.seconds)})"
