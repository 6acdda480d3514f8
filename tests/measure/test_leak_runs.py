"""Real children that leak a known amount, and some that do not: the verdict from end to end."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from feedrate import check_leaks, leak_api
from feedrate.errors import TargetError
from feedrate.leak_api import LeakSuite, check_asked
from feedrate.measure import second_pass
from feedrate.measure.asked import asked

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what is a process's own"),
]

TARGETS = Path(__file__).parents[1] / "targets"
FACTORIES = TARGETS / "leak_factories.py"
ITEMS = 2000


@pytest.fixture
def first_pass_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leak_api, "suspects", lambda watch: ())


def check(name: str, epochs: int = 24) -> LeakSuite:
    """Watch a factory's loader; all of the time may be spent on looking, so that it is short."""
    return check_asked(
        asked(f"{FACTORIES}:{name}"),
        epochs=epochs,
        seconds=60.0,
        max_batches=None,
        workers=None,
        loader=None,
        step_ms=None,
        device="cpu",
        seed=0,
        timeout=60.0,
        duty=1.0,
    )


def growth_per_item(suite: LeakSuite, code: str) -> float:
    (finding,) = [each for each in suite.leaks if each.code == code]
    return finding.evidence[0].value


def test_two_hundred_bytes_an_item_in_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_pass, "SECONDS", 2.0)
    suite = check("two_hundred_bytes_in_a_worker")
    # glibc rounds up to 16 bytes, and the list's own pointers come in addition
    (leak,) = suite.leaks
    assert 150 <= growth_per_item(suite, leak.code) <= 300
    assert suite.watch is not None
    line = next(
        number
        for number, text in enumerate(FACTORIES.read_text("utf-8").splitlines(), 1)
        if "self.held.append(" in text
    )
    assert [(each.process, each.line) for each in suite.watch.objects][:1] == [("worker 0", line)]
    assert "held" in " ".join(suite.watch.objects[0].held_by)
    assert {len(look.workers) for look in suite.watch.looks} == {2}


@pytest.mark.usefixtures("first_pass_only")
def test_two_hundred_bytes_an_item_in_the_main_process() -> None:
    suite = check("two_hundred_bytes_in_the_main_process")
    assert 150 <= growth_per_item(suite, "memory.main_step_growth") <= 300
    assert all(not look.workers for look in suite.watch.looks) if suite.watch else False


@pytest.mark.usefixtures("first_pass_only")
def test_ten_kibibytes_an_item_in_workers_that_end_with_the_epoch() -> None:
    suite = check("ten_kibibytes_in_workers_of_one_epoch")
    (leak,) = suite.leaks
    rate = growth_per_item(suite, leak.code)
    assert 0.5 * 10 * 1024 <= rate <= 1.5 * 10 * 1024
    assert suite.watch is not None
    assert len({worker.pid for look in suite.watch.looks for worker in look.workers}) > 2


def test_a_bounded_cache_is_no_leak() -> None:
    suite = check("a_bounded_cache")
    assert suite.leaks == ()


def test_a_loop_that_keeps_nothing_is_no_leak_and_ends_by_itself() -> None:
    suite = check("still", epochs=200)
    assert suite.leaks == ()
    assert suite.watch is not None
    assert suite.watch.complete_epochs < 200
    assert "memory.no_growth" in {each.code for each in suite.findings}


@pytest.mark.usefixtures("first_pass_only")
def test_a_script_is_watched_while_it_trains(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import sys\n"
        f"sys.path.insert(0, {os.fspath(TARGETS)!r})\n"
        "import torch\n"
        "from torch.utils.data import DataLoader\n"
        "from training import Numbers, Trainer\n"
        "torch.set_num_threads(1)\n"
        "trainer, losses = Trainer(), []\n"
        "loader = DataLoader(Numbers(80), batch_size=4)\n"
        "tests = DataLoader(Numbers(8), batch_size=8)\n"
        "for epoch in range(12):\n"
        "    for batch in loader:\n"
        "        trainer.step(batch)\n"
        "        losses.append(bytes(50_000))\n"
        "    trainer.test(tests)\n"
    )
    suite = check_leaks(script, seconds=60.0, epochs=12)
    assert "memory.main_step_growth" in {each.code for each in suite.leaks}
    (run,) = suite.benchmarks[0].runs
    assert run.training_loader == 0
    assert len(run.loaders) == 2


def test_a_factory_that_fails_says_why() -> None:
    with pytest.raises(TargetError, match="no such data"):
        check("breaks")
