from __future__ import annotations

import msgspec
import pytest

from feedrate.memory_records import MemoryReading, MemorySnapshot
from feedrate.plan.need import LEAST_WORKER_BYTES, RAM_SHARE, Need, objection, predict
from feedrate.records import (
    Epoch,
    LoaderFacts,
    Peaks,
    Run,
    RunError,
)
from feedrate.settings import Budget, LoaderSettings

MIB = 2**20
GIB = 2**30

FACTS = LoaderFacts(
    loader_type="DataLoader",
    dataset_type="Photos",
    dataset_length=10_000,
    iterable=False,
    length=100,
    batch_size=100,
    num_workers=1,
    prefetch_factor=None,
    pin_memory=False,
    persistent_workers=False,
    start_method="fork",
    has_step=False,
    batch_bytes=50 * MIB,
)


def facts(**changes: object) -> LoaderFacts:
    return msgspec.structs.replace(FACTS, **changes)


def run(
    *,
    main: int,
    worker: int = 0,
    workers: int = 0,
    loader: LoaderFacts | None = FACTS,
    memory: tuple[MemorySnapshot, ...] = (),
) -> Run:
    peaks = Peaks(
        memory_kind="pss",
        main_bytes=main,
        worker_bytes=worker * workers,
        total_bytes=main + worker * workers,
        workers=workers,
        shm_bytes=None,
        main_descriptors=None,
        worker_descriptors=None,
    )
    return Run(position=0, repeat=0, facts=loader, peaks=peaks, memory=memory)


def snapshot(main: MemoryReading, workers: MemoryReading | None, count: int) -> MemorySnapshot:
    return MemorySnapshot(
        at=1.0,
        main=main,
        workers=workers,
        worker_count=count,
        shm_bytes=None,
        main_descriptors=None,
        worker_descriptors=None,
    )


def need(**parts: int | bool) -> Need:
    defaults: dict[str, int | bool] = {
        "workers": 8,
        "prefetch_factor": 2,
        "batch_bytes": 205 * MIB,
        "main_bytes": 2 * GIB,
        "worker_bytes": 512 * MIB,
        "known": True,
    }
    return Need(**(defaults | parts))  # type: ignore[arg-type]


def test_before_anything_is_measured_nothing_is_known() -> None:
    predicted = predict(LoaderSettings(num_workers=4), ())
    least = 4 * LEAST_WORKER_BYTES
    assert (predicted.ram_bytes, predicted.shm_bytes, predicted.known) == (least, 0, False)


def test_without_workers_the_main_process_is_all() -> None:
    predicted = predict(LoaderSettings(num_workers=0), [run(main=300 * MIB)])
    assert (predicted.ram_bytes, predicted.shm_bytes, predicted.known) == (300 * MIB, 0, True)


def test_workers_that_were_never_measured_are_unknown_but_their_batches_are() -> None:
    predicted = predict(LoaderSettings(num_workers=4), [run(main=300 * MIB)])
    assert predicted.shm_bytes == 4 * 2 * 50 * MIB
    assert predicted.ram_bytes == 300 * MIB + 4 * LEAST_WORKER_BYTES + 4 * 2 * 50 * MIB
    assert not predicted.known


def test_the_largest_of_what_was_measured_counts() -> None:
    previous = [
        run(main=300 * MIB),
        run(main=320 * MIB, worker=80 * MIB, workers=1),
        run(main=310 * MIB, worker=90 * MIB, workers=2),
    ]
    predicted = predict(LoaderSettings(num_workers=4, prefetch_factor=3), previous)
    assert predicted.shm_bytes == 4 * 3 * 50 * MIB
    assert predicted.ram_bytes == 320 * MIB + 4 * 90 * MIB + 4 * 3 * 50 * MIB
    assert predicted.known


def test_the_targets_own_prefetch_factor_counts_where_none_is_set() -> None:
    previous = [run(main=MIB, worker=MIB, workers=1, loader=facts(prefetch_factor=6))]
    assert predict(LoaderSettings(num_workers=2), previous).prefetch_factor == 6
    assert predict(LoaderSettings(num_workers=2, prefetch_factor=1), previous).prefetch_factor == 1


@pytest.mark.parametrize(
    ("batch_size", "dataset_length", "items_ratio"),
    [
        (None, 10_000, 1.0),
        (100, 10_000, 1.0),
        (400, 10_000, 4.0),
        (25, 10_000, 0.25),
        (400, None, 4.0),
        (400, 40, 1.0),  # neither batch is full: both hold the 40 items there are
        (400, 200, 2.0),
    ],
)
def test_a_batch_grows_with_its_items(
    batch_size: int | None, dataset_length: int | None, items_ratio: float
) -> None:
    previous = [run(main=MIB, loader=facts(dataset_length=dataset_length))]
    settings = LoaderSettings(num_workers=1, batch_size=batch_size)
    assert predict(settings, previous).batch_bytes == items_ratio * 50 * MIB


def test_a_loader_that_batches_itself_is_not_scaled() -> None:
    previous = [run(main=MIB, loader=facts(batch_size=None))]
    settings = LoaderSettings(num_workers=1, batch_size=400)
    assert predict(settings, previous).batch_bytes == 50 * MIB


def test_what_forked_workers_share_is_counted_once() -> None:
    """A dataset of 8 GiB, 2 workers with 100 MiB of their own: 8 workers need no 24 GiB."""
    third = 8 * GIB // 3
    shared = snapshot(
        main=MemoryReading(rss=8 * GIB, pss=third, uss=0),
        workers=MemoryReading(rss=16 * GIB, pss=2 * third + 200 * MIB, uss=200 * MIB),
        count=2,
    )
    previous = [run(main=third, worker=third + 100 * MIB, workers=2, memory=(shared,))]
    predicted = predict(LoaderSettings(num_workers=8), previous)
    assert predicted.main_bytes == 3 * third
    assert predicted.worker_bytes == 100 * MIB
    assert predicted.known


def test_without_uss_the_peaks_are_all_there_is() -> None:
    poor = snapshot(
        main=MemoryReading(rss=300 * MIB), workers=MemoryReading(rss=200 * MIB), count=2
    )
    previous = [run(main=300 * MIB, worker=100 * MIB, workers=2, memory=(poor,))]
    predicted = predict(LoaderSettings(num_workers=4), previous)
    assert (predicted.main_bytes, predicted.worker_bytes) == (300 * MIB, 100 * MIB)


def test_spawned_workers_are_not_judged_by_forked_ones() -> None:
    forked = run(main=300 * MIB, worker=20 * MIB, workers=2)
    spawned = run(main=300 * MIB, worker=400 * MIB, workers=1, loader=facts(start_method="spawn"))
    settings = LoaderSettings(num_workers=2, start_method="spawn")
    assert not predict(settings, [forked]).known
    assert predict(settings, [forked, spawned]).worker_bytes == 400 * MIB
    assert predict(settings, [forked, spawned]).known


def test_runs_that_failed_before_the_loader_was_seen_tell_nothing() -> None:
    failed = Run(position=0, repeat=0, error=RunError(kind="crashed", sentence="it crashed"))
    assert predict(LoaderSettings(num_workers=2), [failed]) == predict(
        LoaderSettings(num_workers=2), ()
    )


def test_batches_without_tensors_need_nothing_and_that_is_known() -> None:
    epoch = Epoch(
        seconds=1.0,
        items=1,
        batches=1,
        wait_seconds=1.0,
        step_seconds=0.0,
        begin_seconds=0.0,
        end_seconds=0.0,
        batch_waits=(1.0,),
        batch_steps=(0.0,),
        complete=True,
    )
    measured = run(main=MIB, worker=MIB, workers=1, loader=facts(batch_bytes=0))
    settings = LoaderSettings(num_workers=2)
    assert not predict(settings, [measured]).known
    seen = msgspec.structs.replace(measured, epochs=(epoch,))
    assert predict(settings, [seen]).known
    assert predict(settings, [seen]).shm_bytes == 0


def test_no_objection_where_it_fits_or_no_limit_is_known() -> None:
    assert objection(need(), Budget(cpus=2)) is None
    assert objection(need(), Budget(cpus=2, ram_bytes=64 * GIB, shm_bytes=8 * GIB)) is None


def test_too_much_for_dev_shm() -> None:
    assert objection(need(), Budget(cpus=2, ram_bytes=64 * GIB, shm_bytes=64 * MIB)) == (
        "needs about 3.2 GiB in /dev/shm (8 workers × 2 prefetched × 205 MiB batches), and 64 MiB "
        "are free: use fewer workers, a smaller prefetch_factor or batch, or enlarge /dev/shm"
    )


def test_dev_shm_may_be_filled_to_the_last_byte() -> None:
    full = need().shm_bytes
    assert objection(need(), Budget(cpus=2, shm_bytes=full)) is None
    assert objection(need(), Budget(cpus=2, shm_bytes=full - 1)) is not None


def test_too_much_for_the_memory() -> None:
    assert objection(need(), Budget(cpus=2, ram_bytes=8 * GIB)) == (
        "needs about 9.2 GiB of memory (2.0 GiB in the main process + 8 workers × 512 MiB + "
        "8 workers × 2 prefetched × 205 MiB batches), and 8.0 GiB are free, of which 90% may be "
        "used: use fewer workers, or a smaller prefetch_factor or batch"
    )


def test_the_share_of_the_memory_that_may_be_used() -> None:
    within = int(need().ram_bytes / RAM_SHARE) + 1
    assert objection(need(), Budget(cpus=2, ram_bytes=within)) is None
    assert objection(need(), Budget(cpus=2, ram_bytes=within - 2)) is not None


def test_what_is_partly_known_is_called_at_least() -> None:
    partly = need(workers=1, worker_bytes=0, known=False)
    sentence = objection(partly, Budget(cpus=2, shm_bytes=MIB))
    assert sentence is not None
    assert sentence.startswith(
        "needs at least 410 MiB in /dev/shm (1 worker × 2 prefetched × 205 MiB batches), and "
        "1.0 MiB are free"
    )


def test_without_workers_a_smaller_batch_is_the_way_out() -> None:
    sentence = objection(need(workers=0), Budget(cpus=2, ram_bytes=GIB))
    assert sentence == (
        "needs about 2.0 GiB of memory (2.0 GiB in the main process), and 1.0 GiB are free, of "
        "which 90% may be used: free memory, or use a smaller batch"
    )


def test_a_slip_of_the_finger_is_refused_before_anything_was_measured() -> None:
    refused = predict(LoaderSettings(num_workers=99_999), [])
    assert not refused.known
    sentence = objection(refused, Budget(cpus=8.0, ram_bytes=256 * GIB))
    assert sentence is not None
    assert sentence.startswith("needs at least 390.6 GiB of memory (99999 workers × 4.0 MiB), and ")
    few = predict(LoaderSettings(num_workers=16), [])
    assert objection(few, Budget(cpus=8.0, ram_bytes=GIB)) is None


def test_batches_of_feedrates_loader_need_memory_and_no_dev_shm() -> None:
    seen = [run(main=300 * MIB, worker=50 * MIB, workers=1)]
    torchs, ours = (
        predict(LoaderSettings(num_workers=4, loader=loader), seen)
        for loader in ("torch", "feedrate")
    )
    assert torchs.shm_bytes == 4 * 2 * 50 * MIB
    assert (ours.shm_bytes, ours.ram_bytes) == (0, torchs.ram_bytes)
    little = Budget(cpus=2, ram_bytes=64 * GIB, shm_bytes=MIB)
    assert objection(torchs, little) is not None
    assert objection(ours, little) is None


def test_a_target_that_has_feedrates_loader_itself_needs_no_dev_shm() -> None:
    seen = [run(main=300 * MIB, worker=50 * MIB, workers=1, loader=facts(loader="feedrate"))]
    assert predict(LoaderSettings(num_workers=4), seen).shm_bytes == 0
    assert predict(LoaderSettings(num_workers=4, loader="torch"), seen).shm_bytes > 0
