"""The child's end of its pipes: messages to the parent, and answers to what it asks."""

from __future__ import annotations

import os
import select

from feedrate.measure import wire

_ANSWER_SECONDS = 30.0
"""Nobody takes so long to look at memory: the parent has gone, and the keeper ends the child."""


class Sender:
    """Writes messages; in a forked copy of the child, and in its workers, it does nothing.

    Args:
        messages: the descriptor that takes them.
        answers: the descriptor that gives the parent's answers, ``None`` where nobody answers.
    """

    def __init__(self, messages: int, answers: int | None) -> None:
        self._messages = messages
        self._answers = answers
        self._is_open = True
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._close)  # workers are not to hold pipes open

    def __call__(self, message: wire.Message) -> None:
        """Send a message."""
        if not self._is_open:
            return  # a script that forks comes to its end in the copy too
        data = wire.encode(message)
        while data:
            data = data[os.write(self._messages, data) :]

    def ask(self, mark: wire.Mark) -> bytes:
        """Send a mark and wait for the answer; `wire.GO` where nobody answers."""
        self(mark)
        if self._answers is None or not self._is_open:
            return wire.GO
        ready, _, _ = select.select([self._answers], [], [], _ANSWER_SECONDS)
        return os.read(self._answers, 1) if ready else wire.GO

    def _close(self) -> None:
        if self._is_open:
            self._is_open = False
            os.close(self._messages)
            if self._answers is not None:
                os.close(self._answers)
