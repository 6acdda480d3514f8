"""When a silent child is given up, on a clock that the test sets."""

from __future__ import annotations

import pytest

from builders import make_epoch, make_facts
from feedrate.measure import wire
from feedrate.measure.hang import (
    LOST_SECONDS,
    Patience,
    describe_hang,
    describe_late,
    describe_lost_batch,
)
from feedrate.measure.stacks import Stacks

FEEDER = """\
Traceback (most recent call last):
  File "/usr/lib/python3.11/multiprocessing/queues.py", line 244, in _feed
    obj = _ForkingPickler.dumps(obj)
          ^^^^^^^^^^^^^^^^^^^^^^^^^^
"""
REASON = "AttributeError: Can't pickle local object 'Photos.__getitem__.<locals>.<lambda>'\n"
PRINTED = f"my own print\n{FEEDER}{REASON}more of it\n".encode()
BATCH = wire.Progress(epoch=0, batches=1)
DONE = wire.EpochDone(epoch=make_epoch(), facts=make_facts())


def after(printed: bytes, timeout: float = 300) -> Patience:
    patience = Patience(timeout, 0.0)
    patience.printed(printed)
    return patience


def test_a_lost_batch_is_waited_for_a_little_and_not_until_the_timeout():
    patience = after(PRINTED)
    assert patience.lost_for_good(LOST_SECONDS) is None
    error = patience.lost_for_good(LOST_SECONDS + 1)
    assert error is not None
    assert error.sentence == (
        f"a worker could not send its batch ({REASON.strip()}), and torch waits for it for ever; "
        "let the dataset or collate_fn return tensors and what can be pickled"
    )
    assert error.traceback.encode() == PRINTED


def test_batches_that_still_come_are_waited_for_at_their_own_pace():
    patience = after(PRINTED)
    patience.told(BATCH, 40.0)  # a slow one
    assert patience.lost_for_good(40.0 + 3 * 40.0) is None
    assert patience.lost_for_good(41.0 + 3 * 40.0) is not None


def test_the_timeout_is_never_exceeded():
    assert after(PRINTED, timeout=2).lost_for_good(2.5) is not None


def test_an_epoch_that_ends_has_lost_nothing():
    patience = after(PRINTED)
    patience.told(DONE, 1.0)
    assert patience.lost_for_good(1000.0) is None


@pytest.mark.parametrize(
    "printed", [b"", b"my own print\n", FEEDER.encode(), REASON.encode(), b"in _feed\n"]
)
def test_no_other_print_makes_patience_short(printed: bytes):
    assert after(printed).lost_for_good(1000.0) is None


def test_a_traceback_that_comes_in_pieces_is_read_once_it_is_whole():
    patience = after(FEEDER.encode())
    patience.printed((FEEDER + REASON).encode())
    assert patience.lost_for_good(1000.0) is not None


def test_silence_is_counted_from_the_last_message():
    patience = Patience(300, 0.0)
    patience.told(BATCH, 7.0)
    patience.printed(b"still here\n")
    assert patience.silence(9.0) == 2.0


def test_a_hang_says_where_it_stood_and_what_to_do():
    main = "Current thread 0x0 (most recent call first):\n" + '  File "/me/a.py", line 3 in step\n'
    error = describe_hang(60, 1, Stacks(said="", main=main))
    assert error.kind == "timeout"
    assert error.sentence == (
        "nothing came for 60 s, in the middle of an epoch: the main process stood in step (a.py, "
        "line 3); if that only takes long, raise timeout (--timeout); the whole stacks stand in "
        "the details (-v)"
    )
    assert main in error.traceback


def test_a_hang_before_any_batch():
    error = describe_hang(2.5, 0, Stacks(said="my print\n", main=""))
    assert error.sentence.startswith(
        "nothing came for 2.5 s, before its first batch: the dataset, "
    )
    assert error.traceback.startswith("my print\n")


def test_a_hang_after_a_lost_batch_tells_of_that():
    error = describe_hang(5, 0, Stacks(said=PRINTED.decode(), main=""))
    assert error == describe_lost_batch(PRINTED.decode())


def test_a_child_that_is_given_so_much_time_is_late_whatever_it_says():
    patience = Patience(300, 10.0, within=25.0)
    patience.told(BATCH, 34.0)
    assert not patience.is_late(35.0)
    assert patience.is_late(35.1)
    assert patience.silence(35.1) == pytest.approx(1.1)
    assert not Patience(300, 10.0).is_late(1e9)


def test_a_child_that_is_late_is_told_of_with_its_place_and_no_option_that_is_not_there():
    stacks = Stacks(said="", main=DUMP)
    assert describe_late(27.52, stacks).sentence == (
        "it was not through after 27.5 s: the main process stood in make_loader (train.py, line 7)"
    )
    assert describe_late(27.5, stacks).kind == "timeout"
    lost = describe_late(27.5, Stacks(said=PRINTED.decode(), main=""))
    assert "could not send its batch" in lost.sentence


DUMP = """\
Current thread 0x00007f0000000000 (most recent call first):
  File "/home/user/train.py", line 7 in make_loader
"""
