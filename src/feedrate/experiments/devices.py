"""The device on which an experiment's step runs. Imports torch: for children only."""

from __future__ import annotations

import torch


def pick_device(name: str) -> torch.device:
    """Return the named device; "auto" is the accelerator if there is one, else the CPU."""
    if name != "auto":
        return torch.device(name)
    # the same order of preference as the measuring child's own "auto"
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    if torch.xpu.is_available():
        return torch.device("xpu")
    return torch.device("cpu")
