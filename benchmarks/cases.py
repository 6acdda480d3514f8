"""Does ``feedrate doctor`` give each case of a collection its right code, and no false alarm?

``python benchmarks/cases.py FOLDER`` examines every case in a folder of cases (each a folder with
``case.json`` and, where it runs, ``case.py``) and prints a table: the case, the code that is
expected, those that were found, whether that is right, and the share of the CPUs that other
programs took meanwhile. ``--only NAME`` takes those whose name begins so, ``-o FILE`` writes the
table there; rows of cases that are not taken stay in it. Cases that are a text are read by
``explain``, and what only shows over many epochs of a script is watched by ``leaks``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from feedrate import check_leaks
from feedrate.doctor.checks import DoctorFacts, run_checks
from feedrate.doctor.explaining import explain_text
from feedrate.doctor.facts import Facts
from feedrate.doctor.machine import gather_machine
from feedrate.doctor.machine_facts import MachineFacts
from feedrate.doctor.target_checks import CHECKS
from feedrate.doctor.target_session import gather
from feedrate.measure.asked import asked
from feedrate.records import Finding

NEITHER = ("none", "none_or_info")
"""No finding at all may come, or none but information."""
LONG = ("memory.main_step_growth", "memory.idle_workers")
"""What only shows over many epochs: the verb leaks finds it."""
_LOOP = """
import case
loader = case.make_loader()
for batch in case.fetch(loader, 12):
    getattr(case, "train_step", lambda batch: None)(batch)
"""
_EPOCHS = """
import time, case
train, validation = case.make_loader(), case.make_val_loader()
for epoch in range(1000):
    for batch in train:
        time.sleep(0.002)
    for batch in validation:
        pass
"""


@dataclass(frozen=True)
class Row:
    """What came of one case."""

    name: str
    expected: str
    found: tuple[str, ...]
    right: bool
    seconds: float
    remark: str = ""
    others: float | None = None


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--budget", type=float, default=30.0)
    parser.add_argument("-v", "--verbose", action="store_true")
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args(words)
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    rows: list[Row] = []
    machine = gather_machine()
    for folder in _folders(given.folder, given.only):
        row, findings = _examine(folder, machine, given.budget)
        rows.append(row)
        print(_line(row), flush=True)
        if given.verbose:
            for finding in findings:
                print(f"    [{finding.severity}] {finding.code}: {finding.title}", flush=True)
    print(_count([_cells(row) for row in rows]))
    if given.output is not None:
        before = given.output.read_text("utf-8") if given.output.is_file() else ""
        given.output.write_text(_page(rows, before, given.budget), encoding="utf-8")
    return 0 if all(row.right for row in rows) else 1


def _folders(folder: Path, only: Sequence[str]) -> Iterator[Path]:
    for each in sorted(folder.iterdir()):
        if (each / "case.json").is_file() and (
            not only or any(each.name.startswith(name) for name in only)
        ):
            yield each


def _examine(folder: Path, machine: MachineFacts, budget: float) -> tuple[Row, list[Finding]]:
    told: dict[str, Any] = json.loads((folder / "case.json").read_text("utf-8"))
    started = time.monotonic()
    remark = ""
    others = None
    if "error_text" in told:
        text = told["error_text"]
        texts = [text] if isinstance(text, str) else list(text)
        findings = [
            each.finding() for one in texts for each in explain_text(one, Facts(machine.host))
        ]
        remark = "read as a text"
    elif not (folder / "case.py").is_file():
        return Row(folder.name, str(told["finding"]), (), False, 0.0, "nothing to run"), []
    else:
        findings, remark, others = _run(folder, told, machine, budget)
    found = tuple(dict.fromkeys(finding.code for finding in findings))
    right, why = _judge(told, findings)
    row = Row(
        folder.name,
        str(told["finding"]),
        found,
        right,
        time.monotonic() - started,
        "; ".join(filter(None, (why, remark))),
        others,
    )
    return row, findings


def _run(
    folder: Path, told: dict[str, Any], machine: MachineFacts, budget: float
) -> tuple[list[Finding], str, float | None]:
    source = (folder / "case.py").read_text("utf-8")
    step = "train_step" if "def train_step" in source else None
    with tempfile.TemporaryDirectory() as place:
        if "def fetch(" in source:
            script = Path(place) / "train.py"
            script.write_text(f"import sys\nsys.path.insert(0, {str(folder)!r})\n{_LOOP}")
            what = asked(str(script))
        else:
            what = asked(f"{folder / 'case.py'}:make_loader", step)
        target = gather(what, machine=machine, budget=budget)
    findings, _ = run_checks(CHECKS, DoctorFacts(machine, target))
    remark = ""
    if told["finding"] in LONG:
        findings = (*findings, *_watch(folder, source, step, budget))
        remark = "with what feedrate leaks says"
    elif target.untried:
        remark = "; ".join(f"{each.what} not tried: {each.why}" for each in target.untried[:2])
    return list(findings), remark, target.others


def _watch(folder: Path, source: str, step: str | None, budget: float) -> tuple[Finding, ...]:
    with tempfile.TemporaryDirectory() as place:
        target = f"{folder / 'case.py'}:make_loader"
        if step is None:
            script = Path(place) / "train.py"
            script.write_text(f"import sys\nsys.path.insert(0, {str(folder)!r})\n{_EPOCHS}")
            target = str(script)
        return check_leaks(target, step, seconds=budget).findings


def _judge(told: dict[str, Any], findings: Sequence[Finding]) -> tuple[bool, str]:
    expected = str(told["finding"])
    kind = expected.partition(".")[0]
    if kind in NEITHER:
        wrong = [each.code for each in findings if kind == "none" or each.severity != "info"]
        return not wrong, f"false alarm: {', '.join(wrong)}" if wrong else ""
    codes = [code.strip() for code in expected.split("/")]
    mine = [finding for finding in findings if finding.code in codes]
    if not mine:
        return False, ""
    text = " ".join(
        " ".join((each.title, each.why, each.remedy, each.machine)) for each in mine
    ).lower()
    text += text.replace("item", "sample")  # what we call an item, others call a sample
    missing = [word for word in told.get("must_mention", ()) if word.lower() not in text]
    claimed = [word for word in told.get("must_not_claim", ()) if word.lower() in text]
    said = [f"does not say {', '.join(missing)}"] if missing else []
    said += [f"says {', '.join(claimed)}"] if claimed else []
    return True, "; ".join(said)


def _line(row: Row) -> str:
    mark = "right" if row.right else "WRONG"
    found = ", ".join(row.found) or "nothing"
    return f"{mark}  {row.seconds:5.1f} s  {row.name}: {row.expected} -> {found}  {row.remark}"


_HEAD = ("Case", "Expected", "Found", "", "Seconds", "Others", "Remark")


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.name,
        row.expected,
        ", ".join(row.found) or "nothing",
        "right" if row.right else "wrong",
        f"{row.seconds:.1f}",
        "" if row.others is None else f"{row.others:.0%}",
        row.remark.replace("|", "/"),
    )


def _page(rows: Sequence[Row], before: str, budget: float) -> str:
    """Return the table with these rows, and those of the one ``before`` that are not among them."""
    table = {cells[0]: cells for cells in _read(before)} | {row.name: _cells(row) for row in rows}
    about = (
        "What `feedrate doctor` and `feedrate explain` say of each case, by `benchmarks/cases.py`: "
        f"{budget:g} s for each, {platform.system()}, {os.cpu_count()} CPUs, Python "
        f"{platform.python_version()}. *Others* is the share of the CPUs that other programs took "
        "meanwhile; what there was then no time to try is named in the remark."
    )
    lines = [
        "# Cases",
        "",
        about,
        "",
        f"| {' | '.join(_HEAD)} |",
        f"|{'---|' * len(_HEAD)}",
        *(f"| {' | '.join(table[name])} |" for name in sorted(table)),
        "",
        _count(list(table.values())),
    ]
    return "\n".join(lines) + "\n"


def _read(page: str) -> list[tuple[str, ...]]:
    """Return the rows of a table that was written before."""
    rows = [line[2:-2].split(" | ") for line in page.splitlines() if line.startswith("| ")]
    return [tuple(cells) for cells in rows if len(cells) == len(_HEAD) and cells[0] != _HEAD[0]]


def _count(rows: Sequence[tuple[str, ...]]) -> str:
    right = sum(cells[3] == "right" for cells in rows)
    return f"{right} of {len(rows)} cases are right."


if __name__ == "__main__":
    sys.exit(main())
