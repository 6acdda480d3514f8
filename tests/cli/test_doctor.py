"""``feedrate doctor`` without a target, as it is called."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from doctor.machines import container_with_small_shm, server
from doctor.target_builders import make_items
from feedrate import store
from feedrate.api import judged
from feedrate.cli.main import app
from feedrate.doctor.checks import Check, DoctorFacts
from feedrate.doctor.machine_facts import MachineFacts
from feedrate.doctor.target_facts import TargetFacts
from feedrate.errors import OutputError, TargetError, UsageError
from feedrate.measure.asked import Asked
from feedrate.measure.examined import Items
from feedrate.records import Finding, Severity
from feedrate.report.text import suite_text


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> MachineFacts:
    facts = server()
    monkeypatch.setattr("feedrate.doctor.machine.gather_machine", lambda data: facts)
    return facts


@pytest.fixture
def sick(monkeypatch: pytest.MonkeyPatch) -> MachineFacts:
    facts = container_with_small_shm()
    monkeypatch.setattr("feedrate.doctor.machine.gather_machine", lambda data: facts)
    return facts


def test_the_command_looks_at_this_machine_and_loads_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from feedrate.cli.main import main\n"
        "sys.argv = ['feedrate', 'doctor', '--all']\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    heavy = {'torch', 'scipy', 'numpy', 'matplotlib'} & set(sys.modules)\n"
        "    print(sorted(heavy), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode in (0, 3), done.stderr
    assert done.stderr.strip() == "[]"
    assert done.stdout.startswith("feedrate doctor  this machine\n")
    assert "[workers_guess]" in done.stdout
    assert "Looked at, and fine" in done.stdout


@pytest.mark.usefixtures("machine")
def test_a_healthy_machine_is_told_in_a_few_lines() -> None:
    result = CliRunner().invoke(app, ["doctor"], env={"COLUMNS": "100"})
    assert result.exit_code == 0, result.output
    assert "num_workers=2 is a first guess" in result.output
    assert "Nothing needs to be done. 15 more checks found nothing: --all shows them." in (
        result.output
    )
    assert "Looked at, and fine" not in result.output
    assert max(map(len, result.output.splitlines())) <= 100


@pytest.mark.usefixtures("machine")
def test_all_shows_every_check_on_its_line() -> None:
    result = CliRunner().invoke(app, ["doctor", "--all"], env={"COLUMNS": "140"})
    assert "    /dev/shm        12.0 GiB free of 12.0 GiB; a few workers need" in result.output
    assert result.output.rstrip().endswith("Nothing needs to be done.")


@pytest.mark.usefixtures("sick")
def test_what_needs_to_be_done_comes_first_and_ends_with_3() -> None:
    result = CliRunner().invoke(app, ["doctor"], env={"COLUMNS": "100"})
    assert result.exit_code == 3, result.output
    lines = result.output.splitlines()
    first = next(line for line in lines if line.startswith(" !"))
    assert first.startswith(" !  /dev/shm has 64.0 MiB free of 64.0 MiB")
    names = [line[:10].strip() for line in lines]
    assert names.index("why") < names.index("do") < names.index("data")
    assert result.output.index("[risk.small_shm]") < result.output.index("[workers_guess]")
    assert "1 thing to do." in result.output


@pytest.mark.usefixtures("sick")
def test_json_is_a_document_that_report_shows_again(tmp_path: Path) -> None:
    file = tmp_path / "doctor.json"
    result = CliRunner().invoke(app, ["doctor", "--json", "-o", str(file)])
    assert result.exit_code == 3
    document = json.loads(result.stdout)
    assert (document["format"], document["kind"]) == ("feedrate", "doctor")
    assert document["metadata"]["target"] == "this machine"
    codes = {finding["code"]: finding["severity"] for finding in document["findings"]}
    assert codes["risk.small_shm"] == "warning"
    assert {"name", "seen"} == set(document["looked_at"][0])
    assert file.read_bytes() == result.stdout_bytes
    suite = store.load(file)
    assert judged(suite) == suite
    assert f"next:  feedrate report {file}" in result.stderr
    figure = CliRunner().invoke(app, ["report", str(file), "-o", str(tmp_path / "x.png")])
    assert isinstance(figure.exception, UsageError)
    assert "of which no figure can be drawn" in str(figure.exception)
    shown = CliRunner().invoke(app, ["report", str(file), "-v"])
    assert shown.exit_code == 0
    assert shown.stdout == suite_text(suite, width=80, verbose=True)
    assert "Looked at, and fine" in shown.stdout


@pytest.mark.usefixtures("machine")
def test_a_file_is_checked_first_and_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "doctor.json"
    file.write_text("mine")
    result = CliRunner().invoke(app, ["doctor", "-o", str(file)])
    assert isinstance(result.exception, UsageError)
    assert result.output == ""
    assert file.read_text() == "mine"
    forced = CliRunner().invoke(app, ["doctor", "-o", str(file), "--force"])
    assert forced.exit_code == 0
    assert store.load(file).kind == "doctor"
    nowhere = CliRunner().invoke(app, ["doctor", "-o", str(tmp_path / "none" / "x.json")])
    assert isinstance(nowhere.exception, OutputError)


@pytest.mark.usefixtures("machine")
def test_nothing_is_kept_without_being_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert CliRunner().invoke(app, ["doctor"]).exit_code == 0
    assert list(tmp_path.rglob("*.json")) == []


def test_the_data_is_told_of_where_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"x" * 2048)
    result = CliRunner().invoke(
        app, ["doctor", "--all", "--data", str(tmp_path)], env={"COLUMNS": "400"}
    )
    assert result.exit_code in (0, 3)
    assert "2.00 KiB in 1 file" in result.output


def _name(facts: DoctorFacts) -> str:
    return f"of {facts.target.target}" if facts.target is not None else ""


class FakeTargets:
    """Looks at targets in no time, and finds what it is told to."""

    def __init__(self, severity: Severity) -> None:
        self.asked: tuple[Asked, float] | None = None
        self.items: Items | None = None
        finding = Finding(code="crash.not_picklable", severity=severity, title="cannot be pickled")
        self.CHECKS = (
            Check("pickling", lambda _: finding, lambda _: ""),
            Check("items", lambda _: None, _name),
        )

    def put_in_place(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("feedrate.doctor.target_checks.CHECKS", self.CHECKS)
        monkeypatch.setattr("feedrate.doctor.target_session.gather", self.gather)

    def gather(self, what: Asked, *, machine: MachineFacts, budget: float) -> TargetFacts:
        assert machine.cpus.usable == 2
        self.asked = (what, budget)
        return TargetFacts(target=what.shown, items=self.items)


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(("severity", "code"), [("error", 3), ("warning", 3), ("info", 0)])
def test_a_script_is_looked_at_with_its_arguments(
    severity: Severity, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    targets = FakeTargets(severity)
    targets.put_in_place(monkeypatch)
    arguments = ["--all", "--budget", "1m", str(script), "--epochs", "3", "--all"]
    result = CliRunner().invoke(app, ["doctor", *arguments], env={"COLUMNS": "300"})
    assert result.exit_code == code, result.output
    assert targets.asked is not None
    what, budget = targets.asked
    assert 30 < budget < 60  # the command's own time is part of it
    assert what.script is not None
    assert what.script.argv == ("--epochs", "3", "--all")
    assert result.output.startswith(f"feedrate doctor  {script} --epochs 3 --all\n")
    assert "cannot be pickled [crash.not_picklable]" in result.output
    assert f"    items           of {script}" in result.output


@pytest.mark.usefixtures("machine")
def test_the_files_that_a_target_reads_are_its_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rows.bin").write_bytes(b"x" * 4096)
    (tmp_path / "train.py").write_text("")
    targets = FakeTargets("info")
    targets.items = make_items(files=(str(tmp_path / "rows.bin"),))
    targets.put_in_place(monkeypatch)
    arguments = ["doctor", "--all", str(tmp_path / "train.py")]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "400"})
    assert "4.00 KiB in 1 file" in result.output
    assert f"{tmp_path / 'rows.bin'} is on " in result.output or "unknown" in result.output


@pytest.mark.usefixtures("machine")
def test_a_target_that_is_not_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeTargets("info").put_in_place(monkeypatch)
    result = CliRunner().invoke(app, ["doctor", "nowhere.py"])
    assert isinstance(result.exception, TargetError)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--data", "nowhere/at/all"], "there is no nowhere/at/all; --data names"),
        (["--budget", "soon"], "--budget takes a time such as"),
        (["--step", "train_step"], "--step goes with a target: name one"),
        (["-m"], "-m goes with a target: name one"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(arguments: list[str], says: str) -> None:
    result = CliRunner().invoke(app, ["doctor", *arguments])
    assert isinstance(result.exception, UsageError)
    assert says in str(result.exception)
