"""Checks of single items: their types, their time, and whether the last one is there."""

from __future__ import annotations

from feedrate import units
from feedrate.doctor.target_check import figure, found, of_target
from feedrate.doctor.target_facts import TargetFacts
from feedrate.doctor.target_trials import is_noisy
from feedrate.measure.examined import Items, Leaf
from feedrate.records import Evidence, Finding

_LARGE = 16 << 10
"""Smaller parts of an item are not worth another type."""
_SLOW = 10.0
_SLOW_SECONDS = 0.02
_ENOUGH = 30
_ASKS = 0.5
_CHEAPER = 0.7
_COSTLY = 20e-6


def _beyond(target: TargetFacts) -> Finding | None:
    items, setup = target.items, target.setup
    if items is None or not items.beyond or setup is None or setup.facts.dataset_length is None:
        return None
    length = setup.facts.dataset_length
    return found(
        "correctness.wrong_len",
        "error",
        f"len(dataset) is {length:,}, but item {length - 1:,} does not exist ({items.beyond})",
        why="a sampler asks for every index below len(), so an epoch fails where it comes to it",
        remedy="return in __len__ how many items there are",
        evidence=(figure("announced items", length, "items"),),
    )


def _wide(target: TargetFacts) -> Finding | None:
    parts = _batch_parts(target)
    wide = [leaf for leaf in parts if leaf.dtype == "float64" and leaf.bytes >= _LARGE]
    if not wide:
        return None
    total = sum(leaf.bytes for leaf in parts)
    saved = sum(leaf.bytes for leaf in wide) / 2
    return found(
        "speed.wide_dtype",
        "info",
        f"{wide[0].path} is float64: float32, with which models compute, would take "
        f"{units.size(saved)} less of {units.size(total)}",
        why="NumPy makes float64 where nothing is said, and every copy on the way is of this size",
        remedy="convert in __getitem__: x.astype(numpy.float32), or dtype=torch.float32",
        evidence=(
            figure("size", total, "bytes"),
            figure("size less with float32", saved, "bytes"),
        ),
    )


def _images(target: TargetFacts) -> Finding | None:
    items = target.items
    parts = [leaf for leaf in (items.leaves if items is not None else ()) if leaf.values]
    parts = [leaf for leaf in parts if leaf.bytes >= _LARGE]
    if not parts:
        return None
    first = parts[0]
    wide = 8 if first.dtype == "float64" else 4
    what = "whole numbers from 0 to 255" if first.values == "bytes" else "multiples of 1/255"
    return found(
        "speed.wide_dtype",
        "info",
        f"{first.path} is {first.dtype} with values that are {what}: as uint8 it would take "
        f"{units.size(first.bytes / wide)} instead of {units.size(first.bytes)}",
        why="a batch is copied several times on its way, and moving bytes is what that costs",
        remedy="return uint8, and scale on the device after the copy (x.float() / 255)",
        evidence=(
            figure("size of an item's part", first.bytes, "bytes"),
            figure("size as uint8", first.bytes / wide, "bytes"),
        ),
    )


def _batch_parts(target: TargetFacts) -> tuple[Leaf, ...]:
    if target.loop is not None and target.loop.leaves:
        return target.loop.leaves
    return target.items.leaves if target.items is not None else ()


def _types_seen(target: TargetFacts) -> str:
    parts = _batch_parts(target)
    if not parts:
        return ""
    shown = ", ".join(f"{leaf.dtype} {list(leaf.shape)}" for leaf in parts[:3])
    more = f" and {len(parts) - 3} more" if len(parts) > 3 else ""
    return f"{shown}{more}: {units.size(sum(leaf.bytes for leaf in parts))}"


def _slow(target: TargetFacts) -> Finding | None:
    items = target.items
    if items is None or items.count < _ENOUGH:
        return None
    if min(items.longest, items.longest_again) < max(_SLOW_SECONDS, _SLOW * items.median):
        return None
    if is_noisy(target) and items.longest_again >= items.longest:
        return None  # it was not read again, and other programs had the CPUs
    return found(
        "speed.head_of_line",
        "info",
        f"item {items.worst} took {units.seconds(items.longest)}, and half of the items less than "
        f"{units.seconds(items.median)}: batches behind such an item wait for it",
        why="torch delivers in order, so finished batches are held back by a slow one",
        remedy="look at that item; where the order does not matter, in_order=False (torch 2.6) "
        "lets finished batches pass",
        evidence=_times(items),
    )


def _times(items: Items) -> tuple[Evidence, ...]:
    return (
        figure("seconds of an item, median", items.median, "s"),
        figure("seconds of an item, 99th percentile", items.p99, "s"),
        figure("seconds of the longest item", items.longest, "s"),
    )


def _times_seen(target: TargetFacts) -> str:
    items = target.items
    if items is None:
        return ""
    return (
        f"half take less than {units.seconds(items.median)}, 99 % less than "
        f"{units.seconds(items.p99)}; the longest was item {items.worst} with "
        f"{units.seconds(items.longest)} ({items.count:,} read)"
    )


def _not_batched(target: TargetFacts) -> Finding | None:
    items = target.items
    if items is None:
        return None
    if items.batched_seconds is not None and items.median > _COSTLY:
        gain = items.median / max(items.batched_seconds, 1e-9)
        if gain * _CHEAPER >= 1:
            return found(
                "speed.not_batched",
                "warning",
                f"{items.batched_by} has __getitems__, which the dataset around it hides: an item "
                f"takes {units.seconds(items.batched_seconds)} in a batch and "
                f"{units.seconds(items.median)} alone ({units.ratio(gain)})",
                why="torch asks for a whole batch at once only where the outer dataset can",
                remedy="give the outer dataset a __getitems__(indices) that hands them on",
                evidence=(
                    figure("seconds of an item alone", items.median, "s"),
                    figure("seconds of an item in a batch", items.batched_seconds, "s"),
                ),
            )
    request = items.request
    if request is None or request.share < _ASKS or items.median < _COSTLY:
        return None
    return found(
        "speed.not_batched",
        "info",
        f"{units.share(request.share)} of an item's time is one call of {request.name} "
        f"({units.seconds(request.per_item)}), made for each item: __getitems__ could ask once "
        "for a whole batch",
        why="what a query, a request or a read costs by itself is paid for every item; what one "
        "for many would cost was not measured, since the dataset has none",
        remedy="implement __getitems__(self, indices), which torch calls with all indices of a "
        "batch, and return a list of items",
        evidence=(
            figure("share of the call", request.share, "share"),
            figure("seconds of the call", request.per_item, "s"),
        ),
    )


CHECKS = (
    of_target("the last item", _beyond),
    of_target("types", _wide, _types_seen),
    of_target("images", _images),
    of_target("time of items", _slow, _times_seen),
    of_target("calls of items", _not_batched),
)
