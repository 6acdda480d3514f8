"""The channel between the loop and one worker: a socket pair of their own.

Each worker has its own, so that one killed in the middle of a message harms nobody else, and no
lock is shared. A message is a length and that many bytes; descriptors may travel with it. Messages
are small as a rule and fit into the socket's buffer: neither side waits for the other. What does
not fit is kept and sent when there is room.
"""

from __future__ import annotations

import array
import contextlib
import errno
import os
import select
import socket
import struct
import threading
import weakref
from collections import deque
from collections.abc import Sequence

_LENGTH = struct.Struct("<Q")
_CHUNK = 1 << 18
_BUFFER_BYTES = 1 << 20
_MOST_DESCRIPTORS = 16
_CLOSE_ON_EXEC: int = getattr(socket, "MSG_CMSG_CLOEXEC", 0)  # Linux has it
_ANCILLARY = socket.CMSG_SPACE(_MOST_DESCRIPTORS * 4)


class Closed(Exception):
    """The other side has closed its end or is gone."""


class _QuietSocket(socket.socket):
    """A socket that closes itself without a warning.

    When an iterator goes in a cycle of garbage (an exception holds the frames), its sockets may be
    finalized before it can close them.
    """

    def __del__(self) -> None:
        self.close()


class Channel:
    """One end. Reading never blocks longer than asked; writing never blocks."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        end.setblocking(False)
        self._received = bytearray()
        self._descriptors: deque[int] = deque()
        self._backlog: deque[tuple[memoryview, Sequence[int]]] = deque()
        self._closed = False
        self._ended = False

    def fileno(self) -> int:
        """Return the descriptor, to wait for."""
        return self._socket.fileno()

    def send(self, payload: bytes | memoryview, descriptors: Sequence[int] = ()) -> None:
        """Send one message, or as much of it as there is room for; the rest follows by `flush`.

        The descriptors are the channel's then, which closes them when they are sent.

        Raises:
            Closed: the other side is gone.
        """
        frame = memoryview(_LENGTH.pack(len(payload)) + payload)
        self._backlog.append((frame, descriptors))
        self.flush()

    @property
    def closed(self) -> bool:
        """Whether the other side's end, or this one, was seen to be closed."""
        return self._closed or self._ended

    @property
    def backlog(self) -> bool:
        """Whether something waits for room."""
        return bool(self._backlog)

    def flush(self) -> None:
        """Send what waits, as far as there is room.

        Raises:
            Closed: the other side is gone.
        """
        while self._backlog:
            frame, descriptors = self._backlog[0]
            try:
                if descriptors:
                    rights = array.array("i", descriptors)
                    parts = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
                    sent = self._socket.sendmsg([frame], parts)
                    for descriptor in descriptors:
                        os.close(descriptor)
                else:
                    sent = self._socket.send(frame)
            except BlockingIOError:
                return
            except OSError as error:
                raise Closed from error
            if sent == len(frame):
                self._backlog.popleft()
            else:
                self._backlog[0] = (frame[sent:], ())

    def receive(self) -> bytes | None:
        """Return the next message that is here whole, ``None`` if there is none.

        Raises:
            Closed: the other side is gone, and all of its whole messages were returned.
        """
        message = self._cut()
        while message is None:
            try:
                data, ancillary, flags, _ = self._socket.recvmsg(_CHUNK, _ANCILLARY, _CLOSE_ON_EXEC)
            except BlockingIOError:
                return None
            except OSError as error:
                raise Closed from error
            for level, kind, rights in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    numbers = array.array("i")
                    numbers.frombytes(rights[: len(rights) - len(rights) % numbers.itemsize])
                    self._descriptors.extend(numbers)
            if flags & socket.MSG_CTRUNC:
                raise OSError(errno.EMFILE, "Too many open files: raise the limit with ulimit -n")
            if not data:
                self._ended = True
                raise Closed
            whole = len(data) >= 8 and _LENGTH.unpack_from(data)[0] == len(data) - 8
            if whole and not self._received:
                return data[8:]  # the usual case: no copy into the buffer and out again
            self._received += data
            message = self._cut()
        return message

    def take_descriptor(self) -> int:
        """Return the next descriptor that came with the messages, which is the caller's then."""
        return self._descriptors.popleft()

    def wait(self, seconds: float) -> bool:
        """Wait until there is something to read or the other side is gone."""
        if len(self._received) >= 8 and self._whole():
            return True
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def _whole(self) -> bool:
        length: int = _LENGTH.unpack_from(self._received)[0]
        return len(self._received) >= 8 + length

    def _cut(self) -> bytes | None:
        received = self._received
        if len(received) < 8 or not self._whole():
            return None
        end = 8 + _LENGTH.unpack_from(received)[0]
        message = bytes(received[8:end])
        del received[:end]
        return message

    def close(self) -> None:
        """Close this end; a second time does nothing."""
        if self._closed:
            return
        self._closed = True
        self._backlog.clear()
        self._socket.close()
        for descriptor in self._descriptors:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._descriptors.clear()

    def detach(self) -> socket.socket:
        """Return the socket itself, for a new process to be started with."""
        return self._socket


class FlushingSender:
    """The worker's way to send: what does not fit is sent by a thread while the worker goes on.

    torch's queues do the same with a thread for every queue; here it is started only when a
    message is larger than the room in the socket's buffer.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
        self._failed = False

    def send(self, payload: bytes, descriptors: Sequence[int] = ()) -> None:
        """Send one message, or leave it to the thread.

        Raises:
            Closed: the other side is gone.
        """
        with self._lock:
            if self._failed:
                raise Closed
            try:
                self._channel.send(payload, descriptors)
            except Closed:
                self._failed = True
                self._room.notify()
                raise
            if not self._channel.backlog:
                return
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()
            self._room.notify()

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._channel.fileno(), select.POLLOUT)
        while True:
            with self._lock:
                while not (self._channel.backlog or self._failed):
                    self._room.wait()
                if self._failed:
                    return
            poll.poll()
            with self._lock:
                try:
                    self._channel.flush()
                except Closed:
                    self._failed = True
                    return

    def finish(self) -> None:
        """Wait until all is sent, as long as the other side is there."""
        while not self._failed:
            with self._lock:
                if not self._channel.backlog:
                    return
            poll = select.poll()
            poll.register(self._channel.fileno(), select.POLLOUT)
            poll.poll(100)


_main_ends: weakref.WeakSet[Channel] = weakref.WeakSet()


def channel_pair() -> tuple[Channel, Channel]:
    """Return two connected ends: the loop's, and the worker's.

    A process forked from this one closes its copies of the loop's ends, so that a worker sees at
    once that the loop is gone.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    for end in (ours, theirs):
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            end.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
    main = Channel(_QuietSocket(fileno=ours.detach()))
    _main_ends.add(main)
    return main, Channel(theirs)


def _close_inherited() -> None:
    for end in list(_main_ends):
        end.close()


os.register_at_fork(after_in_child=_close_inherited)
