"""Where an examination begins: how a loader is made, and the run of a factory's."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import DataLoader, default_collate

from feedrate.host.files import SystemReader
from feedrate.host.limits import affinity, local_ranks, usable_cpus
from feedrate.loader.dataloader import DataLoader as ElasticLoader
from feedrate.measure import wire
from feedrate.measure.configure import default_start_method, read_facts
from feedrate.measure.examined import Part, Setup
from feedrate.measure.examining.alarm import kill_workers
from feedrate.measure.examining.examiner import Examiner
from feedrate.measure.examining.twins import replaced
from feedrate.measure.examining.walking import name_of
from feedrate.measure.guard import missing_guard
from feedrate.measure.ranks import keep_to_share
from feedrate.measure.target import Target

Send = Callable[[wire.Message], None]
Step = Callable[[Any], object]


def examine_factory(
    asked: wire.Examine, send: Send, loader: DataLoader[Any], step: Step | None
) -> None:
    """Examine a factory's loader and say that it is done."""
    make_examiner(asked, send, replaced(loader), step).run()
    send(wire.Finished())
    kill_workers()  # those of trials that were given up; torch would wait for each of them


def make_examiner(
    asked: wire.Examine, send: Send, loader: DataLoader[Any], step: Step | None
) -> Examiner:
    """Return what examines a copy of a loader that was not iterated."""

    def tell(part: Part) -> None:
        send(wire.Examined(part=part))

    setup = read_setup(loader, step, cpus=len(asked.cpus) or None)
    return Examiner(
        loader, step, setup, tell, until=asked.until, budget=asked.seconds, cpus=asked.cpus
    )


def read_setup(loader: DataLoader[Any], step: Step | None, cpus: int | None = None) -> Setup:
    """Return how a loader is made. Its ``cpus`` are this rank's share of what can be used.

    ``cpus`` is how many this process began with; what an import took of them is only known where
    it is the host's only rank, which keeps to no share.
    """
    ranks = local_ranks(os.environ)
    alone = ranks == 1 and hasattr(os, "sched_getaffinity")
    now = affinity() if alone else None
    if ranks > 1:
        keep_to_share()  # a target that says itself that it is one of several
    collate = loader.collate_fn
    given = collate is not None and collate is not default_collate and loader.batch_size is not None
    init = loader.worker_init_fn
    return Setup(
        facts=read_facts(Target(loader, step), ()),
        cpus=min(float(affinity()), usable_cpus(SystemReader(), affinity()).cpus),
        ranks=ranks,
        accelerator=torch.accelerator.is_available()
        if hasattr(torch, "accelerator")
        else torch.cuda.is_available(),
        sampler=name_of(type(loader.sampler)),
        draws=_length(loader.sampler),
        collate=_name(collate) if given else "",
        init=_name(init) if init is not None else "",
        drop_last=bool(loader.drop_last),
        batched=hasattr(loader.dataset, "__getitems__"),
        elastic=isinstance(loader, ElasticLoader),
        default_start_method=default_start_method(),
        unguarded=missing_guard(loader) or "",
        affinity=now,
        affinity_before=cpus if alone else None,
    )


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", None) or type(function).__qualname__)


def _length(value: Any) -> int | None:
    try:
        return len(value)
    except Exception:
        return None
