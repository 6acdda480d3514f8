"""This machine's figures, read once."""

from __future__ import annotations

import multiprocessing
import os
import platform

from feedrate.doctor.facts import gather_host
from feedrate.host.files import FakeReader


def test_what_this_machine_tells() -> None:
    host = gather_host()
    assert host.python_version == platform.python_version()
    assert host.start_method in multiprocessing.get_all_start_methods()
    assert 0 < host.usable_cpus <= (os.cpu_count() or 1)
    assert 0 <= host.memory.free <= host.memory.total
    if host.descriptors is not None and host.descriptors_most is not None:
        assert host.descriptors <= host.descriptors_most


def test_what_files_tell() -> None:
    files = {
        "/proc/meminfo": "MemTotal: 8 kB\nMemAvailable: 4 kB\n",
        "/proc/vmstat": "oom_kill 3\n",
        "/proc/sys/vm/max_map_count": "65530\n",
    }
    host = gather_host(FakeReader(files))
    assert (host.memory.total, host.memory.available) == (8192, 4096)
    assert host.memory_kills == 3
    assert host.maps == 65530
    assert gather_host(FakeReader({})).maps is None
