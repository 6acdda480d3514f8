"""The lines between the measuring process and its child."""

from __future__ import annotations

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import make_facts
from feedrate.measure import wire
from feedrate.measure.loop import make_epoch
from feedrate.records import DevicePeaks, RunError
from feedrate.settings import LoaderSettings

TEXT = st.text(st.characters(codec="utf-8"))
TIMES = st.lists(st.floats(0, 1e6), max_size=5)
EPOCHS = st.builds(
    lambda times, begin: make_epoch(
        begin=begin, end=0.0, waits=times, steps=times, items=len(times), complete=True
    ),
    TIMES,
    st.floats(0, 1e6),
)
ERRORS = st.builds(
    RunError,
    kind=st.sampled_from(["exception", "target", "killed"]),
    sentence=TEXT,
    traceback=TEXT,
    exit_code=st.none() | st.integers(-64, 255),
)
MESSAGES = st.one_of(
    st.builds(wire.Started, pid=st.integers(1, 2**22)),
    st.builds(
        wire.Ready,
        setup_seconds=st.floats(0, 1e6),
        facts=st.just(make_facts()),
        versions=st.dictionaries(TEXT, TEXT, max_size=3),
        accelerator=st.none() | TEXT,
        default_start_method=st.none() | st.just("fork"),
    ),
    st.builds(wire.Progress, epoch=st.integers(0, 99), batches=st.integers(1, 2**40)),
    st.builds(wire.EpochDone, epoch=EPOCHS, facts=st.just(make_facts())),
    st.builds(wire.Failed, error=ERRORS),
    st.builds(
        wire.Finished,
        device=st.none() | st.builds(DevicePeaks, name=TEXT, utilization=st.floats(0, 1)),
    ),
)


@given(message=MESSAGES)
def test_a_message_comes_back_as_it_was_from_one_line(message: wire.Message):
    line = wire.encode(message)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1  # whatever line breaks its texts have
    assert wire.decode(line) == message


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"exit 0\n",
        b"garbage\n",
        b"{}\n",
        b'{"type": "Unknown"}\n',
        b'"text"\n',
        b"\xff",
    ],
)
def test_a_line_that_is_no_message_is_refused(line: bytes):
    with pytest.raises(msgspec.MsgspecError):
        wire.decode(line)


@given(data=st.binary())
def test_any_line_is_a_message_or_refused(data: bytes):
    with contextlib.suppress(msgspec.MsgspecError):
        assert wire.decode(wire.encode(wire.decode(data)))


@given(data=st.binary())
def test_an_object_is_packed_as_plain_text(data: bytes):
    text = wire.pack_object(data)
    assert text.isascii()
    assert wire.unpack_object(text) == data


def test_a_spec_survives_the_way_to_the_child():
    spec = wire.ChildSpec(
        target="train.py:make",
        settings=LoaderSettings(num_workers=2, start_method="fork"),
        epochs=2,
        arguments={"augment": True, "size": 3, "names": ["a", None]},
        search_path=("/a", "/b"),
    )
    assert msgspec.json.decode(msgspec.json.encode(spec), type=wire.ChildSpec) == spec


def test_specs_do_not_share_their_arguments():
    first, second = (
        wire.ChildSpec(target="train.py:make", settings=None, epochs=1) for _ in range(2)
    )
    assert first.arguments == {}
    assert first.arguments is not second.arguments
