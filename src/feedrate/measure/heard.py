"""What one child has said so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from feedrate.measure import wire
from feedrate.records import Choice, DevicePeaks, Epoch, LoaderFacts, RunError, Window

_KEPT_OUTPUT = 64 * 1024


@dataclass(slots=True)
class Heard:
    """What has arrived so far; changed as messages come."""

    pid: int | None = None
    ready: wire.Ready | None = None
    facts: LoaderFacts | None = None
    epochs: list[Epoch] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    used: wire.Used | None = None
    device: DevicePeaks | None = None
    error: RunError | None = None
    finished: bool = False
    batches: int = 0
    exit_code: int | None = None
    output: bytearray = field(default_factory=bytearray)

    def take(self, message: wire.Message) -> None:
        """Take a message."""
        if isinstance(message, wire.Started):
            self.pid = message.pid
        elif isinstance(message, wire.Ready):
            self.ready, self.facts = message, message.facts
        elif isinstance(message, wire.Progress):
            self.batches = message.batches
        elif isinstance(message, wire.EpochDone):
            self.epochs.append(message.epoch)
            self.facts = message.facts
        elif isinstance(message, wire.WindowDone):
            self.windows.append(message.window)
        elif isinstance(message, wire.Chosen):
            self.choices.append(message.choice)
        elif isinstance(message, wire.Used):
            self.used = message
            measured = (use for use in message.loaders if use.number == message.training_loader)
            self.facts = next((use.facts for use in measured), self.facts)
        elif isinstance(message, wire.Failed):
            self.error = message.error
        elif isinstance(message, wire.Finished):
            self.device, self.finished = message.device, True

    def is_all(self) -> bool:
        """Tell whether nothing more of the run can come."""
        return self.finished or self.error is not None

    def take_any(self, item: wire.Message | bytes | int | None) -> None:
        """Take whatever the child's pipes gave."""
        if isinstance(item, bytes):
            self.output += item
            del self.output[:-_KEPT_OUTPUT]
        elif isinstance(item, int):
            self.exit_code = item
        elif item is not None:
            self.take(item)

    def text(self) -> str:
        """Return the end of what was printed."""
        return self.output.decode("utf-8", "replace")

    def take_text(self) -> str:
        """Return what was printed, and begin anew."""
        text = self.text()
        self.output.clear()
        return text
