"""One batch, given again and again: what the loop does when its loader costs nothing."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping
from typing import Any

import numpy as np
import torch

from feedrate.loader.torch_private import changes_of
from feedrate.measure.batch import fields_of


class CachedBatch:
    """Gives equal batches, each a whole new structure.

    A step may change its batch: scale it in place, take a part out of the dict. So nothing that a
    step had is trusted: containers are built anew each time, and a tensor is copied anew from the
    first one where torch's own count says that it was changed. What was not changed is given again
    without a copy, since copies take time and keep memory from being pinned.
    """

    def __init__(self, batch: Any) -> None:
        self._given: dict[int, _Given] = {}
        self._pattern = _rebuild(batch, self._keep)

    def give(self) -> Any:
        """Return a batch like the first."""
        return _rebuild(self._pattern, self._fresh)

    def _keep(self, tensor: torch.Tensor) -> torch.Tensor:
        kept = _copy(tensor)
        self._given[id(kept)] = _Given(kept)
        return kept

    def _fresh(self, kept: torch.Tensor) -> torch.Tensor:
        return self._given[id(kept)].tensor()


class _Given:
    """A tensor that is kept, and the copy of it that steps get."""

    def __init__(self, kept: torch.Tensor) -> None:
        self._kept = kept
        self._copy: torch.Tensor | None = None
        self._changes: int | None = None

    def tensor(self) -> torch.Tensor:
        given = self._copy
        if given is None or self._is_changed(given):
            given = self._copy = _copy(self._kept)
            self._changes = changes_of(given)
        return given

    def _is_changed(self, given: torch.Tensor) -> bool:
        return (
            self._changes is None
            or changes_of(given) != self._changes
            or given.requires_grad != self._kept.requires_grad
            or (given.is_leaf and given.grad is not None)
        )


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy that is pinned where the tensor is."""
    plain = tensor.detach()
    if plain.device.type == "cpu" and plain.layout == torch.strided and plain.is_pinned():
        twin = torch.empty_like(plain, pin_memory=True).copy_(plain)
    else:
        twin = plain.clone()
    return twin.requires_grad_(tensor.requires_grad)


def _rebuild(value: Any, leaf: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return leaf(value)
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, Mapping):
        return _rebuild_mapping(value, leaf)
    if isinstance(value, list | tuple):
        return _rebuild_sequence(value, [_rebuild(each, leaf) for each in value])
    fields = fields_of(value)
    if not fields:
        return value
    twin = copy.copy(value)
    for name, each in fields.items():
        object.__setattr__(twin, name, _rebuild(each, leaf))  # it may be frozen
    return twin


def _rebuild_mapping(value: Mapping[Any, Any], leaf: Any) -> Any:
    parts = {key: _rebuild(each, leaf) for key, each in value.items()}
    if type(value) is dict or not isinstance(value, MutableMapping):
        return parts
    twin = copy.copy(value)  # a tokenizer's batch, an ordered or a default dict
    for key, each in parts.items():
        twin[key] = each
    return twin


def _rebuild_sequence(value: Any, parts: list[Any]) -> Any:
    if hasattr(value, "_fields"):
        return type(value)(*parts)
    if isinstance(value, tuple):
        return tuple(parts)
    twin = copy.copy(value)
    twin[:] = parts
    return twin
