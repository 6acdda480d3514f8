"""``feedrate tune`` that torchrun has started, once for each rank."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from feedrate import store
from feedrate.cli.main import app
from feedrate.errors import UsageError
from feedrate.host.files import SystemReader
from feedrate.host.limits import affinity, usable_cpus
from feedrate.measure.ranks import share_of

SCRIPT = Path(__file__).parents[1] / "targets" / "script_ranks.py"


def test_other_ranks_leave_it_to_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    result = CliRunner().invoke(app, ["tune", "--continue", "train.py"])
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "feedrate: rank 3 leaves the measuring to rank 0\n"


def test_one_rank_cannot_go_on_without_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    result = CliRunner().invoke(app, ["tune", "--continue", str(SCRIPT)])
    assert isinstance(result.exception, UsageError)
    assert str(result.exception) == (
        "--continue would train one rank of 2 alone: leave it out, and train with the settings "
        "that are found"
    )


@pytest.mark.parametrize(
    ("words", "way"),
    [
        (["torchrun", "--nproc-per-node", "2", "train.py"], "torchrun -m feedrate tune"),
        (["/opt/bin/torchrun", "train.py"], "torchrun -m feedrate tune"),
        (["-m", "torch.distributed.run", "train.py"], "torchrun -m feedrate tune"),
        (["accelerate", "launch", "train.py"], "accelerate launch -m feedrate tune"),
    ],
)
def test_what_starts_ranks_is_no_target(words: list[str], way: str) -> None:
    result = CliRunner().invoke(app, ["tune", *words])
    assert isinstance(result.exception, UsageError)
    assert f"let it start feedrate: {way} train.py" in str(result.exception)


@pytest.mark.torch
@pytest.mark.skipif(sys.platform != "linux", reason="the script asks which CPUs it has")
def test_ranks_that_torchrun_starts(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    result = tmp_path / "x.json"
    usable = usable_cpus(SystemReader(), affinity()).cpus
    share = len(share_of(range(affinity()), usable, 2, 0))
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", "2", "-m", "feedrate"),
            # so wide a tolerance that a step of 50 ms is always what bounds it
            *("tune", "--tolerance", "0.5", "-o", str(result), str(SCRIPT), str(share)),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert ended.returncode == 0, ended.stderr
    said = ended.stderr.splitlines()
    assert said.count("feedrate: rank 1 leaves the measuring to rank 0") == 1
    assert not [line for line in said if line.startswith("feedrate: rank 0")]
    assert ended.stdout.count("feedrate tune") == 1
    words = " ".join(ended.stdout.split())
    assert "Your loop is step-bound" in words
    assert "One rank of 2 was measured" in words
    suite = store.load(result)
    assert suite.metadata.local_ranks == 2
    (look,) = (benchmark.runs[0] for benchmark in suite.benchmarks)
    assert look.error is None
    (loader,) = look.loaders
    assert loader.facts.length == 100  # a group of one has all items
