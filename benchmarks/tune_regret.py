"""How far are the settings that ``feedrate tune`` finds from the best, and how long does it take?

``python benchmarks/tune_regret.py`` writes results/tune_regret.md. For each kind of work: tune with
its default budget, then two peers from PyPI, then an exhaustive grid, each setting in a fresh
process; what was chosen and the grid's best are measured again, in rotated order. All of it takes
an hour and 40 minutes on two CPUs, a quarter of an hour for the peers. ``--quick`` is a short pass
and ``--work NAME`` (more than once) a part; both only print.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import tables
import tune_page
import workloads
from transport import install, version_in
from tune_plan import (
    FULL,
    NOTHING_SET,
    OURS,
    PEERS,
    QUICK,
    Pace,
    Result,
    Setting,
    Tried,
    all_settings,
    finalists,
    rotated,
    setting,
)

from feedrate import store
from feedrate.analysis.answering import answer
from feedrate.analysis.tuned import BESIDE, LEVELS, LOOK, RACE, RAMP, read
from feedrate.records import Suite

HERE = Path(__file__).parent
TUNE_SECONDS = 300.0
VALUE_SECONDS = 60.0
GRACE_SECONDS = 5.0
PARTS = {
    "look": LOOK,
    "ramp": RAMP,
    "levels": LEVELS,
    "confirmation": RACE,
    "feedrate's loader": BESIDE,
}


class FailedError(Exception):
    """A process did not do its work; the text says why."""


def run(command: Sequence[str], seconds: float, environment: dict[str, str]) -> str:
    """Run a command and return what it printed; it and its workers end after so many seconds.

    Raises:
        FailedError: it failed, or took longer.
    """
    child = subprocess.Popen(
        command,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        printed, errors = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise FailedError(f"it took more than {seconds:.0f} s") from None
    finally:
        _end(child)
    if child.returncode:
        raise FailedError((errors.strip().splitlines() or ["no reason given"])[-1])
    return printed


def _end(child: subprocess.Popen[str]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(GRACE_SECONDS)
    child.wait()


def rate(key: str, given: Setting, seconds: float) -> float:
    """Measure a setting in a fresh process; return items/s."""
    asked = msgspec.json.encode(given).decode()
    command = [sys.executable, str(HERE / "tune_child.py"), key, asked, str(seconds)]
    return msgspec.json.decode(run(command, VALUE_SECONDS, {}), type=float)


def grid(key: str, pace: Pace, turn: int) -> tuple[dict[Setting, float], float]:
    """Return each setting's rate, and the seconds that all took."""
    start = time.perf_counter()
    settings = rotated(all_settings(pace.workers, pace.prefetch), turn)
    rates = {each: rate(key, each, pace.seconds) for each in settings}
    return rates, time.perf_counter() - start


def tune(key: str, folder: Path) -> Tried:
    """Let ``feedrate tune`` choose, by its own command."""
    file = folder / f"{key}.json"
    command = [str(Path(sys.executable).with_name("feedrate")), "tune", "--fresh"]
    command += ["--allow", "in_order", "-o", str(file), f"{HERE / 'tune_targets.py'}:{key}"]
    start = time.perf_counter()
    try:
        run(command, TUNE_SECONDS, {"XDG_CACHE_HOME": str(folder), "NO_COLOR": "1"})
    except FailedError as error:
        return Tried(OURS, time.perf_counter() - start, None, str(error), {})
    seconds = time.perf_counter() - start
    suite = store.load(file)
    advised = suite.recommendation
    chosen = NOTHING_SET
    if advised is not None:
        found = advised.settings
        in_order = found.in_order is not False
        chosen = setting(found.num_workers, found.prefetch_factor, in_order)
    return Tried(OURS, seconds, chosen, answer(read(suite)).kind, parts(suite, seconds))


def parts(suite: Suite, seconds: float) -> dict[str, float]:
    """Return the seconds of each part of a tune, and what lies between its runs."""
    spent: dict[str, float] = {}
    for name, part in PARTS.items():
        runs = [run for each in suite.benchmarks if each.part == part for run in each.runs]
        if runs:
            spent[name] = sum(run.seconds or 0.0 for run in runs)
    return spent | {"between": seconds - sum(spent.values())}


def peer(name: str, key: str, place: Path, seconds: float) -> Tried:
    """Let a peer choose, through its adapter in benchmarks/tune_peers.py."""
    paths = [str(place / name), *filter(None, [os.environ.get("PYTHONPATH")])]
    command = [sys.executable, str(HERE / "tune_peers.py"), name, key]
    start = time.perf_counter()
    said: Setting | str
    try:
        printed = run(command, seconds, {"PYTHONPATH": os.pathsep.join(paths)})
        said = msgspec.json.decode(printed.splitlines()[-1], type=Setting | str)
    except (FailedError, IndexError, msgspec.MsgspecError) as error:
        said = str(error)
    took = time.perf_counter() - start
    if isinstance(said, str):
        return Tried(name, took, None, said, {})
    return Tried(name, took, said, "", {})


def measure(key: str, turn: int, pace: Pace, there: Sequence[str], places: Path) -> Result:
    """Measure one kind of work with everything."""
    with tempfile.TemporaryDirectory() as folder:
        tried = [tune(key, Path(folder))]
    told(key, tried[0])
    for name in there:
        tried.append(peer(name, key, places, pace.peer_seconds))
        told(key, tried[-1])
    rates, seconds = grid(key, pace, turn)
    print(f"{key}: a grid of {len(rates)} settings took {seconds:.0f} s", file=sys.stderr)
    last = finalists(rates, tried)
    again: dict[Setting, tuple[float, ...]] = dict.fromkeys(last, ())
    for round_ in range(pace.rounds):
        for each in rotated(last, round_):
            again[each] = (*again[each], rate(key, each, pace.seconds))
    result = Result(workloads.KINDS[key]().name, rates, seconds, tuple(tried), again)
    for each in last:
        values = ", ".join(f"{rate:,.0f}" for rate in again[each])
        print(f"{key}: {each}: {values} items/s", file=sys.stderr)
    return result


def told(key: str, tried: Tried) -> None:
    chosen = tried.chosen if tried.chosen is not None else "nothing"
    print(
        f"{key}: {tried.tuner} chose {chosen} ({tried.seconds:.0f} s) {tried.said}", file=sys.stderr
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a short pass that writes no page")
    parser.add_argument(
        "--work", action="append", choices=list(workloads.KINDS), help="only this; writes no page"
    )
    parser.add_argument("--peers", type=Path, help="a folder to keep peers from PyPI in")
    given = parser.parse_args()
    pace = QUICK if given.quick else FULL
    results: list[Result] = []
    with contextlib.ExitStack() as stack:
        places = given.peers or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        there, versions = had(places.absolute())
        try:
            for turn, key in enumerate(given.work or workloads.KINDS):
                results.append(measure(key, turn, pace, there, places.absolute()))
        except BaseException:
            if results:
                print("\n\n".join(tune_page.page(results, versions, pace)))
            raise
    parts = tune_page.page(results, versions, pace)
    if given.quick or given.work:
        print("\n\n".join(parts))
    else:
        tables.write("tune_regret.md", *parts)


def had(places: Path) -> tuple[list[str], list[str]]:
    """Return the peers that could be had, and their versions."""
    there, versions = [], []
    for name, wanted in PEERS.items():
        reasons = [_missing(each, places / name) for each in wanted]
        reason = next(filter(None, reasons), None)
        if reason is None:
            there.append(name)
            versions.append(wanted[0].replace("==", " "))
        else:
            print(f"{name}: {reason}", file=sys.stderr)
    return there, versions


def _missing(wanted: str, folder: Path) -> str | None:
    """Have a package of a version in a folder; return why that failed."""
    package, _, version = wanted.partition("==")
    return None if version_in(package, folder) == version else install(wanted, folder)


if __name__ == "__main__":
    main()
