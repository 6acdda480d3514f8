"""Real children that leak a known amount, and some that do not: the verdict from end to end."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec
import pytest

from feedrate import check_leaks, leak_api
from feedrate.analysis.standing import standing
from feedrate.analysis.watched import watched_run
from feedrate.errors import TargetError
from feedrate.leak_api import LeakSuite, check_asked
from feedrate.measure import second_pass
from feedrate.measure.asked import asked
from feedrate.memory_records import MemoryRoom

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


def check(name: str, epochs: int = 24, max_batches: int | None = None) -> LeakSuite:
    """Watch a factory's loader; all of the time may be spent on looking, so that it is short."""
    return check_asked(
        asked(f"{FACTORIES}:{name}"),
        epochs=epochs,
        seconds=60.0,
        max_batches=max_batches,
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


@pytest.mark.usefixtures("first_pass_only")
def test_threads_that_nobody_ends_are_told_and_not_the_memory_that_they_take() -> None:
    suite = check("threads_that_nobody_ends")
    (leak,) = suite.leaks
    assert leak.code == "memory.thread_growth_main"
    assert growth_per_item(suite, leak.code) == pytest.approx(8 / ITEMS, rel=0.2)


def test_a_bounded_cache_is_no_leak() -> None:
    suite = check("a_bounded_cache")
    assert suite.leaks == ()


def test_a_loop_that_keeps_nothing_is_no_leak_and_ends_by_itself() -> None:
    suite = check("still", epochs=200)
    assert suite.leaks == ()
    assert suite.watch is not None
    assert suite.watch.complete_epochs < 200
    assert "memory.no_growth" in {each.code for each in suite.findings}


def script_with(tmp_path: Path, *lines: str) -> Path:
    """Write a script that has a trainer and a loader, and goes on with the lines."""
    script = tmp_path / "train.py"
    script.write_text(
        "import sys\n"
        f"sys.path.insert(0, {os.fspath(TARGETS)!r})\n"
        "import torch\n"
        "from torch.utils.data import DataLoader\n"
        "from training import Numbers, Trainer\n"
        "torch.set_num_threads(1)\n"
        "trainer, kept = Trainer(), []\n"
        "loader = DataLoader(Numbers(80), batch_size=4)\n" + "".join(f"{line}\n" for line in lines)
    )
    return script


@pytest.mark.usefixtures("first_pass_only")
def test_a_script_is_watched_while_it_trains(tmp_path: Path) -> None:
    script = script_with(
        tmp_path,
        "tests = DataLoader(Numbers(8), batch_size=8)",
        "for epoch in range(12):",
        "    for batch in loader:",
        "        trainer.step(batch)",
        "        kept.append(bytes(50_000))",
        "    trainer.test(tests)",
    )
    suite = check_leaks(script, seconds=60.0, epochs=12)
    assert "memory.main_step_growth" in {each.code for each in suite.leaks}
    (run,) = suite.benchmarks[0].runs
    assert run.training_loader == 0
    assert len(run.loaders) == 2


def told(suite: LeakSuite) -> dict[str, str]:
    return {finding.code: finding.title for finding in suite.findings}


@pytest.mark.usefixtures("first_pass_only")
def test_a_deep_queue_and_a_long_list_of_indices() -> None:
    suite = check("a_deep_queue_of_shuffled_frames", epochs=1, max_batches=10)
    assert "2,500,000 indices" in told(suite)["memory.sampler_list"]
    run = watched_run(suite)
    assert run is not None
    assert suite.watch is not None
    tight = msgspec.structs.replace(suite.watch, room=MemoryRoom(shm=64 * 2**20))
    titles = {each.code: each.title for each in standing(run, tight)}
    # 2 workers × 8 batches of 9 half mebibytes
    assert "72.0 MiB" in titles["memory.prefetch_queue"]
    assert "of the 136 MiB of /dev/shm" in titles["memory.prefetch_queue"]


@pytest.mark.usefixtures("first_pass_only")
def test_workers_of_a_validation_that_stay_are_told(tmp_path: Path) -> None:
    lines = (
        "def hold(worker):",
        "    kept.append(bytearray(20 * 2**20))",
        "others = DataLoader(Numbers(8), batch_size=4, num_workers=1, worker_init_fn=hold,",
        "                    persistent_workers=True)",
        "for epoch in range(3):",
        "    trainer.test(others)",
        "    for batch in loader:",
        "        trainer.step(batch)",
    )
    title = told(check_leaks(script_with(tmp_path, *lines), epochs=3))["memory.idle_workers"]
    assert title.startswith("1 worker of another loader")


@pytest.mark.usefixtures("first_pass_only")
def test_iterators_that_are_kept_keep_their_workers(tmp_path: Path) -> None:
    lines = (
        "others = DataLoader(Numbers(80), batch_size=4, num_workers=1)",
        "for epoch in range(14):",
        "    kept.append(iter(others))",
        "    next(kept[-1])",
        "    for batch in loader:",
        "        trainer.step(batch)",
    )
    suite = check_leaks(script_with(tmp_path, *lines), epochs=14)
    assert growth_per_item(suite, "memory.workers_pile_up") == pytest.approx(1 / 80, rel=0.1)


def test_a_factory_that_fails_says_why() -> None:
    with pytest.raises(TargetError, match="no such data"):
        check("breaks")
