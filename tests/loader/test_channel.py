"""Channels: whole messages of any size, descriptors, and ends that are gone."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedrate.loader.channel import Channel, Closed, FlushingSender, channel_pair

Pair = tuple[Channel, Channel]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ends = channel_pair()
    yield ends
    for end in ends:
        end.close()


def test_messages_arrive_whole_and_in_order(pair: Pair) -> None:
    ours, theirs = pair
    for text in (b"one", b"", b"three"):
        ours.send(text)
    assert [theirs.receive() for _ in range(4)] == [b"one", b"", b"three", None]


@given(st.lists(st.binary(max_size=300_000), max_size=6))
def test_any_messages_arrive_as_they_were(messages: list[bytes]) -> None:
    ours, theirs = channel_pair()
    try:
        arrived = []
        for message in messages:
            ours.send(message)
            while (got := theirs.receive()) is not None:
                arrived.append(got)
        while len(arrived) < len(messages):
            ours.flush()
            if (got := theirs.receive()) is not None:
                arrived.append(got)
        assert arrived == messages
    finally:
        ours.close()
        theirs.close()


def test_sending_never_blocks_and_the_rest_follows(pair: Pair) -> None:
    ours, theirs = pair
    big = os.urandom(10_000_000)
    ours.send(big)
    ours.send(b"after")
    assert ours.backlog
    got = None
    while got is None:
        ours.flush()
        got = theirs.receive()
    assert got == big
    ours.flush()
    assert theirs.receive() == b"after"
    assert not ours.backlog


def test_a_worker_sends_what_is_large_while_it_goes_on(pair: Pair) -> None:
    ours, theirs = pair
    sender = FlushingSender(theirs)
    big = os.urandom(10_000_000)
    sender.send(big)
    sender.send(b"after")
    got = []
    while len(got) < 2:
        ours.wait(5)
        if (message := ours.receive()) is not None:
            got.append(message)
    assert got == [big, b"after"]
    ours.close()
    with pytest.raises(Closed):  # which ends the thread as well
        sender.send(big)
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            thread.join(5)


def test_descriptors_travel_with_their_message(pair: Pair) -> None:
    ours, theirs = pair
    reads, writes = os.pipe()
    theirs.send(b"first", [writes])
    theirs.send(b"second")
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(writes)  # it was the channel's, and is closed
    assert ours.receive() == b"first"
    copy = ours.take_descriptor()
    os.write(copy, b"through")
    os.close(copy)
    assert os.read(reads, 10) == b"through"
    os.close(reads)
    assert ours.receive() == b"second"


def test_what_was_sent_before_the_end_is_read_then_the_end_is_told(pair: Pair) -> None:
    ours, theirs = pair
    theirs.send(b"last words")
    theirs.close()
    assert ours.receive() == b"last words"
    with pytest.raises(Closed):
        ours.receive()
    with pytest.raises(Closed):
        ours.send(b"anyone?")


def test_half_a_message_is_none(pair: Pair) -> None:
    ours, theirs = pair
    socket = theirs.detach()
    socket.send(b"\x10\0\0\0\0\0\0\0only half")
    theirs.close()
    with pytest.raises(Closed):
        ours.receive()


def test_a_forked_process_lets_go_of_the_loops_ends(pair: Pair) -> None:
    ours, theirs = pair
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(writes)
        os.read(reads, 1)  # lives until it is told
        os._exit(0)
    ours.close()
    assert theirs.wait(5)
    with pytest.raises(Closed):  # though the other process was forked with this end open
        theirs.receive()
    os.write(writes, b".")
    os.waitpid(pid, 0)
    os.close(reads)
    os.close(writes)


def test_waiting_ends_when_something_comes(pair: Pair) -> None:
    ours, theirs = pair
    assert not ours.wait(0)
    theirs.send(b"now")
    assert ours.wait(5)
