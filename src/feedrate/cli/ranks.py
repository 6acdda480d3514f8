"""A command that torchrun has started once for each rank."""

from __future__ import annotations

import os

from feedrate.cli.terminal import say
from feedrate.errors import UsageError
from feedrate.measure.ranks import rank_of


def is_left_to_rank_0(*, go_on: bool) -> bool:
    """Tell, and say, whether another rank measures; ``go_on``: the script is to train afterwards.

    Raises:
        UsageError: it would train without the other ranks.
    """
    rank = rank_of(os.environ)
    if rank is None:
        return False
    if rank.number > 0:
        say(f"feedrate: rank {rank.number} leaves the measuring to rank 0")
        return True
    if go_on and rank.ranks > 1:
        raise UsageError(
            f"--continue would train one rank of {rank.ranks} alone: leave it out, and train with "
            "the settings that are found"
        )
    return False
