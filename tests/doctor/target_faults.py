"""Facts with one fault each, and the finding they are to give; and facts with none."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from doctor.target_builders import (
    LEAF,
    make_duel,
    make_growth,
    make_items,
    make_loop,
    make_setup,
    make_target,
)
from feedrate.doctor.target_facts import TargetFacts
from feedrate.measure.examined import (
    BadItem,
    Begun,
    Copies,
    Handle,
    Handles,
    Objects,
    Pickled,
    Randomness,
    Request,
    SamplerCost,
    Stale,
    Starts,
    Stream,
    Unpicklable,
)

MANY = Objects(count=900_000, bytes=60 << 20, whole=True, path="dataset.rows", path_bytes=60 << 20)
LAMBDA = Pickled(
    bytes=None,
    seconds=0.1,
    failed=(Unpicklable(path="dataset.transform", kind="a lambda", error="PicklingError: no"),),
)
FILE = Handles(handles=(Handle(path="dataset.f", kind="h5py.File", family="hdf5"),))
SLOW = make_loop(waits=(0.08,) * 20, steps=(0.02,) * 20)
IMAGE = msgspec.structs.replace(
    LEAF, dtype="float32", bytes=49_152, storage_bytes=49_152, values="unit"
)
WIDE = msgspec.structs.replace(LEAF, dtype="float64", bytes=98_304, storage_bytes=98_304)
SMALL_VIEW = msgspec.structs.replace(LEAF, bytes=4096, storage_bytes=8 << 20)


def copies(**changes: int) -> Copies:
    return msgspec.structs.replace(Copies(count=3, asked=2, pageable=0, bytes=1 << 20), **changes)


def stream(shares: tuple[int, ...], **changes: object) -> TargetFacts:
    facts = {"iterable": True, "num_workers": len(shares), "dataset_length": None, "length": None}
    told = Stream(single=120, shares=shares, whole=True, compared=30, distinct=120)
    return make_target(
        setup=make_setup(loader=facts, drop_last=bool(changes.pop("drop_last", False))),
        stream=msgspec.structs.replace(told, **changes),
    )


FAULTS: dict[str, tuple[Callable[[], TargetFacts], str, str]] = {
    "lambda and spawn": (
        lambda: make_target(setup=make_setup(loader={"start_method": "spawn"}), pickled=LAMBDA),
        "crash.not_picklable",
        "error",
    ),
    "lambda and fork": (lambda: make_target(pickled=LAMBDA), "crash.not_picklable", "info"),
    "open file": (lambda: make_target(handles=FILE), "risk.handle_shared_over_fork", "warning"),
    "open file, no workers": (
        lambda: make_target(
            handles=FILE, setup=make_setup(loader={"num_workers": 0, "start_method": None})
        ),
        "risk.handle_shared_over_fork",
        "info",
    ),
    "lock": (
        lambda: make_target(
            handles=Handles(handles=(Handle(path="dataset.lock", kind="lock", family="lock"),))
        ),
        "crash.fork_deadlock",
        "warning",
    ),
    "objects": (lambda: make_target(objects=MANY), "memory.cow_growth", "warning"),
    "objects, spawned": (
        lambda: make_target(objects=MANY, setup=make_setup(loader={"start_method": "spawn"})),
        "memory.spawn_copies",
        "info",
    ),
    "cache": (lambda: make_target(growth=make_growth()), "memory.dataset_cache_growth", "warning"),
    "cache that dies": (
        lambda: make_target(
            growth=make_growth(again=0.0001),
            setup=make_setup(loader={"persistent_workers": False}),
        ),
        "speed.cache_never_hits",
        "warning",
    ),
    "growth elsewhere": (
        lambda: make_target(growth=make_growth(path="")),
        "memory.worker_growth",
        "warning",
    ),
    "descriptors": (
        lambda: make_target(items=make_items(descriptors=200)),
        "memory.fd_growth_worker",
        "warning",
    ),
    "view": (
        lambda: make_target(loop=make_loop(leaves=(SMALL_VIEW,))),
        "memory.view_ships_storage",
        "warning",
    ),
    "sampler": (
        lambda: make_target(sampler=SamplerCost(seconds=0.3, bytes=228 << 20)),
        "memory.sampler_list",
        "warning",
    ),
    "queue": (
        lambda: make_target(
            setup=make_setup(loader={"prefetch_factor": 8}),
            loop=make_loop(batch_bytes=12 << 20),
            duels=(make_duel("less_prefetch", 2, 1.0),),
        ),
        "memory.prefetch_queue",
        "warning",
    ),
    "copied generator": (
        lambda: make_target(
            randomness=Randomness(
                sources=("dataset.rng",), items=16, varying=16, workers_same=16, epochs_same=3
            )
        ),
        "correctness.rng_copied",
        "warning",
    ),
    "repeated seed": (
        lambda: make_target(
            randomness=Randomness(
                sources=("random",), items=16, varying=8, workers_same=0, epochs_same=8
            ),
            setup=make_setup(init="seed"),
        ),
        "correctness.same_seed_each_epoch",
        "warning",
    ),
    "stale": (
        lambda: make_target(stale=Stale(method="set_epoch", changed=("e",), unseen=("e",))),
        "correctness.stale_worker_state",
        "warning",
    ),
    "stale by the script": (
        lambda: make_target(stale=Stale(method="", changed=("e", "p"), unseen=("p",))),
        "correctness.stale_worker_state",
        "warning",
    ),
    "repeated stream": (lambda: stream((120, 120)), "correctness.iterable_duplicates", "warning"),
    "repeated stream, cut": (
        lambda: stream((60, 60), whole=False, repeated=28),
        "correctness.iterable_duplicates",
        "warning",
    ),
    "few shards": (lambda: stream((60, 60, 0)), "speed.shard_imbalance", "info"),
    "dropped": (
        lambda: stream((30, 30, 30, 30), drop_last=True),
        "correctness.drop_last_per_worker",
        "warning",
    ),
    "last item": (
        lambda: make_target(items=make_items(beyond="IndexError: 999")),
        "correctness.wrong_len",
        "error",
    ),
    "float64": (lambda: make_target(loop=make_loop(leaves=(WIDE,))), "speed.wide_dtype", "info"),
    "float images": (
        lambda: make_target(items=make_items(leaves=(IMAGE,))),
        "speed.wide_dtype",
        "info",
    ),
    "slow item": (
        lambda: make_target(items=make_items(longest=0.5, longest_again=0.4)),
        "speed.head_of_line",
        "info",
    ),
    "item that does not come, and no time for the loop": (
        lambda: make_target(
            loop=None, items=None, bad_item=BadItem(index=21, end="hung", seconds=4.3)
        ),
        "crash.worker_stuck",
        "warning",
    ),
    "item that dies, and no time for the loop": (
        lambda: make_target(
            loop=None,
            items=None,
            bad_item=BadItem(index=21, end="died", headline="SIGSEGV", text="SIGSEGV"),
        ),
        "crash.worker_segfault",
        "error",
    ),
    "queries": (
        lambda: make_target(
            items=make_items(request=Request(name="execute", share=0.9, per_item=0.0018))
        ),
        "speed.not_batched",
        "info",
    ),
    "hidden batch": (
        lambda: make_target(items=make_items(batched_seconds=0.0001, batched_by="dataset.dataset")),
        "speed.not_batched",
        "warning",
    ),
    "pinning": (
        lambda: make_target(setup=make_setup(loader={"pin_memory": True})),
        "pin_memory_ignored",
        "info",
    ),
    "few batches": (
        lambda: make_target(setup=make_setup(loader={"length": 1})),
        "speed.few_batches",
        "info",
    ),
    "no batch": (
        lambda: make_target(setup=make_setup(loader={"length": 0, "num_workers": 0})),
        "correctness.no_batches",
        "error",
    ),
    "no guard": (
        lambda: make_target(setup=make_setup(unguarded="no guard")),
        "crash.no_main_guard",
        "error",
    ),
    "iterator per step": (
        lambda: make_target(begun=Begun(times=20, batches=20, seconds=0.05, kept=0.002)),
        "speed.iterator_per_step",
        "warning",
    ),
    "iterator per step, not tried": (
        lambda: make_target(begun=Begun(times=20, batches=20, seconds=0.05)),
        "speed.iterator_per_step",
        "info",
    ),
    "transport": (
        lambda: make_target(duels=(make_duel("no_workers", 0, 8.0),)),
        "speed.transport_dominates",
        "warning",
    ),
    "transport, no step": (
        lambda: make_target(
            loop=make_loop(has_step=False), duels=(make_duel("no_workers", 0, 25.0),)
        ),
        "speed.transport_dominates",
        "info",
    ),
    "many tensors": (
        lambda: make_target(
            loop=make_loop(batch_tensors=300), duels=(make_duel("no_workers", 0, 8.0),)
        ),
        "speed.many_tensors",
        "warning",
    ),
    "no overlap": (
        lambda: make_target(loop=SLOW, duels=(make_duel("workers", 2, 1.6),)),
        "speed.no_overlap",
        "warning",
    ),
    "no workers and no step": (
        lambda: make_target(
            loop=msgspec.structs.replace(SLOW, has_step=False),
            duels=(make_duel("workers", 2, 1.6),),
        ),
        "speed.too_few_workers",
        "info",
    ),
    "too many": (
        lambda: make_target(duels=(make_duel("fewer", 4, 2.0),)),
        "speed.too_many_workers",
        "warning",
    ),
    "too many on each rank": (
        lambda: make_target(duels=(make_duel("fewer", 1, 2.0),), ranks=4),
        "speed.ddp_oversubscription",
        "warning",
    ),
    "shared limit": (
        lambda: make_target(
            setup=make_setup(loader={"num_workers": 12}),
            items=make_items(cpu_share=0.01, median=0.005),
            duels=(make_duel("fewer", 2, 1.02),),
        ),
        "speed.shared_limit",
        "warning",
    ),
    "shared limit with more": (
        lambda: make_target(
            items=make_items(cpu_share=0.01, median=0.02), duels=(make_duel("more", 8, 0.99),)
        ),
        "speed.shared_limit",
        "warning",
    ),
    "latency": (
        lambda: make_target(
            items=make_items(cpu_share=0.01, median=0.025), duels=(make_duel("more", 8, 3.9),)
        ),
        "speed.latency_bound",
        "warning",
    ),
    "too few": (
        lambda: make_target(duels=(make_duel("more", 4, 1.9),)),
        "speed.too_few_workers",
        "warning",
    ),
    "load": (
        lambda: make_target(items=make_items(median=0.02, p99=0.03, longest=0.03), loop=SLOW),
        "speed.load_bound",
        "info",
    ),
    "threads": (
        lambda: make_target(duels=(make_duel("one_thread", 1, 3.0),)),
        "speed.blas_oversubscription",
        "warning",
    ),
    "spawned start": (
        lambda: make_target(
            setup=make_setup(loader={"start_method": "spawn"}), starts=Starts(own=3.0, empty=0.9)
        ),
        "speed.spawn_start",
        "warning",
    ),
    "gap": (
        lambda: make_target(
            setup=make_setup(loader={"persistent_workers": False}),
            starts=Starts(own=1.5, kept=0.02),
        ),
        "speed.epoch_gap",
        "warning",
    ),
    "threads, not tried": (
        lambda: make_target(items=make_items(cpu_threads=3.0), loop=make_loop(worker_threads=4)),
        "speed.blas_oversubscription",
        "info",
    ),
    "one thread": (
        lambda: make_target(duels=(make_duel("more_threads", 2, 1.8),)),
        "speed.single_threaded_worker",
        "warning",
    ),
    "CPUs taken by an import": (
        lambda: make_target(
            setup=make_setup(affinity=1, affinity_before=4), duels=(make_duel("all_cpus", 4, 1.9),)
        ),
        "speed.affinity",
        "warning",
    ),
    "CPUs taken, and nothing gained": (
        lambda: make_target(
            setup=make_setup(affinity=1, affinity_before=4), duels=(make_duel("all_cpus", 4, 1.0),)
        ),
        "speed.affinity",
        "info",
    ),
    "slow collate": (
        lambda: make_target(
            items=make_items(collate_seconds=0.03, collated=8),
            loop=SLOW,
            setup=make_setup(collate="pad"),
        ),
        "speed.collate",
        "info",
    ),
    "collate that torch's own does as well": (
        lambda: make_target(
            items=make_items(collate_seconds=0.03, collate_default=0.001, collated=8),
            loop=SLOW,
            setup=make_setup(collate="pad"),
        ),
        "speed.collate",
        "warning",
    ),
    "rebuilding": (
        lambda: make_target(loop=msgspec.structs.replace(SLOW, wait_cpu_share=0.9, leaves=())),
        "speed.main_unpickle",
        "info",
    ),
    "spawned start, not tried": (
        lambda: make_target(
            setup=make_setup(loader={"start_method": "spawn"}),
            pickled=Pickled(bytes=12 << 20, seconds=0.2),
            loop=make_loop(startup=3.0),
        ),
        "speed.spawn_start",
        "info",
    ),
    "spawned start that was not waited for": (
        lambda: make_target(
            setup=make_setup(loader={"start_method": "spawn"}),
            pickled=Pickled(bytes=12 << 20, seconds=0.5),
            loop=None,
            starts=Starts(own=9.0, whole=False),
        ),
        "speed.spawn_start",
        "info",
    ),
    "far too many, not tried": (
        lambda: make_target(setup=make_setup(loader={"num_workers": 32})),
        "speed.too_many_workers",
        "info",
    ),
    "copies that are not pinned": (
        lambda: make_target(loop=make_loop(copies=copies(pageable=2))),
        "non_blocking_ignored",
        "info",
    ),
    "GPU that is not used": (
        lambda: make_target(setup=make_setup(accelerator=True), loop=make_loop(device_bytes=0)),
        "gpu_unused",
        "info",
    ),
}


QUIET: dict[str, Callable[[], TargetFacts]] = {
    "nothing wrong": make_target,
    "nothing known": lambda: TargetFacts(target="x"),
    "bounded cache": lambda: make_target(growth=make_growth(late=200.0)),
    "small cache": lambda: make_target(
        setup=make_setup(loader={"dataset_length": 100}),
        growth=make_growth(items=100, early=4096.0, late=4096.0),
    ),
    "few objects": lambda: make_target(objects=Objects(count=9000, bytes=1 << 20, whole=True)),
    "random numbers that differ": lambda: make_target(
        randomness=Randomness(sources=("torch",), items=16, varying=16, workers_same=1)
    ),
    "random numbers that hardly vary": lambda: make_target(
        randomness=Randomness(
            sources=("torch",), items=16, varying=2, workers_same=2, epochs_same=2
        )
    ),
    "changes that workers see": lambda: make_target(
        stale=Stale(method="set_epoch", changed=("e",))
    ),
    "shared stream": lambda: stream((60, 60), compared=60),
    "a stream whose workers have one item in common": lambda: stream((60, 60), repeated=1),
    "a change of speed that may be chance": lambda: make_target(
        duels=(make_duel("fewer", 4, 1.1), make_duel("no_workers", 0, 1.12))
    ),
    "items that a step would have to hide, and no step": lambda: make_target(
        loop=make_loop(has_step=False), duels=(make_duel("no_workers", 0, 9.0),)
    ),
    "more workers that add nothing to items that compute": lambda: make_target(
        duels=(make_duel("more", 4, 1.0),)
    ),
    "latency with enough workers": lambda: make_target(
        setup=make_setup(loader={"num_workers": 12}),
        items=make_items(cpu_share=0.01, median=0.025),
        duels=(make_duel("fewer", 2, 0.2),),
    ),
    "loader that waits and is not alone to blame": lambda: make_target(loop=SLOW),
    "start that is slow without the dataset": lambda: make_target(
        starts=Starts(own=1.2, empty=1.0)
    ),
    "deep queue that pays": lambda: make_target(duels=(make_duel("less_prefetch", 2, 0.8),)),
    "an iterator per step that costs nothing": lambda: make_target(
        begun=Begun(times=20, batches=20, seconds=0.0021, kept=0.002)
    ),
    "iterators of whole epochs": lambda: make_target(
        begun=Begun(times=20, batches=2000, seconds=0.05)
    ),
    "threads that there are CPUs for": lambda: make_target(
        items=make_items(cpu_threads=1.6), loop=make_loop(worker_threads=4)
    ),
    "threads whose limit gained nothing": lambda: make_target(
        items=make_items(cpu_threads=3.0),
        loop=make_loop(worker_threads=4),
        duels=(make_duel("one_thread", 1, 1.02),),
    ),
    "more threads that gain nothing": lambda: make_target(
        duels=(make_duel("more_threads", 2, 1.05),)
    ),
    "an affinity that was narrow before": lambda: make_target(
        setup=make_setup(affinity=2, affinity_before=2)
    ),
    "slow collate that the loop does not wait for": lambda: make_target(
        items=make_items(collate_seconds=0.03, collated=8), setup=make_setup(collate="pad")
    ),
    "large tensors that are stacked": lambda: make_target(
        items=make_items(collate_seconds=0.03, collated=8), loop=SLOW
    ),
    "large tensors that are mapped": lambda: make_target(
        loop=msgspec.structs.replace(SLOW, wait_cpu_share=0.9)
    ),
    "quick collate": lambda: make_target(
        items=make_items(collate_seconds=0.004, collated=8), loop=SLOW
    ),
    "rebuilding that hardly holds up": lambda: make_target(loop=make_loop(wait_cpu_share=0.9)),
    "a slow start while other programs have the CPUs": lambda: make_target(
        setup=make_setup(loader={"persistent_workers": False}),
        starts=Starts(own=1.5, kept=0.02),
        others=0.5,
    ),
    "a slow item that was read once while other programs have the CPUs": lambda: make_target(
        items=make_items(longest=0.5, longest_again=0.5), others=0.5
    ),
    "waiting for slow workers": lambda: make_target(
        loop=msgspec.structs.replace(SLOW, wait_cpu_share=0.05)
    ),
    "a small pickle and a start that was not waited for": lambda: make_target(
        setup=make_setup(loader={"start_method": "spawn"}),
        loop=None,
        starts=Starts(own=9.0, whole=False),
    ),
    "a large pickle and a quick start": lambda: make_target(
        setup=make_setup(loader={"start_method": "spawn"}),
        pickled=Pickled(bytes=12 << 20, seconds=0.2),
    ),
    "many workers for items that wait": lambda: make_target(
        setup=make_setup(loader={"num_workers": 32}), items=make_items(cpu_share=0.01)
    ),
    "copies from pinned memory": lambda: make_target(
        setup=make_setup(loader={"pin_memory": True}, accelerator=True),
        loop=make_loop(copies=copies(), device_bytes=1 << 20),
    ),
    "copies that say that they wait": lambda: make_target(
        loop=make_loop(copies=copies(asked=0, bytes=0))
    ),
    "a GPU and no step": lambda: make_target(
        setup=make_setup(accelerator=True), loop=make_loop(device_bytes=0, has_step=False)
    ),
}
