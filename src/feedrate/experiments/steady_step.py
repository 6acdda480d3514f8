"""An experiment's step on the CPU that costs the same in each process. For children only."""

from __future__ import annotations

import ctypes

import torch

# glibc's malloc.h, mallopt's options; the largest threshold that an int can hold
_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4
_NEVER = 2**31 - 1


def steady_cpu_step() -> None:
    """Let a step on the CPU stay on one of them, and keep the memory that it has had.

    Published with a GPU, such a step leaves the CPUs to the workers. Threads of a step on the CPU
    would spin for them instead, and its time would vary several times over. And the memory of a
    step's activations is given back to the kernel and faulted in again at each step, or kept, as
    it happens to lie in the heap: 3,400 to 12,500 page faults a batch of FashionMNIST and a third
    of the rate between processes of the very same loop, seen on 2 CPUs with glibc 2.36.
    """
    torch.set_num_threads(1)
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # no glibc: its own malloc decides
        return
    mallopt(_M_MMAP_MAX, 0)
    mallopt(_M_TRIM_THRESHOLD, _NEVER)
