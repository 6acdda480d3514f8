"""What a tune says of feedrate's loader: a gain only where it is sure and matters."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from builders import make_facts
from feedrate.analysis.beside import compared
from feedrate.analysis.tuned import BESIDE, read
from feedrate.analysis.tuning import judge, recommend
from feedrate.records import Finding, RunError, Suite
from feedrate.report.text import suite_text
from feedrate.settings import LoaderSettings
from tune_builders import ITEMS, Loop, tuned_suite, window

LONG = 10**6


def tuned(gain: float) -> Suite:
    """Return the suite of a loop that waits with two workers, which is all that its CPUs give."""
    loop = Loop(own=make_facts(1, length=LONG), cpu=0.02, step=0.0005, cpus=2, chosen=2)
    loop.ramp_to, loop.feedrate_gain = (1, 2, 3), gain
    return tuned_suite(loop)


def changed(suite: Suite, change: Any) -> Suite:
    """Have the runs on feedrate's loader changed, given each with its round."""
    benchmarks = tuple(
        msgspec.structs.replace(b, runs=tuple(change(k, run) for k, run in enumerate(b.runs)))
        if b.part == BESIDE and b.settings.loader
        else b
        for b in suite.benchmarks
    )
    return msgspec.structs.replace(suite, benchmarks=benchmarks)


def found(suite: Suite) -> dict[str, Finding]:
    return {finding.code: finding for finding in judge(suite)}


def shown(suite: Suite) -> str:
    return " ".join(suite_text(suite).split())


def test_a_sure_gain_is_said_beside_and_not_recommended() -> None:
    suite = tuned(1.3)
    finding = found(suite)["tune.beside"]
    assert finding.severity == "info"
    assert finding.title.startswith("feedrate.DataLoader with the same settings delivers 4,1")
    assert "more than torch's 3,1" in finding.title
    assert finding.title.endswith("in 2 runs of each.")
    ratio = finding.evidence[0]
    assert ratio.value == pytest.approx(1.3, rel=0.02)
    assert ratio.low is not None
    advised = recommend(suite)
    assert advised is not None
    assert advised.settings == LoaderSettings(num_workers=2)
    assert "feedrate.DataLoader with the same settings" in shown(suite)


def test_the_range_is_that_of_the_rounds() -> None:
    suite = tuned(1.3)
    torchs = next(each for each in read(suite).beside if each.own)

    def rated(number: int, run: Any) -> Any:
        rate = torchs.rates[number] * (1.2 if number == 0 else 1.4)
        return msgspec.structs.replace(run, windows=(window(2, rate / ITEMS, batches=400),))

    title = found(changed(suite, rated))["tune.beside"].title
    assert "30 % more" in title
    assert "(20 % to 40 %)" in title


@pytest.mark.parametrize("gain", [0.9, 1.0, 1.02])
def test_what_is_no_faster_is_no_finding(gain: float) -> None:
    suite = tuned(gain)
    assert "tune.beside" not in found(suite)
    assert "feedrate.DataLoader" in shown(suite).partition("not worth it")[2]


def test_rounds_that_disagree_prove_nothing() -> None:
    def scattered(number: int, run: Any) -> Any:
        rate = (150.0, 95.0)[number % 2]
        return msgspec.structs.replace(run, windows=(window(2, rate, batches=400),))

    suite = changed(tuned(1.3), scattered)
    assert "tune.beside" not in found(suite)
    assert "the rate of torch's (2 runs: not sure)" in shown(suite)


def test_why_it_could_not_run_is_said_and_no_failure() -> None:
    error = RunError(kind="exception", sentence="the loader's class X cannot be made elastic")
    codes = found(
        changed(tuned(1.3), lambda _, run: msgspec.structs.replace(run, error=error, windows=()))
    )
    assert codes["tune.beside_failed"].severity == "info"
    assert "cannot be made elastic" in codes["tune.beside_failed"].title
    assert "tune.failed" not in codes


def test_torchs_own_workers_under_another_name_are_not_compared() -> None:
    def as_torchs(_: int, run: Any) -> Any:
        (use,) = run.loaders
        facts = msgspec.structs.replace(use.facts, loader="torch")
        return msgspec.structs.replace(run, loaders=(msgspec.structs.replace(use, facts=facts),))

    suite = tuned(1.3)
    assert compared(read(suite)) is not None
    assert compared(read(changed(suite, as_torchs))) is None
