"""Reading tracebacks of places that this machine does not have: Windows, notebooks, GPUs."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedrate.measure.blame import (
    Frame,
    Raised,
    clean,
    culprit,
    is_stray,
    one_line,
    own_place,
    read,
    read_printed,
)

SITE = "/usr/lib/python3.12/site-packages/torch/utils/data"
LOOP = Frame("/opt/feedrate/measure/loop.py", 56, "run_epoch", "batch = next(iterator)")
STEP = Frame("/opt/feedrate/measure/loop.py", 70, "run_epoch", "step(batch)")
NEXT = Frame(f"{SITE}/dataloader.py", 700, "__next__", "data = self._next_data()")
FETCH = Frame(f"{SITE}/_utils/fetch.py", 54, "fetch", "data = [self.dataset[i] for i in index]")
COLLATE = Frame(f"{SITE}/_utils/fetch.py", 57, "fetch", "return self.collate_fn(data)")
OWN = Frame("/home/me/train.py", 12, "work", "work()")


def of(*frames: Frame, in_worker: bool = False) -> Raised:
    return Raised(kind="ValueError", message="it", frames=frames, in_worker=in_worker)


@pytest.mark.parametrize(
    ("error", "who"),
    [
        (of(LOOP, NEXT, FETCH, OWN), "the dataset"),
        (of(FETCH, OWN, in_worker=True), "the dataset"),
        (of(LOOP, NEXT, COLLATE, OWN), "the collate function"),
        (of(LOOP, NEXT, COLLATE), "collating a batch"),
        (of(LOOP, OWN, NEXT), "the loader"),
        (of(LOOP, OWN), "the loader"),
        (of(STEP, OWN), "the step"),
        (of(STEP, OWN, NEXT, FETCH, OWN), "the step"),
        (
            of(STEP, Frame("/opt/feedrate/measure/device.py", 3, "move", "batch.to(device)")),
            "copying a batch to the device",
        ),
        (
            of(Frame(f"{SITE}/_utils/pin_memory.py", 40, "pin", "pin()"), in_worker=True),
            "pinning a batch",
        ),
        (
            of(Frame(f"{SITE}/_utils/worker.py", 2, "loop", "init_fn(worker_id)"), in_worker=True),
            "worker_init_fn",
        ),
        (of(in_worker=True), "the loader"),
        (of(OWN), "the target"),
        (of(), "the target"),
    ],
)
def test_the_part_of_the_loop(error: Raised, who: str):
    assert culprit(error) == who


def test_paths_of_windows():
    torch = r"C:\venv\Lib\site-packages\torch\utils\data\_utils\fetch.py"
    loop = r"C:\venv\Lib\site-packages\feedrate\measure\loop.py"
    error = of(
        LOOP._replace(file=loop),
        FETCH._replace(file=torch),
        OWN._replace(file=r"D:\me\train.py"),
    )
    assert culprit(error) == "the dataset"
    assert own_place(error) == "(train.py, line 12, in work)"


@pytest.mark.parametrize(
    "file",
    [
        "/usr/lib/python3/dist-packages/numpy/core.py",
        "/usr/lib/python3.12/json/decoder.py",
        json.decoder.__file__,
        "<frozen importlib._bootstrap>",
        "<string>",
        "/opt/feedrate/measure/child.py",
    ],
)
def test_lines_that_are_not_the_users(file: str):
    assert own_place(of(OWN._replace(file=file))) == ""
    assert own_place(of(OWN, OWN._replace(file=file))) == "(train.py, line 12, in work)"


@pytest.mark.parametrize("file", ["<ipython-input-3-abc>", "<stdin>", "/tmp/ipykernel_1/2.py"])
def test_lines_of_a_notebook_are_the_users(file: str):
    assert own_place(of(OWN._replace(file=file)))


def test_the_causes_line_is_named_where_the_error_has_none():
    error = dataclasses.replace(of(NEXT), cause=of(OWN))
    assert own_place(error) == "(train.py, line 12, in work)"


PRINTED = f"""Caught OSError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "/home/me/open.py", line 3, in open
    codec()
    ~~~~~^^
me.errors.Inner: inner

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "{SITE}/_utils/fetch.py", line 54, in fetch
    data = [self.dataset[i] for i in index]
  File "/home/me/my photos/train.py", line 12, in <module>
  File "/home/me/my photos/train.py", line 14
    x = = 3
        ^
OSError: [Errno 2] no such file: 'a.jpg'
and: a second line
  File "not/a/frame.py", line 1, in message
"""


def test_a_printed_traceback_is_read_line_by_line():
    error = read_printed(PRINTED)
    assert error is not None
    assert error.headline() == "OSError: [Errno 2] no such file: 'a.jpg'"
    assert error.message.count("\n") == 2
    assert [frame.name for frame in error.frames] == ["fetch", "<module>", "<module>"]
    assert [frame.code for frame in error.frames] == [FETCH.code, "", "x = = 3"]
    assert own_place(error) == "(train.py, line 14, in <module>)"
    assert culprit(error) == "the dataset"
    assert error.root().headline() == "Inner: inner"
    assert "inner" in error.messages()


def test_what_a_library_was_handling_is_no_cause():
    during = "During handling of the above exception, another exception occurred"
    text = PRINTED.replace(
        "The above exception was the direct cause of the following exception", during
    )
    own = read_printed(text)
    assert own is not None
    assert own.cause is not None
    library = read_printed(text.replace("/home/me/my photos", "/usr/lib/python3.12"))
    assert library is not None
    assert library.cause is None


def test_only_whole_texts_are_read_as_printed():
    assert read_printed("ValueError: it") is None
    cut = read_printed("Traceback (most recent call last):\n  File ")
    assert cut is not None
    assert cut.headline() == "an error"


def test_an_error_that_quotes_a_worker_without_its_traceback_is_read_as_itself():
    error = read(ValueError("Caught KeyError in DataLoader worker process 0."))
    assert error.kind == "ValueError"
    assert not error.in_worker


@pytest.mark.parametrize(
    ("message", "headline"),
    [
        ("", "ValueError"),
        ("  \n\n  it is. \nmore", "ValueError: it is"),
        ("a\tb\x1b[0m", "ValueError: a b [0m"),
        ("x" * 300, "ValueError: " + "x" * 187 + "…"),
    ],
)
def test_the_headline_is_one_short_line(message: str, headline: str):
    assert Raised(kind="ValueError", message=message).headline() == headline


@given(st.text())
def test_any_text_becomes_one_line_of_utf_8(text: str):
    assert len(one_line(text).splitlines()) <= 1
    clean(text).encode()
    read_printed(f"Traceback (most recent call last):\n{text}")


@pytest.mark.parametrize(
    ("message", "stray"),
    [
        ("", False),
        ("my generator's own value", False),
        ("Caught StopIteration in DataLoader worker process 0.\nOriginal Traceback", True),
        ("Caught StopIteration in pin memory thread for device 0.\nOriginal Traceback", True),
    ],
)
def test_an_end_that_comes_from_a_worker_is_no_end(message: str, stray: bool) -> None:
    assert is_stray(StopIteration(message)) is stray
