"""A child that has fallen silent: when it is given up, and what is said about it."""

from __future__ import annotations

from dataclasses import dataclass, field

from feedrate.measure import wire
from feedrate.measure.blame import HEADER, UNREAD, Raised, read_printed
from feedrate.measure.stacks import Stacks, standing
from feedrate.records import RunError

LOST_SECONDS = 10.0
"""How long nothing must come after a batch was lost, twice what torch waits for a look around:
batches before that one are still to come."""
_OF_PACE = 3.0
"""And how many times the longest silence so far."""
_QUEUE_FEEDER = "in _feed\n"
"""What a worker's traceback shows that cannot send a batch; it then goes on without it."""


@dataclass(slots=True)
class Patience:
    """Decides when a silent child is given up. Times are seconds of one clock.

    Nothing but messages counts: what the user's code prints is no sign of progress. A traceback
    that tells of a lost batch makes patience short, since torch waits for it for ever. Short and
    not none, because a queue of the user's own prints the same. ``within`` is how long the child
    may take in all, where that is bounded.
    """

    timeout: float
    last: float
    longest: float = 0.0
    lost: RunError | None = None
    within: float | None = None
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.last

    def told(self, message: wire.Message, now: float) -> None:
        """Take note of a message."""
        if isinstance(message, wire.Progress | wire.Mark):
            self.longest = max(self.longest, now - self.last)
        elif isinstance(message, wire.EpochDone):
            self.lost = None  # it came to its end without
        self.last = now

    def printed(self, output: bytes) -> None:
        """Take note of the last of what was printed."""
        if self.lost is None and _QUEUE_FEEDER.encode() in output:
            self.lost = describe_lost_batch(output.decode("utf-8", "replace"))

    def silence(self, now: float) -> float:
        """Return for how long nothing came."""
        return now - self.last

    def lasted(self, now: float) -> float:
        """Return how long the child has run."""
        return now - self.began

    def is_late(self, now: float) -> bool:
        """Tell whether the child has had all the time it was given, silent or not."""
        return self.within is not None and self.lasted(now) > self.within

    def lost_for_good(self, now: float) -> RunError | None:
        """Return the error of a lost batch once nothing has come for long enough."""
        enough = min(self.timeout, max(LOST_SECONDS, _OF_PACE * self.longest))
        return self.lost if self.silence(now) > enough else None


def describe_lost_batch(output: str) -> RunError | None:
    """Return the error of a batch that a worker could not send, if its output tells of one."""
    lost = _lost(output)
    if lost is None:
        return None
    return RunError(
        kind="exception",
        sentence=f"a worker could not send its batch ({lost.headline()}), and torch waits for it "
        "for ever; let the dataset or collate_fn return tensors and what can be pickled",
        traceback=output,
    )


def _lost(output: str) -> Raised | None:
    fed = output.find(_QUEUE_FEEDER)
    if fed < 0:
        return None
    raised = read_printed(output[max(0, output.rfind(HEADER, 0, fed)) :])
    return raised if raised is not None and raised.kind != UNREAD else None


def describe_hang(seconds: float, batches: int, stacks: Stacks) -> RunError:
    """Return the error of a child that delivered nothing for longer than the timeout."""
    if lost := describe_lost_batch(stacks.said):
        return lost
    where = "before its first batch" if batches == 0 else "in the middle of an epoch"
    return RunError(
        kind="timeout",
        sentence=f"nothing came for {seconds:g} s, {where}: {standing(stacks)}; if that only takes "
        "long, raise timeout (--timeout); the whole stacks stand in the details (-v)",
        traceback=stacks.whole(),
    )


def describe_late(seconds: float, stacks: Stacks) -> RunError:
    """Return the error of a child that was not through when the time that it was given was up."""
    if lost := describe_lost_batch(stacks.said):
        return lost
    return RunError(
        kind="timeout",
        sentence=f"it was not through after {seconds:.3g} s: {standing(stacks)}",
        traceback=stacks.whole(),
    )
