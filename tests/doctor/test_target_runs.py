"""Targets that are really examined: each fault is found with its item or attribute, and healthy
loaders are left alone. In this process where nothing can go wrong with it, else in a child.
"""

from __future__ import annotations

import importlib
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from doctor.machines import make_machine
from feedrate.doctor.checks import DoctorFacts, run_checks
from feedrate.doctor.target_checks import CHECKS
from feedrate.doctor.target_facts import TargetFacts
from feedrate.doctor.target_session import gather
from feedrate.measure import wire
from feedrate.measure.asked import asked
from feedrate.measure.executor import OnMessage, Outcome
from feedrate.measure.observer import Observer
from feedrate.records import Finding
from torch_signals import torchs_handler_comes_back

__all__ = ["torchs_handler_comes_back"]
pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),  # of machines with few CPUs
]
TARGETS = Path(__file__).parents[1] / "targets"
BUDGET = 12.0
IN_CHILD = 60.0
"""Where a child is started: it is done long before, unless the machine is busy."""


class Here:
    """Examines in this process: starting another one and importing torch takes longer."""

    def execute(self, spec: wire.ChildSpec, *, timeout: float, on_message: OnMessage) -> Outcome:
        from feedrate.measure.examining.running import examine_factory

        place, _, name = spec.target.rpartition(":")
        module = importlib.import_module(Path(place).stem)
        assert isinstance(spec.session, wire.Examine)
        step = getattr(module, spec.step) if spec.step else None
        # what is tried does not depend on how busy the machine is
        session = msgspec.structs.replace(spec.session, until=time.time() + 10 * BUDGET)
        observer, began = Observer(), time.monotonic()
        examine_factory(session, on_message, getattr(module, name)(), step)
        observer.close()
        others = observer.other_cpu_seconds()
        return Outcome(seconds=time.monotonic() - began, other_cpu_seconds=others)


@pytest.fixture(autouse=True)
def _modules_and_signals_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(TARGETS))
    before = signal.getsignal(signal.SIGCHLD)
    yield
    signal.signal(signal.SIGCHLD, before)
    for name in ("doctor_faults", "doctor_healthy"):
        sys.modules.pop(name, None)


def examined(
    name: str, step: str | None = None, *, here: bool = True
) -> tuple[TargetFacts, dict[str, Finding]]:
    file, function = name.split(":")
    target = asked(f"{TARGETS / file}.py:{function}", step)
    budget = BUDGET if here else IN_CHILD
    executor = Here() if here else None
    facts = gather(target, machine=make_machine(), budget=budget, executor=executor)
    findings, _ = run_checks(CHECKS, DoctorFacts(make_machine(), facts))
    return facts, {finding.code: finding for finding in findings}


@pytest.mark.parametrize(
    ("name", "code", "word"),
    [
        ("segfault", "crash.worker_segfault", "item 37"),
        ("ragged", "crash.collate_size", "item 17"),
        ("masked", "crash.exception_masked", "item 5"),
        ("too_long", "correctness.wrong_len", "item 63"),
        ("seed_of_epochs", "correctness.same_seed_each_epoch", "constant_seed"),
        ("seed_of_workers", "correctness.rng_copied", "random"),
        ("repeats", "correctness.iterable_duplicates", "200"),
        ("drops_per_worker", "correctness.drop_last_per_worker", "56"),
        ("few_shards", "speed.shard_imbalance", "2 of 4 workers"),
    ],
)
def test_a_fault_is_found(name: str, code: str, word: str) -> None:
    # torch raises at any moment in the process whose worker has crashed
    facts, found = examined(f"doctor_faults:{name}", here=name != "segfault")
    assert code in found, (found.keys(), facts.untried, facts.error)
    assert word in found[code].title
    assert (found[code].severity == "info") == (code == "speed.shard_imbalance")


def test_several_faults_of_one_dataset_are_all_found() -> None:
    facts, found = examined("doctor_faults:many_faults", here=False)
    for code, word in (
        ("correctness.rng_copied", "dataset.rng"),
        ("correctness.stale_worker_state", "dataset.epoch"),
        ("memory.dataset_cache_growth", "dataset.cache"),
        ("memory.fd_growth_worker", "1 open files an item"),
        ("memory.cow_growth", "dataset.rows"),
        ("risk.handle_shared_over_fork", "dataset.file"),
    ):
        assert code in found, (code, found.keys(), facts.untried)
        assert word in found[code].title
        assert found[code].severity == "warning"
    assert found["crash.not_picklable"].severity == "info"
    assert "dataset.file" in found["crash.not_picklable"].title
    assert "dataset.scale" in found["crash.not_picklable"].title


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("tensors", None),
        ("augmented", "step"),
        ("augmented_kept", "step"),
        ("bounded_cache", "step"),
        ("shards", "step"),
        ("lazy", "step"),
        ("bound_by_step", "step"),
    ],
)
def test_nothing_is_found_on_a_healthy_loader(name: str, step: str | None) -> None:
    facts, found = examined(f"doctor_healthy:{name}", step)
    assert found == {}
    assert facts.error is None
    assert facts.loop is not None


def test_what_cannot_be_sent_to_a_spawned_worker_is_named_by_a_child() -> None:
    facts, found = examined("doctor_faults:lambda_under_spawn", here=False)
    assert found.keys() == {"crash.not_picklable"}, facts
    assert found["crash.not_picklable"].severity == "error"
    assert "dataset.function (a lambda)" in found["crash.not_picklable"].title


def test_a_target_that_fails_before_it_has_a_loader_is_a_finding() -> None:
    _, found = examined("doctor_faults:fails_to_load", here=False)
    assert "there is no /data/train" in found["crash.exception"].title


def test_a_script_is_examined_in_its_own_loop(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(TARGETS)!r})\n"
        "import itertools\n"
        "import torch\n"
        "from doctor_faults import levels\n"
        "loader = levels()\n"
        "optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))])\n"
        "for loader.dataset.level in itertools.count():\n"
        "    for batch in loader:\n"
        "        optimizer.step()\n"
    )
    facts = gather(asked(str(script)), machine=make_machine(), budget=IN_CHILD)
    findings, _ = run_checks(CHECKS, DoctorFacts(make_machine(), facts))
    found = {finding.code: finding.title for finding in findings}
    assert "dataset.level, which the script changes for each epoch, stays as it was" in found.get(
        "correctness.stale_worker_state", ""
    ), facts
    assert facts.loop is not None
    assert facts.error is None
