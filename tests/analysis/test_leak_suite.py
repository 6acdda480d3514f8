from __future__ import annotations

from typing import Any

import msgspec
import pytest
from watch_builder import GIB, MIB, make_watch, rising

from builders import make_benchmark, make_facts, make_suite
from feedrate.analysis.checklist import checklist
from feedrate.analysis.leak_suite import grows, judge_leaks
from feedrate.analysis.memory_table import memory_table, totals
from feedrate.memory_records import (
    MemoryLook,
    MemoryReading,
    MemoryRoom,
    MemoryWatch,
    ProcessReading,
)
from feedrate.records import DevicePeaks, Finding, LoaderUse, RunError, Suite, Window


def use(number: int = 0, **fields: Any) -> LoaderUse:
    facts = fields.pop("facts", make_facts(2))
    values = {"file": "train.py", "line": 7, "epochs": 12, "complete_epochs": 12} | fields
    return LoaderUse(
        number=number,
        facts=facts,
        batches=values.pop("batches", 120),
        optimizer_steps=0,
        **values,
    )


def window(*, wait: float = 0.5, step: float = 9.5) -> Window:
    return Window(
        level=2,
        batches=120,
        items=12_000,
        seconds=wait + step,
        wait_seconds=wait,
        step_seconds=step,
        phase="own",
    )


def suite(watch: MemoryWatch | None = None, **run: Any) -> Suite:
    fields = {
        "loaders": (use(),),
        "training_loader": 0,
        "windows": (window(),),
        "facts": make_facts(2),
        "epochs": (),
        "memory": (),
    } | run
    made = make_suite(
        [make_benchmark(2, [100.0], run_fields=fields)],
        kind="leaks",
        watch=watch or make_watch(epochs=12),
    )
    return msgspec.structs.replace(made, findings=judge_leaks(made))


def codes(made: Suite) -> dict[str, Finding]:
    return {finding.code: finding for finding in made.findings}


def test_a_watch_in_which_nothing_grows_has_no_leak() -> None:
    found = codes(suite())
    assert "memory.no_growth" in found
    assert not [finding for finding in found.values() if grows(finding)]


def test_a_leak_comes_first() -> None:
    made = suite(make_watch(epochs=12, worker=rising(20 * MIB)))
    assert grows(made.findings[0])
    assert made.findings[0].code == "memory.worker_growth"


def test_an_iterator_for_every_batch_is_told() -> None:
    found = codes(suite(loaders=(use(epochs=40, batches=40, complete_epochs=0),)))
    finding = found["speed.iterator_per_step"]
    assert "every batch" in finding.title
    assert not grows(finding)


@pytest.mark.parametrize(
    "fields",
    [
        {"epochs": 40, "batches": 40, "facts": make_facts(2, length=1)},
        {"epochs": 40, "batches": 400},
        {"epochs": 3, "batches": 3},
    ],
)
def test_short_epochs_are_no_new_iterators(fields: dict[str, Any]) -> None:
    assert "speed.iterator_per_step" not in codes(suite(loaders=(use(**fields),)))


def with_others(watch: MemoryWatch, held: int) -> MemoryWatch:
    others = tuple(
        ProcessReading(pid=pid, memory=MemoryReading(rss=GIB, uss=held)) for pid in (901, 902)
    )

    def changed(look: MemoryLook) -> MemoryLook:
        return msgspec.structs.replace(look, others=others)

    return msgspec.structs.replace(watch, looks=tuple(map(changed, watch.looks)))


KEPT = use(1, facts=make_facts(2, persistent_workers=True), line=9)


def test_workers_that_another_loader_keeps_are_told_with_what_they_hold() -> None:
    made = suite(with_others(make_watch(epochs=12), 50 * MIB), loaders=(use(), KEPT))
    finding = codes(made)["memory.idle_workers"]
    assert "train.py:9" in finding.title
    assert "100 MiB" in finding.title
    assert "persistent_workers" in finding.remedy
    assert not grows(finding)


def test_idle_workers_that_hold_little_or_belong_to_nobody_are_no_finding() -> None:
    watch = make_watch(epochs=12)
    assert "memory.idle_workers" not in codes(suite(with_others(watch, MIB), loaders=(use(), KEPT)))
    assert "memory.idle_workers" not in codes(suite(with_others(watch, GIB)))


def test_no_other_processes_are_told_as_workers_of_a_loader() -> None:
    """A pool of torch.compile's, and what the program forked itself."""
    held = MemoryReading(rss=GIB, uss=50 * MIB)
    idle = [ProcessReading(pid=pid, memory=held) for pid in (901, 902)]
    pool = [
        ProcessReading(pid=pid, memory=MemoryReading(rss=GIB, uss=GIB), program="compile_worker")
        for pid in range(910, 942)
    ]
    forked = ProcessReading(pid=950, memory=MemoryReading(rss=GIB))

    def among(*others: ProcessReading) -> dict[str, Finding]:
        watch = make_watch(epochs=12)
        looks = [msgspec.structs.replace(look, others=others) for look in watch.looks]
        watch = msgspec.structs.replace(watch, looks=tuple(looks))
        return codes(suite(watch, loaders=(use(), KEPT)))

    title = among(*idle, *pool, forked)["memory.idle_workers"].title
    assert title.startswith("2 workers of another loader")
    assert "100 MiB" in title
    assert "memory.idle_workers" not in among(*pool)


def test_what_idle_workers_hold_is_told_by_the_looks_that_went_so_deep() -> None:
    watch = with_others(make_watch(epochs=12), 50 * MIB)
    shallow = ProcessReading(pid=901, memory=MemoryReading(rss=GIB))

    def quick(look: MemoryLook) -> MemoryLook:
        return msgspec.structs.replace(look, others=(shallow, *look.others[1:]))

    looks = (*watch.looks[:-2], *map(quick, watch.looks[-2:]))
    made = suite(msgspec.structs.replace(watch, looks=looks), loaders=(use(), KEPT))
    assert "100 MiB" in codes(made)["memory.idle_workers"].title, "and not its RSS"
    none = tuple(msgspec.structs.replace(look, others=(shallow,)) for look in watch.looks)
    made = suite(msgspec.structs.replace(watch, looks=none), loaders=(use(), KEPT))
    assert "memory.idle_workers" not in codes(made)


def deep(prefetch: int, batch: int = 12 * MIB) -> LoaderUse:
    return use(facts=make_facts(2, prefetch_factor=prefetch, batch_bytes=batch))


def test_a_deep_queue_that_the_loop_does_not_need_is_told() -> None:
    finding = codes(suite(loaders=(deep(8),), windows=(window(wait=0.1),)))["memory.prefetch_queue"]
    assert "192 MiB" in finding.title
    assert "prefetch_factor" in finding.remedy


@pytest.mark.parametrize(
    ("loader", "wait"), [(deep(8), 5.0), (deep(2), 0.1), (deep(8, batch=MIB), 0.1)]
)
def test_a_queue_that_is_needed_usual_or_small_is_none(loader: LoaderUse, wait: float) -> None:
    found = codes(suite(loaders=(loader,), windows=(window(wait=wait),)))
    assert "memory.prefetch_queue" not in found


def test_a_queue_that_takes_most_of_the_memory_is_told_at_any_depth() -> None:
    watch = make_watch(epochs=12, room=MemoryRoom(memory=GIB))
    found = codes(suite(watch, loaders=(deep(2, batch=400 * MIB),), windows=(window(wait=5.0),)))
    assert "memory.prefetch_queue" in found


def test_the_checklist_has_a_figure_for_each_question() -> None:
    device = DevicePeaks(name="GPU", utilization=0.31)
    answers = {each.question: each for each in checklist(suite(device=device))}
    assert answers["memory grows per epoch?"].answer == "no, over 12 epochs"
    assert answers["device utilization above half?"].answer == "no: 31 %"
    assert answers["workers dying?"].answer == "no: none of 2"
    assert "5 %" in answers["items made efficiently?"].answer
    assert answers["workers kept between epochs?"].is_good


def test_what_is_counted_is_told_as_what_it_is() -> None:
    made = suite(make_watch(main_threads=rising(5, 9)))
    made = msgspec.structs.replace(made, findings=judge_leaks(made))
    answer = checklist(made)[0]
    assert answer.answer == "threads of the main process grow: 5 an epoch"
    assert answer.is_good is False


def test_the_checklist_of_a_run_that_went_wrong() -> None:
    watch = make_watch(epochs=12, worker=rising(20 * MIB, 50 * MIB), persistent=False)
    error = RunError(kind="worker_died", sentence="worker 1 died")
    made = suite(watch, error=error, windows=(window(wait=5.0),))
    answers = {each.question: each.is_good for each in checklist(made)}
    assert answers["memory grows per epoch?"] is not True
    assert answers["workers dying?"] is False
    assert answers["items made efficiently?"] is False
    assert answers["workers kept between epochs?"] is False
    assert answers["device utilization above half?"] is None


def test_a_loop_without_a_step_waits_all_its_time_and_that_says_nothing() -> None:
    # of 40 µs a batch 4 µs pass between two of them: a tenth of the time, and no step
    made = suite(windows=(window(wait=120 * 36e-6, step=120 * 4e-6),))
    answers = {each.question: each for each in checklist(made)}
    assert answers["items made efficiently?"].is_good is None
    assert "without a step" in answers["items made efficiently?"].answer


def dying(watch: MemoryWatch, **facts: Any) -> Any:
    made = suite(watch, loaders=(use(facts=make_facts(2, **facts)),))
    return next(each for each in checklist(made) if each.question == "workers dying?")


def one_leaves(*, replaced: bool = False, persistent: bool = True) -> MemoryWatch:
    """Of two workers one is gone from the fifth look of the second epoch on to the epoch's end."""
    watch = make_watch(epochs=12, persistent=persistent)

    def looks(look: MemoryLook) -> MemoryLook:
        if look.epoch != 1 or look.phase < 0.5:
            return look
        new = msgspec.structs.replace(look.workers[1], pid=9999)
        return msgspec.structs.replace(look, workers=(look.workers[0], *((new,) * replaced)))

    return msgspec.structs.replace(watch, looks=tuple(map(looks, watch.looks)))


def test_workers_that_vanish_within_an_epoch_are_told() -> None:
    assert dying(one_leaves()).answer == "yes: 1 worker vanished"
    assert dying(one_leaves(), iterable=True).answer == "yes: 1 worker vanished"


def test_workers_whose_part_of_a_stream_is_done_are_not_dying() -> None:
    """torch ends them, where they do not stay for the next epoch."""
    assert dying(one_leaves(persistent=False), iterable=True).answer == "no: none of 2"


def test_workers_that_feedrate_lets_go_are_not_dying_and_those_that_it_replaces_are() -> None:
    let_go = dying(one_leaves(), loader="feedrate")
    assert let_go.is_good is None
    assert let_go.answer.startswith("not known: 1 worker left")
    assert dying(one_leaves(replaced=True), loader="feedrate").answer == "yes: 1 worker vanished"


def test_workers_of_an_iterator_that_is_kept_have_not_vanished() -> None:
    watch = make_watch(epochs=12)
    looks = [
        msgspec.structs.replace(look, workers=look.workers[n % 2 :][:1], others=look.workers)
        for n, look in enumerate(watch.looks)
    ]
    assert dying(msgspec.structs.replace(watch, looks=tuple(looks))).is_good


def test_the_table_has_first_last_and_slope_of_each_process() -> None:
    watch = make_watch(epochs=12, main=rising(10 * MIB, 300 * MIB))
    rows = memory_table(watch)
    assert [row.name for row in rows] == ["main", "worker 0", "worker 1"]
    uss = rows[0].amounts[3]
    assert (uss.first, uss.last) == (300.0 * MIB, 420.0 * MIB)
    assert uss.slope == pytest.approx(10 * MIB)
    assert rows[1].amounts[3].slope == pytest.approx(0)


def test_many_workers_and_those_of_one_epoch_have_one_mean_row() -> None:
    many = make_watch(epochs=4, workers=6)
    assert [row.name for row in memory_table(many)] == ["main", "6 workers"]
    assert len(memory_table(many, every=True)) == 7
    new = make_watch(epochs=4, persistent=False)
    assert [row.name for row in memory_table(new)] == ["main", "2 workers"]
    assert len(memory_table(make_watch(epochs=4, workers=0))) == 1


def test_what_the_platform_does_not_tell_is_left_empty() -> None:
    watch = make_watch(epochs=4, workers=0)
    bare = [
        msgspec.structs.replace(
            look, main=ProcessReading(pid=1, memory=MemoryReading(rss=look.main.memory.rss))
        )
        for look in watch.looks
    ]
    watch = msgspec.structs.replace(watch, looks=tuple(bare))
    _, rss, pss, *_ = memory_table(watch)[0].amounts
    assert rss.first is not None
    assert (pss.first, pss.slope) == (None, None)
    assert totals(watch).pss is None


def test_no_epoch_that_ended_gives_no_slope() -> None:
    watch = make_watch(epochs=1, complete_epochs=0)
    assert all(each.slope is None for row in memory_table(watch) for each in row.amounts)
