"""Which copies to a device a step asks for, and whether their memory lets them run beside it."""

from __future__ import annotations

from typing import Any

import torch

from feedrate.measure.examined import Copies

WATCHED_STEP = 3
"""The step in which copies are counted: what is only set up in the first ones is done."""
_CALLS = ("to", "cuda")


class CopyWatch:
    """Counts copies of host memory to a device while it is entered: for one step, no more.

    ``Tensor.to`` and ``Tensor.cuda`` are replaced meanwhile; what does not go through them
    (``copy_``) is not seen.
    """

    def __init__(self) -> None:
        self._count = self._asked = self._pageable = self._bytes = 0
        self._before: dict[str, Any] = {}

    def __enter__(self) -> CopyWatch:
        for name in _CALLS:
            self._before[name] = getattr(torch.Tensor, name)
            setattr(torch.Tensor, name, self._counting(self._before[name]))
        return self

    def __exit__(self, *_: object) -> None:
        for name, call in self._before.items():
            if name in vars(torch.Tensor):
                delattr(torch.Tensor, name)
            if getattr(torch.Tensor, name, None) is not call:
                setattr(torch.Tensor, name, call)
        self._before = {}

    @property
    def is_watching(self) -> bool:
        """Whether copies are counted now."""
        return bool(self._before)

    def told(self) -> Copies | None:
        """Return what was counted, ``None`` where there was no copy."""
        if not self._count:
            return None
        return Copies(
            count=self._count, asked=self._asked, pageable=self._pageable, bytes=self._bytes
        )

    def _counting(self, call: Any) -> Any:
        def counting(tensor: torch.Tensor, *given: Any, **named: Any) -> Any:
            result = call(tensor, *given, **named)
            if _is_copy(tensor, result):
                self._take(tensor, asked=_says_so(given, named))
            return result

        return counting

    def _take(self, tensor: torch.Tensor, *, asked: bool) -> None:
        self._count += 1
        self._asked += asked
        if asked and not tensor.is_pinned():
            self._pageable += 1
            self._bytes += tensor.nbytes


def _is_copy(tensor: torch.Tensor, result: Any) -> bool:
    if not isinstance(result, torch.Tensor) or tensor.layout != torch.strided:
        return False
    return tensor.device.type == "cpu" and result.device.type != "cpu"


def _says_so(given: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """Tell whether a call asks for a copy that is not waited for.

    By position it is the first truth value: in ``to(device, dtype, non_blocking)``,
    ``to(dtype, non_blocking)``, ``to(other, non_blocking)`` and ``cuda(device, non_blocking)``.
    """
    if "non_blocking" in named:
        return bool(named["non_blocking"])
    return next((value for value in given if isinstance(value, bool)), False)
