"""Items as short digests, so that two processes can be compared without sending what they made."""

from __future__ import annotations

import hashlib
import pickle
from typing import Any

import numpy as np
import torch
from torch.utils.data import get_worker_info

from feedrate.measure.batch import leaves

UNKNOWN = ""
"""The digest of an item that cannot be compared."""


def digest(item: Any) -> str:
    """Return a digest of all values in an item; `UNKNOWN` where it has what cannot be read."""
    found = hashlib.blake2b(digest_size=12)
    for leaf in leaves(item):
        data = _bytes_of(leaf)
        if data is None:
            return UNKNOWN
        found.update(data)
        found.update(b"|")
    return found.hexdigest()


def _bytes_of(leaf: Any) -> bytes | None:
    try:
        if isinstance(leaf, torch.Tensor):
            array = leaf.detach().cpu().contiguous()
            return (
                repr((array.dtype, tuple(array.shape))).encode()
                + array.reshape(-1).view(torch.uint8).numpy().tobytes()
            )
        if isinstance(leaf, np.ndarray | np.generic) and leaf.dtype != object:
            return repr((leaf.dtype.str, leaf.shape)).encode() + leaf.tobytes()
        if isinstance(leaf, str | bytes | int | float | bool | None):
            return repr(leaf).encode("utf-8", "replace")
        if callable(getattr(leaf, "tobytes", None)):  # a PIL image
            return bytes(leaf.tobytes())
        return pickle.dumps(leaf)
    except Exception:
        return None


class Digests:
    """A collate function: (number of the worker, digests of the items, their count).

    ``single`` where the loader does not batch, so that each call brings one item.
    """

    def __init__(self, *, single: bool = False) -> None:
        self.single = single

    def __call__(self, items: Any) -> tuple[int, list[str]]:
        """Return the digests of a batch's items."""
        info = get_worker_info()
        worker = -1 if info is None else int(info.id)
        return worker, [digest(item) for item in ([items] if self.single else items)]
