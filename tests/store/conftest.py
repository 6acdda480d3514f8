"""A suite in which every record type and every optional field occurs at least once."""

from __future__ import annotations

import pytest

from builders import make_facts
from feedrate.memory_records import MemoryReading, MemorySnapshot, MemoryWatch
from feedrate.records import (
    Benchmark,
    Choice,
    DevicePeaks,
    Epoch,
    Evidence,
    Finding,
    LoaderUse,
    LookedAt,
    Metadata,
    Peaks,
    Procedure,
    Recommendation,
    Run,
    RunError,
    Suite,
    Window,
)
from feedrate.settings import LoaderSettings

MIB = 2**20


def _epoch(waits: tuple[float, ...], steps: tuple[float, ...], complete: bool = True) -> Epoch:
    begin, end = 0.25, 0.125
    return Epoch(
        seconds=begin + sum(waits) + sum(steps) + end,
        items=32 * len(waits),
        batches=len(waits),
        wait_seconds=begin + sum(waits) + end,
        step_seconds=sum(steps),
        begin_seconds=begin,
        end_seconds=end,
        batch_waits=waits,
        batch_steps=steps,
        complete=complete,
        main_cpu_seconds=0.5,
        worker_cpu_seconds=1.5 if complete else None,
    )


@pytest.fixture
def rich_suite() -> Suite:
    facts = make_facts(
        dataset_length=96,
        length=3,
        batch_size=32,
        pin_memory=True,
        batch_bytes=18 * MIB,
        left_out=("timeout: there are no workers to wait for",),
    )
    reading = MemoryReading(
        rss=400 * MIB,
        pss=300 * MIB,
        uss=200 * MIB,
        anonymous=150 * MIB,
        private_dirty=140 * MIB,
        shared_dirty=60 * MIB,
        pss_file=40 * MIB,
        pss_shmem=20 * MIB,
    )
    measured = Run(
        position=1,
        repeat=0,
        setup_seconds=2.5,
        startup_seconds=0.75,
        seconds=9.25,
        other_cpu_seconds=0.0625,
        facts=facts,
        epochs=(
            _epoch((0.5, 0.03125, 0.0625), (0.25, 0.25, 0.25)),
            _epoch((0.125, 0.0), (0.25, 0.25), complete=False),
        ),
        windows=(Window(level=2, batches=4, items=128, seconds=1.125),),
        choices=(Choice(level=2, prefetch=2, reason="2 workers keep up"),),
        loaders=(
            LoaderUse(
                number=0,
                file="train.py",
                line=12,
                facts=facts,
                epochs=2,
                complete_epochs=1,
                batches=5,
                optimizer_steps=5,
            ),
        ),
        training_loader=0,
        memory=(
            MemorySnapshot(
                at=1.5,
                main=reading,
                workers=reading,
                worker_count=2,
                shm_bytes=72 * MIB,
                main_descriptors=40,
                worker_descriptors=61,
            ),
            MemorySnapshot(
                at=3.0,
                main=MemoryReading(rss=410 * MIB),
                workers=None,
                worker_count=0,
                shm_bytes=None,
                main_descriptors=None,
                worker_descriptors=None,
            ),
        ),
        peaks=Peaks(
            memory_kind="pss",
            main_bytes=310 * MIB,
            worker_bytes=420 * MIB,
            total_bytes=730 * MIB,
            workers=2,
            shm_bytes=72 * MIB,
            main_descriptors=42,
            worker_descriptors=64,
        ),
        device=DevicePeaks(
            name="NVIDIA H200",
            allocated_bytes=512 * MIB,
            reserved_bytes=640 * MIB,
            utilization=0.375,
        ),
    )
    failed = Run(
        position=2,
        repeat=0,
        error=RunError(
            kind="worker_died",
            sentence="a worker was killed by signal 9",
            traceback='Traceback (most recent call last):\n  File "photos.py", line 7\n',
            exit_code=-9,
        ),
    )
    return Suite(
        kind="bench",
        metadata=Metadata(
            feedrate_version="0.1.0",
            python_version="3.11.7",
            os="Linux 6.1",
            cpu="Xeon – 2,1 GHz",
            logical_cpus=8,
            usable_cpus=1.5,
            usable_cpus_from="cgroup quota",
            ram_bytes=16384 * MIB,
            memory_limit_bytes=4096 * MIB,
            shm_bytes=64 * MIB,
            target="photos.py:make_loader",
            argv=("feedrate", "bench", "photos.py:make_loader", "--workers", "0,2"),
            seed=7,
            started_at="2026-11-29T14:33:33.123+00:00",
            torch_version="2.14.1",
            torchvision_version="0.29.1",
            numpy_version="2.3.5",
            accelerator="NVIDIA H200",
            default_start_method="fork",
        ),
        procedure=Procedure(
            epochs=2,
            repeats=1,
            max_batches=3,
            step_seconds=0.25,
            device="cuda",
            timeout_seconds=120.0,
            tolerance=0.05,
            plan_epochs=4,
        ),
        benchmarks=(
            Benchmark(
                label="0 workers",
                settings=LoaderSettings(num_workers=0, pin_memory=False, batch_size=32),
                condition="light",
                left_out=("prefetch_factor: there are no workers to prefetch",),
                runs=(Run(position=0, repeat=0, epochs=(_epoch((0.5,), (0.25,)),)),),
            ),
            Benchmark(
                label="2 workers",
                settings=LoaderSettings(
                    num_workers=2,
                    prefetch_factor=2,
                    pin_memory=True,
                    persistent_workers=True,
                    start_method="fork",
                    batch_size=32,
                ),
                condition="light",
                part="repeated",
                runs=(measured, failed),
            ),
            Benchmark(
                label="64 workers",
                settings=LoaderSettings(num_workers=64),
                skipped="needs about 2.2 GiB in /dev/shm, and 64 MiB are free",
            ),
        ),
        findings=(
            Finding(
                code="plateau",
                severity="info",
                title="more than 2 workers gain less than 3 %",
                evidence=(
                    Evidence(name="gain", value=1.0125, unit="ratio", low=0.99, high=1.03),
                    Evidence(name="workers", value=2.0, unit="count"),
                ),
                remedy="set num_workers=2",
                condition="light",
            ),
            Finding(code="busy", severity="warning", title="the machine was busy"),
        ),
        recommendation=Recommendation(
            settings=LoaderSettings(num_workers=2, prefetch_factor=4),
            reasons=("2 workers reach the plateau",),
        ),
        looked_at=(LookedAt(name="memory", seen="4.00 GiB of memory can be taken now"),),
        watch=MemoryWatch(looks=(), complete_epochs=0, num_workers=2),
    )
