"""The checks of a target on facts that are made up: what each finds, and what it leaves alone."""

from __future__ import annotations

import msgspec
import pytest

from doctor.machines import make_machine
from doctor.target_builders import found_in, make_duel, make_items, make_setup, make_target
from doctor.target_faults import FAULTS, QUIET, stream
from feedrate.doctor.checks import DoctorFacts, run_checks
from feedrate.doctor.target_checks import CHECKS
from feedrate.doctor.target_facts import TargetFacts, collect
from feedrate.measure.examined import BadItem, Broken, OddItem, Untried
from feedrate.records import RunError


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_alone_and_with_its_weight(name: str) -> None:
    make, code, severity = FAULTS[name]
    found = found_in(make())
    assert {each: finding.severity for each, finding in found.items()} == {code: severity}
    finding = found[code]
    assert finding.severity == "info" or finding.remedy
    assert finding.severity == "info" or finding.evidence or code == "crash.no_main_guard"


@pytest.mark.parametrize("name", QUIET)
def test_what_is_harmless_is_left_alone(name: str) -> None:
    assert found_in(QUIET[name]()) == {}


def broken(sentence: str, traceback: str = "", codes: tuple[int, ...] = ()) -> Broken:
    return Broken(
        error=RunError(kind="exception", sentence=sentence, traceback=traceback),
        batches=4,
        exit_codes=codes,
    )


def test_a_failure_is_explained_by_the_catalogue_and_names_the_item() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "train.py", line 3, in <module>\n'
        "RuntimeError: DataLoader worker (pid 77) is killed by signal: Segmentation fault. \n"
    )
    target = make_target(
        broken=broken("a worker died", text, (-11,)),
        bad_item=BadItem(index=37, end="died", headline="SIGSEGV", text="SIGSEGV"),
    )
    finding = found_in(target)["crash.worker_segfault"]
    assert "item 37" in finding.title
    assert "batch 4 of worker 0 (items 32 to 39)" in finding.title
    assert finding.severity == "error"
    assert [item.value for item in finding.evidence if item.name == "item at fault"] == [37.0]


def test_items_that_do_not_fit_together_are_named_with_their_shapes() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "train.py", line 3, in <module>\n'
        "RuntimeError: stack expects each tensor to be equal size, but got [10] at entry 0 and "
        "[13] at entry 1\n"
    )
    odd = OddItem(index=17, path="item", first="[10]", found="[13]")
    target = make_target(broken=broken("it failed", text), items=make_items(odd=odd))
    finding = found_in(target)["crash.collate_size"]
    assert "item 17" in finding.title
    assert "[13]" in finding.title


def test_an_error_of_the_users_own_is_told_in_its_own_words() -> None:
    sentence = "the dataset raised ValueError: no label (data.py, line 9, in __getitem__)"
    finding = found_in(make_target(broken=broken(sentence)))["crash.exception"]
    assert finding.title == sentence


def test_what_ends_the_child_is_a_finding_too() -> None:
    error = RunError(kind="target", sentence="the target's function raised OSError: no disk")
    finding = found_in(TargetFacts(target="x", error=error))["crash.exception"]
    assert "no disk" in finding.title


def test_a_script_that_hangs_before_its_first_batch_is_told_by_its_stacks() -> None:
    waits = "".join(
        f'  File "/opt/torch/utils/data/dataloader.py", line {line} in {name}\n'
        for line, name in ((1294, "_try_get_data"), (1467, "_get_data"), (741, "__next__"))
    )
    stands = (
        '  File "/home/user/photos.py", line 7 in __getitem__\n'
        '  File "/opt/torch/utils/data/_utils/fetch.py", line 54 in fetch\n'
        '  File "/opt/torch/utils/data/_utils/worker.py", line 358 in _worker_loop\n'
    )
    head = "Current thread 0x00007f0000000000 (most recent call first):\n"
    text = f"Worker 1 of 1:\n{head}{stands}\nMain process:\n{head}{waits}"
    error = RunError(kind="timeout", sentence="it was not through after 27.5 s", traceback=text)
    finding = found_in(TargetFacts(target="train.py", error=error))["crash.worker_stuck"]
    assert finding.severity == "warning"
    assert finding.title.startswith(
        "no batch came before the time was up: a worker stands in __getitem__ (photos.py, line 7)"
    )
    alone = RunError(kind="timeout", sentence="it was not through", traceback=f"{head}{waits}")
    assert found_in(TargetFacts(target="train.py", error=alone)).keys() == {"doctor.no_time"}


def test_ctrl_c_is_no_finding() -> None:
    error = RunError(kind="interrupted", sentence="interrupted by Ctrl-C")
    assert found_in(TargetFacts(target="x", error=error)) == {}


def test_a_length_that_is_not_kept_is_found_in_streams() -> None:
    target = stream((60, 60))
    assert target.setup is not None
    facts = msgspec.structs.replace(target.setup.facts, dataset_length=100)
    setup = msgspec.structs.replace(target.setup, facts=facts)
    assert found_in(msgspec.structs.replace(target, setup=setup)).keys() == {
        "correctness.wrong_len"
    }


def test_nothing_is_found_without_a_target() -> None:
    findings, fine = run_checks(CHECKS, DoctorFacts(make_machine()))
    assert (findings, fine) == ((), ())


def test_what_is_fine_is_told_with_figures() -> None:
    _, fine = run_checks(CHECKS, DoctorFacts(make_machine(), make_target()))
    seen = {each.name: each.seen for each in fine}
    assert seen["pickling"] == "1.95 KiB in 1.00 ms, for each worker"
    assert seen["speed"] == "400 items/s; the loop waits 5 % of the time"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nothing wrong", "kept less than 2.00 KiB an item in a container"),
        ("bounded cache", "stopped growing at"),
        ("small cache", "4.00 KiB an item are kept, which is little for all items"),
    ],
)
def test_what_reading_keeps_is_told_as_it_was_seen(name: str, says: str) -> None:
    _, fine = run_checks(CHECKS, DoctorFacts(make_machine(), QUIET[name]()))
    assert says in {each.name: each.seen for each in fine}["what reading items keeps"]


def test_what_was_not_tried_is_told_with_the_reason() -> None:
    target = make_target(untried=(Untried(what="more (16)", why="the time was up"),))
    findings, fine = run_checks(CHECKS, DoctorFacts(make_machine(), target))
    assert findings == ()
    assert {each.name: each.seen for each in fine}["not tried"] == "more (16): the time was up"


def test_parts_are_collected_by_kind() -> None:
    untried = Untried(what="items", why="the time was up")
    first, second = make_duel("fewer", 2, 1.0), make_duel("more", 8, 1.0)
    facts = collect("x", [make_setup(), first, untried, second, make_items()], ranks=2)
    assert facts.duels == (first, second)
    assert facts.untried == (untried,)
    assert (facts.setup, facts.items, facts.ranks) == (make_setup(), make_items(), 2)
    assert facts.duel("more") is second
    assert facts.duel("kept") is None
