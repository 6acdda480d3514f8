"""The page of `benchmarks/leak_faults.py`: what counts as right, and that every mark is found."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def page() -> Any:
    return importlib.import_module("leak_page")


@pytest.fixture
def cases(page: Any) -> Any:
    return importlib.import_module("leak_cases")


def made(page: Any, **fields: Any) -> Any:
    values: dict[str, Any] = {
        "name": "global_list",
        "method": "fork",
        "workers": 2,
        "kept": False,
        "size": 200,
        "repeat": 0,
        "expected": "memory.worker_growth",
        "also": (),
        "line": 61,
        "leaks": ("memory.worker_growth",),
        "others": ("memory.shared_pages",),
        "place": "leak_targets.py:61",
        "chain": ("leak_targets.GROWN", "list"),
        "epochs": 9,
        "watched": 5.0,
        "looking": 0.2,
        "seconds": 12.0,
    }
    return page.Result(**values | fields)


def harmless(page: Any, **fields: Any) -> Any:
    calm = {"name": "still", "size": 0, "expected": "", "line": None, "leaks": (), "place": ""}
    return made(page, **calm | fields)


@pytest.mark.parametrize(
    "wrong",
    [
        {"leaks": ()},
        {"leaks": ("memory.native_growth",)},
        {"leaks": ("memory.worker_growth", "memory.shm_growth")},
        {"place": "leak_targets.py:62"},
        {"place": ""},
        {"error": "the child died"},
    ],
)
def test_a_fault_is_right_with_its_kind_and_line_and_no_other(
    page: Any, wrong: dict[str, Any]
) -> None:
    assert page.is_right(made(page))
    assert not page.is_right(made(page, **wrong))


def test_what_may_stand_beside_it_may(page: Any) -> None:
    both = ("memory.worker_growth", "memory.fd_growth_worker")
    assert page.is_right(made(page, leaks=both, also=("memory.fd_growth_worker",)))


def test_where_python_allocates_nothing_no_line_is_wanted(page: Any) -> None:
    assert page.is_right(made(page, line=None, place=""))


def test_a_harmless_pattern_is_right_without_a_warning(page: Any) -> None:
    assert page.is_right(harmless(page))
    assert not page.is_right(harmless(page, leaks=("memory.worker_growth",)))
    assert not page.is_right(harmless(page, error="nothing could be watched"))


@pytest.mark.torch  # it tells the version
def test_the_page_counts_what_was_run_and_names_what_was_wrong(page: Any) -> None:
    results = [
        made(page),
        made(page, size=2048, leaks=("memory.native_growth",)),
        made(page, method="spawn", kept=True, place="leak_targets.py:3"),
        *(harmless(page, repeat=repeat) for repeat in range(3)),
        harmless(page, repeat=3, leaks=("memory.shm_growth",)),
    ]
    text = "\n\n".join(page.page(results))
    assert "2 of 3 injected faults" in text
    assert "of the 3 that Python allocates, 2 with file and line" in text
    assert "1 false alarms in 4 runs of harmless patterns" in text
    assert "1 of 4 · 9 · 5 s" in text
    assert "2,048 bytes an item, fork: reported memory.native_growth" in text
    assert "spawn, kept: line 61 was told as leak_targets.py:3" in text
    assert "| spawn, kept |" in text
    assert "no workers" not in text, "that was not run"
    assert "4.00% of the watch in the median run; the goal is 0.5%, and 7 of 7 took more" in text
    assert "- a global list grows in each worker at 200 bytes an item, fork: 4.00% of 5.0 s" in text


@pytest.mark.torch
def test_the_page_says_where_looking_took_its_share_at_most(page: Any) -> None:
    text = "\n\n".join(page.page([made(page, looking=0.02), made(page, size=2048, looking=0.01)]))
    assert text.endswith(
        "0.30% of the watch in the median run; the goal is 0.5%, and 0 of 2 took more."
    )


def test_each_fault_that_python_allocates_has_one_marked_line(cases: Any) -> None:
    for fault in cases.FAULTS:
        lines = (BENCHMARKS / fault.file).read_text("utf-8").splitlines()
        if (number := fault.line()) is not None:
            assert "# here: " in lines[number - 1]


def test_each_case_has_its_factory(cases: Any) -> None:
    files = {each.name: each.file for each in cases.FAULTS}
    for name, file in (files | {each.name: "leak_patterns.py" for each in cases.PATTERNS}).items():
        assert f"def {name}() -> Any:" in (BENCHMARKS / file).read_text("utf-8")


def test_faults_are_injected_where_they_can_happen(cases: Any) -> None:
    made_of = {(each.name, each.way.name) for each in cases.fault_cases(cases.WAYS)}
    assert ("copy_on_write", "fork, kept") in made_of
    assert ("copy_on_write", "spawn") not in made_of
    assert ("idle_workers", "no workers") not in made_of
    assert len(list(cases.pattern_cases(cases.WAYS, 20))) == 20 * 7 * len(cases.PATTERNS)
