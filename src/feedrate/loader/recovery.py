"""What to do when a worker has died: tell why, and decide whether and how to go on. Pure."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Any, Literal

Action = Literal["replace", "shrink", "give_up"]
Cause = Literal["signal", "exit", "out_of_memory"]

MOST_ATTEMPTS = 5
"""How many workers one batch may cost before it is taken for the cause."""


@dataclass(frozen=True, slots=True)
class Death:
    """One worker's end that nobody asked for.

    ``batch`` is the number of the batch that it worked on, ``None`` where it had nothing to do;
    ``indices`` what the sampler gave for it; ``attempts`` how many workers have tried it.
    ``exit_code`` is negative for a signal; ``None`` where it is not known.
    """

    worker: int
    pid: int
    exit_code: int | None
    memory_kills: int
    batch: int | None
    indices: Any
    attempts: int

    @property
    def cause(self) -> Cause:
        """Why it ended: the kernel's out-of-memory killer is known by its own count."""
        if self.exit_code == -int(getattr(signal, "SIGKILL", 9)) and self.memory_kills > 0:
            return "out_of_memory"
        return "signal" if (self.exit_code or 0) < 0 else "exit"

    @property
    def words(self) -> str:
        """The cause for people."""
        if self.cause == "out_of_memory":
            return "killed by the kernel, which had run out of memory"
        if self.cause == "signal":
            return f"killed by {signal_name(self.exit_code or 0)}"
        if self.exit_code is None:
            return "gone for an unknown reason"
        return f"ended with exit code {self.exit_code}"


def signal_name(exit_code: int) -> str:
    """Return the name of the signal of a negative exit code: "SIGSEGV"."""
    try:
        return signal.Signals(-exit_code).name
    except ValueError:
        return f"signal {-exit_code}"


def decide(death: Death, *, others: int) -> Action:
    """Return how to go on after a death.

    Args:
        death: what is known of it.
        others: how many workers are left.

    Returns:
        "give_up" where the same batch has cost `MOST_ATTEMPTS` workers; "shrink" after the kernel
        ran out of memory and others are left to do the work; else "replace".
    """
    if death.batch is not None and death.attempts >= MOST_ATTEMPTS:
        return "give_up"
    if death.cause == "out_of_memory" and others > 0:
        return "shrink"
    return "replace"


def torch_message(death: Death) -> str:
    """Return what torch's loader says when a worker dies, so that code that reads it goes on to."""
    if death.exit_code is not None and death.exit_code < 0:
        described = signal.strsignal(-death.exit_code) or str(-death.exit_code)
        text = f"DataLoader worker (pid {death.pid}) is killed by signal: {described}. "
        if death.exit_code == -int(getattr(signal, "SIGBUS", 7)):
            text += (
                "It is possible that dataloader's workers are out of shared memory. "
                "Please try to raise your shared memory limit."
            )
        return text
    return f"DataLoader worker (pid(s) {death.pid}) exited unexpectedly"


def give_up_message(death: Death) -> str:
    """Return the error that ends a loop whose batch kills every worker."""
    return (
        f"batch {death.batch} cost {death.attempts} workers, the last one {death.words}; its "
        f"indices are {_shorten(death.indices)}. Load these items with num_workers=0 to see why."
    )


def _shorten(indices: Any, most: int = 20) -> str:
    try:
        listed = list(indices)
    except TypeError:
        return repr(indices)
    if len(listed) <= most:
        return repr(listed)
    return f"[{', '.join(map(repr, listed[:most]))}, … {len(listed)} in all]"
