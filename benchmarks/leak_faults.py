"""Does ``feedrate leaks`` find every fault that it names, with its line, without false alarms?

``python benchmarks/leak_faults.py`` watches each fault of `leak_cases.py` at each of its rates, and
``--repeats`` times each harmless pattern, with workers started in each way and without any. It
takes hours. What was run is kept (``--keep FILE``, a line of JSON for each run) and is not run
again: ``--within SECONDS`` makes a part of the whole, ``--only NAME`` and ``--way NAME`` take a
few. ``--page`` writes results/leak_faults.md from what is there, and runs nothing. It ends with 1
where anything was wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import leak_page
import msgspec
import tables
from leak_cases import (
    FAULTS,
    HERE,
    PATTERN_TARGETS,
    PATTERNS,
    SHM_PREFIX,
    WAYS,
    Case,
    Way,
    fault_cases,
    pattern_cases,
)
from leak_page import Result

from feedrate import check_leaks
from feedrate.analysis.leaks import is_leak
from feedrate.errors import FeedrateError
from feedrate.leak_api import LeakSuite

REPEATS = 20
KEPT = tables.RESULTS / "leak_faults.jsonl"
_SETUP = "LEAK_SETUP"
_FAULTS = {each.name: each for each in FAULTS}


def main(words: Sequence[str] | None = None) -> int:
    given = _arguments(words)
    known = _read(given.keep)
    done = {_key(each) for each in known}
    end = time.monotonic() + given.within
    for case in [] if given.page else _cases(given):
        if _key(case) in done:
            continue
        if time.monotonic() >= end:
            print("the time is up; run it again for the rest", file=sys.stderr)
            break
        result = run(case)
        known.append(result)
        with given.keep.open("ab") as file:
            file.write(msgspec.json.encode(result) + b"\n")
        print(leak_page.line(result), file=sys.stderr, flush=True)
    parts = leak_page.page(known)
    if given.page:
        tables.write("leak_faults.md", *parts)
    return 0 if all(leak_page.is_right(each) for each in known) else 1


def run(case: Case) -> Result:
    """Watch one target."""
    fault = _FAULTS.get(case.name)
    file = HERE / (PATTERN_TARGETS if fault is None else fault.file)
    way = case.way
    os.environ[_SETUP] = f"{way.method or 'fork'} {way.workers} {int(way.kept)} {case.size}"
    begin = time.perf_counter()
    suite: LeakSuite | None = None
    error = ""
    try:
        suite = check_leaks(f"{file}:{case.name}")
    except FeedrateError as failed:
        error = str(failed)
        suite = failed.suite if isinstance(failed.suite, LeakSuite) else None
    seconds = time.perf_counter() - begin
    _clean()
    return _result(case, suite, seconds, error)


def _result(case: Case, suite: LeakSuite | None, seconds: float, error: str) -> Result:
    fault = _FAULTS.get(case.name)
    watch = suite.watch if suite is not None else None
    cause = watch.objects[0] if watch is not None and watch.objects else None
    place = ""
    if cause is not None and cause.file is not None:
        place = f"{Path(cause.file).name}:{cause.line}"
    findings = suite.findings if suite is not None else ()
    return Result(
        name=case.name,
        method=case.way.method,
        workers=case.way.workers,
        kept=case.way.kept,
        size=case.size,
        repeat=case.repeat,
        expected="" if fault is None else fault.expected(case.way),
        also=() if fault is None else fault.also,
        line=None if fault is None else fault.line(),
        leaks=tuple(each.code for each in findings if is_leak(each)),
        others=tuple(each.code for each in findings if not is_leak(each)),
        place=place,
        chain=cause.held_by if cause is not None else (),
        epochs=watch.complete_epochs if watch is not None else 0,
        watched=watch.seconds if watch is not None else 0.0,
        looking=watch.spent_seconds if watch is not None else 0.0,
        seconds=seconds,
        error=error,
    )


def _cases(given: argparse.Namespace) -> Iterator[Case]:
    ways = WAYS if not given.way else tuple(each for each in WAYS if each.name in given.way)
    if given.quick:
        ways = ways[:1]
    for case in (*fault_cases(ways), *pattern_cases(ways, 1 if given.quick else given.repeats)):
        if not given.only or case.name in given.only:
            yield case


def _key(case: Case | Result) -> tuple[object, ...]:
    way = case.way if isinstance(case, Case) else Way(case.method, case.workers, case.kept)
    return case.name, way, case.size, case.repeat


def _read(path: Path) -> list[Result]:
    if not path.exists():
        return []
    lines = path.read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Result) for line in lines if line]


def _clean() -> None:
    """Take away what the fault of that name leaves in shared memory."""
    for path in Path("/dev/shm").glob(f"{SHM_PREFIX}*"):
        path.unlink(missing_ok=True)


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    names = [each.name for each in (*FAULTS, *PATTERNS)]
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keep", type=Path, default=KEPT, metavar="FILE")
    parser.add_argument("--only", action="append", default=[], choices=names, metavar="NAME")
    parser.add_argument("--way", action="append", default=[], choices=[way.name for way in WAYS])
    parser.add_argument("--quick", action="store_true", help="each once, with forked workers")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--within", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument("--page", action="store_true", help="run nothing, write the page")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
