"""Hosts as tests need them."""

from __future__ import annotations

from typing import Any

from feedrate.doctor.facts import HostFacts
from feedrate.host.limits import MemoryLimits, ShmSpace


def make_host(**changes: Any) -> HostFacts:
    """Return a host with figures that nothing is wrong with."""
    facts: dict[str, Any] = {
        "system": "Linux",
        "python_version": "3.11.4",
        "start_method": "fork",
        "usable_cpus": 4.0,
        "memory": MemoryLimits(8 << 30, 4 << 30, None, None, 4 << 30, "available memory"),
        "torch_version": "2.4.0",
        "shm": ShmSpace(4 << 30, 4 << 30),
        "memory_kills": 0,
        "descriptors": 1024,
        "descriptors_most": 4096,
        "processes": 30_000,
        "maps": 65_530,
    }
    return HostFacts(**(facts | changes))
