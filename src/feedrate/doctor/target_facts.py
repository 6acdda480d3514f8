"""What was found out about a target: its dataset and its loader."""

from __future__ import annotations

import msgspec


class TargetFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a child found out about one target; ``target`` is its name for people."""

    target: str
