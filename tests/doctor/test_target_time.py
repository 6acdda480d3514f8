"""A target that hangs, really examined: the look comes to its end, and says where it stood."""

from __future__ import annotations

import time
from pathlib import Path

from doctor.machines import make_machine
from feedrate.doctor.checks import DoctorFacts, run_checks
from feedrate.doctor.target_checks import CHECKS
from feedrate.doctor.target_session import gather
from feedrate.measure.asked import asked

BUDGET = 6.0


def test_native_code_that_holds_the_interpreter_is_ended(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    # PyDLL keeps the interpreter's lock, so that no signal is seen while it sleeps
    script.write_text("import ctypes\nctypes.PyDLL(None).sleep(3600)\n")
    began = time.monotonic()
    facts = gather(asked(str(script)), machine=make_machine(), budget=BUDGET)
    assert time.monotonic() - began < 5 * BUDGET  # the clock's part is tested in test_hang
    assert facts.error is not None
    assert facts.error.kind == "timeout"
    assert [each.what for each in facts.untried] == ["all that was to follow"]
    (finding,), _ = run_checks(CHECKS, DoctorFacts(make_machine(), facts))
    assert (finding.code, finding.severity) == ("doctor.no_time", "info")
    assert "the main process stood in <module> (train.py, line 2)" in finding.why
    assert finding.remedy == "give it more time: --budget 2m"
