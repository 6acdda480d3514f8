"""Tensors upon memory that is there already, made the quick way.

``torch.frombuffer`` makes a vector that must then be viewed; through NumPy a tensor of any shape
is made in one go, in less than half the time. Its storage is those elements and no others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

NUMPY_DTYPES: dict[torch.dtype, np.dtype[Any]] = {
    torch.bool: np.dtype(np.bool_),
    torch.uint8: np.dtype(np.uint8),
    torch.int8: np.dtype(np.int8),
    torch.int16: np.dtype(np.int16),
    torch.int32: np.dtype(np.int32),
    torch.int64: np.dtype(np.int64),
    torch.float16: np.dtype(np.float16),
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
    torch.complex64: np.dtype(np.complex64),
    torch.complex128: np.dtype(np.complex128),
}
"""The dtypes that both have; bfloat16 and the eight-bit floats are torch's alone."""


def tensor_at(memory: Any, offset: int, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    """Return a tensor of a shape, contiguous, upon writable memory from an offset (bytes) on."""
    known = NUMPY_DTYPES.get(dtype)
    if known is not None:
        return torch.from_numpy(np.ndarray(shape, known, memory, offset))
    count = 1
    for extent in shape:
        count *= extent
    flat = torch.frombuffer(memory, dtype=dtype, count=count, offset=offset)
    return flat.view(shape)
