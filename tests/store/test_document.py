from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedrate import records
from feedrate.errors import FormatError
from feedrate.records import Suite
from feedrate.store import decode, document, encode, load

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.fixture
def data(rich_suite: Suite) -> bytes:
    return encode(rich_suite)


def test_what_is_written_is_read_back(rich_suite: Suite, data: bytes) -> None:
    assert decode(data, "x") == rich_suite


def test_the_document_says_first_what_it_is_and_is_one_line(data: bytes) -> None:
    assert data.startswith(b'{"format":"feedrate","version":1,"kind":"bench","metadata":{')
    assert data.count(b"\n") == 1
    assert data.endswith(b"}\n")


def test_golden_file_of_version_1() -> None:
    recorded = GOLDEN / "suite-v1.json"
    suite = load(recorded)
    assert suite.metadata.usable_cpus == 1.5
    assert suite.benchmarks[0].settings.num_workers == 0
    run, failed = suite.benchmarks[1].runs
    assert run.epochs[0].batch_waits == (0.5, 0.03125, 0.0625)
    assert run.windows[0].level == 2
    assert run.memory[0].main.pss_shmem == 20 * 2**20
    assert run.peaks is not None
    assert run.peaks.shm_bytes == 72 * 2**20
    assert run.device is not None
    assert run.device.utilization == 0.375
    assert failed.error is not None
    assert failed.error.exit_code == -9
    assert suite.benchmarks[2].skipped is not None
    assert suite.findings[0].evidence[0].high == 1.03
    assert suite.recommendation is not None
    assert suite.recommendation.settings.prefetch_factor == 4
    # what the recorded file does not have has its default
    assert {benchmark.settings.loader for benchmark in suite.benchmarks} == {None}
    assert run.facts is not None
    assert (run.facts.loader, suite.findings[0].loader) == (None, "")
    # A field that a later 0.x adds with its default comes in addition, and nothing is lost.
    assert _holds(json.loads(encode(suite)), json.loads(recorded.read_bytes()))


def _holds(whole: Any, part: Any) -> bool:
    if isinstance(part, dict):
        return all(key in whole and _holds(whole[key], part[key]) for key in part)
    if isinstance(part, list):
        return len(whole) == len(part) and all(map(_holds, whole, part))
    return bool(whole == part)


def test_the_suite_of_these_tests_holds_every_record_type(rich_suite: Suite) -> None:
    seen: set[type] = set()

    def walk(value: Any) -> None:
        if isinstance(value, msgspec.Struct):
            seen.add(type(value))
            for name in value.__struct_fields__:
                walk(getattr(value, name))
        elif isinstance(value, tuple):
            for part in value:
                walk(part)

    walk(rich_suite)
    defined = {
        kind
        for kind in vars(records).values()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    }
    assert defined <= seen


def test_cut_off_after_any_byte(data: bytes) -> None:
    whole = data.rstrip()
    for length in range(len(whole)):
        with pytest.raises(FormatError, match=r"is cut off|is empty"):
            decode(whole[:length], "x")


@given(st.binary(max_size=60))
def test_any_other_bytes_are_refused(noise: bytes) -> None:
    with pytest.raises(FormatError):
        decode(noise, "x")


@given(st.data())
def test_a_changed_byte_is_read_or_refused(draw: st.DataObject) -> None:
    golden = (GOLDEN / "suite-v1.json").read_bytes()
    at = draw.draw(st.integers(0, len(golden) - 1))
    byte = draw.draw(st.binary(min_size=1, max_size=1))
    try:
        read = decode(golden[:at] + byte + golden[at + 1 :], "x")
    except FormatError:
        return
    assert isinstance(read, Suite)


@pytest.mark.parametrize(
    ("foreign", "sentence"),
    [
        (b"", "x is empty; measure again to replace it"),
        (b" \n", "x is empty; measure again to replace it"),
        (b"hello", "x is not a result of feedrate"),
        (b"[1, 2]", "x is not a result of feedrate"),
        (b"17", "x is not a result of feedrate"),
        (b"null", "x is not a result of feedrate"),
        (b"\x89PNG\r\n\x1a\n", "x is not a result of feedrate"),
        (b'{"context": {}, "benchmarks": []}', "x is not a result of feedrate"),
        (b'{"format": "other", "version": 1}', "x is not a result of feedrate"),
        (b'{"format": "feedrate"}', "x has no usable format version"),
        (b'{"format": "feedrate", "version": "1"}', "x has no usable format version"),
        (b'{"format": "feedrate", "version": true}', "x has no usable format version"),
        (b'{"format": "feedrate", "version": 0}', "x has no usable format version"),
        (b'{"format": "feedrate" "version": 1}', "x is not valid JSON"),
        (b'{"format": "feedrate", "version": 1}', r"x is damaged \(object missing required"),
        (b"[" * 200_000, "x is not a result of feedrate"),
        (b'{"a":' * 200_000 + b"1" + b"}" * 200_000, "x is not valid JSON"),
    ],
)
def test_foreign_and_broken_documents(foreign: bytes, sentence: str) -> None:
    with pytest.raises(FormatError, match=sentence):
        decode(foreign, "x")


def test_a_newer_version_says_how_to_upgrade() -> None:
    with pytest.raises(FormatError) as caught:
        decode(b'{"format": "feedrate", "version": 2, "anything": []}', "run.json")
    assert str(caught.value) == (
        "run.json was made by a newer feedrate (format 2); this one reads up to 1: "
        "upgrade with pip install -U feedrate"
    )


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("cpu", 7, r"x is damaged \(metadata\.cpu: expected str, got int\)"),
        ("ram_bytes", "many", r"x is damaged \(metadata\.ram_bytes: expected int, got str\)"),
        ("seed", [], r"x is damaged \(metadata\.seed: expected int \| null, got array\)"),
    ],
)
def test_a_wrong_type_names_the_field(data: bytes, field: str, value: Any, sentence: str) -> None:
    changed = json.loads(data)
    changed["metadata"][field] = value
    with pytest.raises(FormatError, match=sentence):
        decode(json.dumps(changed).encode(), "x")


def test_a_field_that_is_missing_is_named(data: bytes) -> None:
    changed = json.loads(data)
    del changed["metadata"]["cpu"]
    with pytest.raises(FormatError, match=r"metadata: object missing required field cpu"):
        decode(json.dumps(changed).encode(), "x")


def test_sums_that_contradict_the_parts_are_refused(data: bytes) -> None:
    changed = json.loads(data)
    changed["benchmarks"][1]["runs"][0]["epochs"][0]["wait_seconds"] = 99.0
    with pytest.raises(FormatError, match=r"epochs\[.+\].*wait_seconds is 99\.0"):
        decode(json.dumps(changed).encode(), "x")


def test_fields_of_a_later_minor_release_are_passed_over(rich_suite: Suite, data: bytes) -> None:
    changed = json.loads(data) | {"later": 1}
    changed["metadata"]["weather"] = "rain"
    assert decode(json.dumps(changed).encode(), "x") == rich_suite


def test_upgrade_steps_run_in_order(
    rich_suite: Suite, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def renamed(old: dict[str, Any]) -> dict[str, Any]:
        assert old["version"] == 1
        metadata = dict(old["metadata"])
        metadata["cpu_name"] = metadata.pop("processor")
        return old | {"metadata": metadata}

    def renamed_again(old: dict[str, Any]) -> dict[str, Any]:
        assert old["version"] == 2
        metadata = dict(old["metadata"])
        metadata["cpu"] = metadata.pop("cpu_name")
        return old | {"metadata": metadata}

    monkeypatch.setattr(document, "VERSION", 3)
    monkeypatch.setattr(document, "UPGRADES", {1: renamed, 2: renamed_again})
    old = json.loads(data)
    old["metadata"]["processor"] = old["metadata"].pop("cpu")
    upgraded = decode(json.dumps(old).encode(), "x")
    assert upgraded.version == 3
    assert upgraded.metadata == rich_suite.metadata


def test_a_version_that_no_step_reads_is_refused(
    data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document, "VERSION", 2)
    with pytest.raises(FormatError, match="x has format 1, which this feedrate no longer reads"):
        decode(data, "x")


def test_every_older_version_has_its_step_and_every_version_its_golden_file() -> None:
    assert sorted(document.UPGRADES) == list(range(1, document.VERSION))
    for version in range(1, document.VERSION + 1):
        assert (GOLDEN / f"suite-v{version}.json").is_file()


def test_text_that_is_not_utf_8_does_not_lose_the_figures(rich_suite: Suite) -> None:
    metadata = msgspec.structs.replace(rich_suite.metadata, argv=("feedrate", "caf\udce9.py"))
    odd = msgspec.structs.replace(rich_suite, metadata=metadata)
    read = decode(encode(odd), "x")
    assert read.metadata.argv == ("feedrate", "caf\\udce9.py")
    assert read.benchmarks == rich_suite.benchmarks


def test_load_a_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "none.json"
    with pytest.raises(FormatError) as caught:
        load(path)
    assert str(caught.value) == (
        f"there is no file {path}; feedrate bench TARGET -o {path} makes one"
    )


def test_load_a_folder(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"cannot be read: it is a folder; name a file in it"):
        load(tmp_path)


def test_load_what_is_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FormatError, match=r"cannot be read: Not a directory"):
        load(tmp_path / "file" / "run.json")


def test_load_names_the_file_that_is_broken(tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(b'{"format": "feedrate", "ver')
    with pytest.raises(FormatError, match=r"broken\.json is cut off after 27 bytes"):
        load(path)
