"""Every entry of the catalogue is found in the standard texts that are printed for it."""

from __future__ import annotations

import re
from string import Formatter

import pytest

from doctor.texts import TEXTS
from feedrate.doctor.entry import Entry
from feedrate.doctor.explaining import entries, explain_text
from feedrate.doctor.facts import Facts
from feedrate.doctor.messages import CATALOGUE

CASES = [
    pytest.param(name, text, id=f"{name}-{number}")
    for name, texts in TEXTS.items()
    for number, text in enumerate(texts)
]


def test_every_entry_has_a_standard_text_and_every_text_an_entry() -> None:
    names = [entry.name for entry in entries()]
    assert len(names) == len(set(names))
    assert set(names) == set(TEXTS)


@pytest.mark.parametrize(("name", "text"), CASES)
def test_a_standard_text_is_explained_by_its_entry(name: str, text: str) -> None:
    found = explain_text(text)
    assert [explanation.name for explanation in found][:1] == [name]
    entry = next(entry for entry in entries() if entry.name == name)
    assert found[0].code == entry.code
    assert found[0].severity == entry.severity
    for sentence in (found[0].what, found[0].why, *found[0].remedies):
        assert sentence == sentence.strip()
        own = sentence.replace(found[0].quote, "…")
        assert "{" not in own
        assert "  " not in own
        assert " ()" not in sentence


@pytest.mark.parametrize(
    "prefix",
    [
        "[rank1]: ",
        "[default1]:",
        "[1,1]<stderr>:",
        "2026-11-29T19:00:01.000000Z stderr F ",
        "2026-11-29 19:00:01,123 ",
        "trainer-1  | ",
        "(RayTrainWorker pid=4711, ip=10.0.0.1) ",
        "\x1b[31m",
    ],
)
def test_what_stands_in_front_of_every_line_changes_nothing(prefix: str) -> None:
    for name, texts in TEXTS.items():
        for text in texts:
            lines = "".join(f"{prefix}{line}\r\n" for line in text.splitlines())
            assert [found.name for found in explain_text(lines)][:1] == [name], text


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.name)
def test_an_entry_says_all_that_it_has_to(entry: Entry) -> None:
    assert re.fullmatch(r"[a-z]+(?:\.[a-z_]+)?|[a-z_]+", entry.code)
    assert entry.what
    assert entry.why
    assert entry.remedies
    assert entry.role != "note" or entry.severity != "error"
    groups = {"quote", "place"} | {
        name.rstrip("0123456789")
        for text in (*entry.texts, entry.details)
        for name in re.compile(text).groupindex
    }
    if "told" in entry.what:
        groups |= {"told", "came"}
    for template in (entry.what, entry.why, *entry.remedies):
        named = {name for _, name, _, _ in Formatter().parse(template) if name is not None}
        assert named <= groups


def test_the_catalogue_knows_what_users_report() -> None:
    """Codes that the design promises to explain."""
    promised = {
        "crash.worker_sigkill", "crash.worker_segfault", "crash.worker_abort",
        "crash.shm_exhausted", "crash.worker_exit", "crash.worker_gone", "crash.orphan_workers",
        "crash.worker_stuck", "crash.worker_start_hang", "crash.fork_deadlock",
        "crash.not_picklable", "crash.no_main_guard", "crash.nested_workers",
        "crash.windows_commit", "crash.cuda_in_worker", "crash.pin_thread", "crash.device_oom",
        "crash.host_oom", "crash.collate_size", "crash.collate_type", "crash.exception_masked",
        "crash.data_corrupt", "crash.too_many_files", "crash.shm_name_gone",
        "correctness.handle_shared_over_fork", "memory.pinned_cache", "fork_threads",
        "pin_memory_ignored", "len_rounding",
    }  # fmt: skip
    assert promised <= {entry.code for entry in entries()}


def test_without_facts_nothing_is_said_about_this_machine() -> None:
    (found,) = explain_text(TEXTS["worker-killed"][0], Facts())
    assert found.machine == ""
    assert found.evidence == ()


def test_patterns_are_lines() -> None:
    """Texts are looked for line by line, so none may span two."""
    for entry in CATALOGUE:
        assert entry.texts
        for text in entry.texts:
            assert r"\n" not in text.replace(r"[^\n]", "")
