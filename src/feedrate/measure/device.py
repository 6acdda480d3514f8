"""The accelerator a child measures on: synchronizing, moving batches, and its own figures."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Protocol

import torch

from feedrate.errors import UsageError
from feedrate.measure.batch import fields_of
from feedrate.records import DevicePeaks


class Device(Protocol):
    """Where the step's work is done."""

    name: str | None

    def synchronize(self) -> None:
        """Wait until the device has done all that was asked of it."""

    def move(self, batch: Any) -> Any:
        """Return the batch with its tensors on the device."""

    def look(self) -> None:
        """Take one reading of the device's utilization."""

    def peaks(self) -> DevicePeaks | None:
        """Return the highest figures so far."""


class Cpu:
    """No accelerator: nothing to wait for and nothing to move."""

    name: str | None = None

    def synchronize(self) -> None:
        """Return at once: the CPU's work is done when the call returns."""

    def move(self, batch: Any) -> Any:
        """Return the batch as it is."""
        return batch

    def look(self) -> None:
        """Read nothing."""

    def peaks(self) -> DevicePeaks | None:
        """Return ``None``."""
        return None


class Cuda:
    """One CUDA device, by torch's own counters; utilization needs nvidia-ml-py."""

    def __init__(self, device: torch.device, cuda: Any = None) -> None:
        self._device = device
        self._cuda: Any = torch.cuda if cuda is None else cuda
        self.name: str | None = self._cuda.get_device_name(device)
        self._shares: list[float] = []
        self._can_look = True

    def synchronize(self) -> None:
        """Wait for the device."""
        self._cuda.synchronize(self._device)

    def move(self, batch: Any) -> Any:
        """Copy the batch to the device, without waiting where its memory is pinned."""
        return move_tensors(batch, self._device)

    def look(self) -> None:
        """Read the utilization; stop asking once it turns out that it cannot be had."""
        if not self._can_look:
            return
        try:
            self._shares.append(self._cuda.utilization(self._device) / 100)
        except (ImportError, RuntimeError, OSError, AttributeError):
            self._can_look = False
        except Exception as error:  # pynvml's errors share no public base with Python's
            if type(error).__module__.partition(".")[0] not in ("pynvml", "amdsmi"):
                raise
            self._can_look = False

    def peaks(self) -> DevicePeaks | None:
        """Return torch's highest allocated and reserved bytes, and the mean utilization seen."""
        return DevicePeaks(
            name=self.name or "cuda",
            allocated_bytes=self._cuda.max_memory_allocated(self._device),
            reserved_bytes=self._cuda.max_memory_reserved(self._device),
            utilization=sum(self._shares) / len(self._shares) if self._shares else None,
        )


class OtherAccelerator:
    """An accelerator that torch knows and feedrate has no counters for (mps, xpu)."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.name: str | None = device.type

    def synchronize(self) -> None:
        """Wait for the device through torch's module for it."""
        getattr(torch, self._device.type).synchronize()

    def move(self, batch: Any) -> Any:
        """Copy the batch to the device."""
        return move_tensors(batch, self._device)

    def look(self) -> None:
        """Read nothing."""

    def peaks(self) -> DevicePeaks | None:
        """Return the name alone."""
        return DevicePeaks(name=self.name or self._device.type)


def move_tensors(batch: Any, device: torch.device) -> Any:
    """Return a copy of a nested batch with its tensors on ``device``.

    What has a ``to()`` of its own (a packed sequence, a tokenizer's batch) is asked to move
    itself; what is built otherwise than from containers and fields stays as it is.
    """
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=batch.is_pinned())
    if not isinstance(batch, type) and callable(getattr(batch, "to", None)):
        return batch.to(device)
    if isinstance(batch, Mapping):
        return {key: move_tensors(value, device) for key, value in batch.items()}
    if isinstance(batch, list | tuple):
        moved = [move_tensors(value, device) for value in batch]
        if hasattr(batch, "_fields"):
            return type(batch)(*moved)
        return tuple(moved) if isinstance(batch, tuple) else moved
    return _move_fields(batch, device)


def _move_fields(batch: Any, device: torch.device) -> Any:
    fields = fields_of(batch)
    if not fields:
        return batch
    twin = copy.copy(batch)
    for name, value in fields.items():
        object.__setattr__(twin, name, move_tensors(value, device))  # it may be frozen
    return twin


def accelerator_name() -> str | None:
    """Return the name of the accelerator that torch would use here, ``None`` without one."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    for kind in ("mps", "xpu"):
        for place in (torch.backends, torch):  # each tells of one of the two in torch 2.4
            is_available = getattr(getattr(place, kind, None), "is_available", None)
            if is_available is not None and is_available():
                return kind
    return None


def open_device(wish: str) -> Device:
    """Return the device named ("cpu", "cuda", "cuda:1", "mps"), or for "auto" the best there is.

    Raises:
        UsageError: there is no such device here.
    """
    if wish == "auto":
        wish = "cuda" if torch.cuda.is_available() else accelerator_name() or "cpu"
    try:
        device = torch.device(wish)
    except RuntimeError:
        raise UsageError(f"device {wish}: torch knows no such device; try auto or cpu") from None
    if device.type == "cpu":
        return Cpu()
    if not hasattr(getattr(torch, device.type, None), "synchronize"):
        raise UsageError(f"device {wish} is none that work can be waited for on; try auto")
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__).partition(". ")[0]
        raise UsageError(f"device {wish} cannot be used here ({reason}); try auto") from None
    return Cuda(device) if device.type == "cuda" else OtherAccelerator(device)
