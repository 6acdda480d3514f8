"""Logs of any size and kind are read into a bounded text."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from doctor.texts import TEXTS
from feedrate.doctor.explaining import entries, explain_text
from feedrate.doctor.reading import BEGINNING, CHUNK, END, MIDDLE, TELLING, WHOLE, read_excerpt
from feedrate.errors import FormatError

STEP = b"step 1234 loss 0.3121 data 0.003 time 0.104\n"


class Endless(io.RawIOBase):
    """A stream that makes its chunks when they are asked for."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks

    def read1(self, _: int) -> bytes:
        return next(self._chunks, b"")


def test_a_log_of_usual_size_is_kept_whole() -> None:
    excerpt = read_excerpt(io.BytesIO("Fehler: übel\n".encode()), "x")
    assert (excerpt.text, excerpt.whole, excerpt.bytes) == ("Fehler: übel\n", True, 14)


@pytest.mark.parametrize(
    ("where", "name"),
    [
        ("beginning", "pickle-lambda"),
        ("middle", "worker-killed"),
        ("middle", "pickle-lambda"),  # of what is in the middle little is kept
        ("end", "worker-killed"),
    ],
)
def test_an_error_is_found_anywhere_in_a_huge_log(where: str, name: str) -> None:
    filling = STEP * (CHUNK // len(STEP))
    error = b"\n" + TEXTS[name][0].encode() + b"\n"
    place = {"beginning": 0, "middle": 6, "end": 13}[where]
    chunks = (filling + error if number == place else filling for number in range(14))
    excerpt = read_excerpt(Endless(chunks), "x")  # type: ignore[arg-type]
    assert not excerpt.whole
    assert excerpt.bytes > 14 * len(filling)
    # the last chunk to be let go is not cut
    assert len(excerpt.text) <= BEGINNING + MIDDLE + END + 2 * CHUNK
    assert explain_text(excerpt.text)[0].name == name


def test_a_log_full_of_errors_stays_bounded() -> None:
    words = (f"ValueError: {letter * 900}{number}\n" for number in range(10) for letter in "abc")
    noise = "".join(words).encode()
    chunks = (noise * (CHUNK // len(noise)) for _ in range(30))
    excerpt = read_excerpt(Endless(chunks), "x")  # type: ignore[arg-type]
    assert len(excerpt.text) <= WHOLE + BEGINNING


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_logs_of_powershell_are_read(encoding: str) -> None:
    text = TEXTS["windows-commit"][0].replace("\n", "\r\n")
    excerpt = read_excerpt(io.BytesIO(text.encode(encoding)), "x")
    assert explain_text(excerpt.text)[0].code == "crash.windows_commit"


@pytest.mark.parametrize(
    "data", [bytes(range(256)) * 20, b"\x00" * 5000, b"PK\x03\x04\x00\x00" * 99]
)
def test_what_is_no_text_is_one_sentence(data: bytes) -> None:
    with pytest.raises(FormatError, match=r"^x is no text; name a log"):
        read_excerpt(io.BytesIO(data), "x")


def test_the_nul_of_a_bus_error_and_odd_bytes_are_text() -> None:
    data = b"ERROR: Unexpected bus error encountered in worker.\n\x00" + b"caf\xe9 \x1b[31m\n" * 50
    assert "\ufffd" in read_excerpt(io.BytesIO(data), "x").text


def test_ctrl_c_ends_reading_and_keeps_what_was_read() -> None:
    def chunks() -> Iterator[bytes]:
        yield b"one\n"
        raise KeyboardInterrupt

    excerpt = read_excerpt(Endless(chunks()), "x")  # type: ignore[arg-type]
    assert (excerpt.text, excerpt.interrupted) == ("one\n", True)


def test_a_file_that_cannot_be_read_is_one_sentence() -> None:
    def chunks() -> Iterator[bytes]:
        yield b"one\n"
        raise OSError(5, "Input/output error")

    with pytest.raises(FormatError, match=r"^x cannot be read: Input/output error$"):
        read_excerpt(Endless(chunks()), "x")  # type: ignore[arg-type]


def test_words_that_tell_are_in_every_standard_text() -> None:
    assert len(entries()) <= len(TEXTS)
    for texts in TEXTS.values():
        for text in texts:
            assert any(word in text for word in TELLING)
