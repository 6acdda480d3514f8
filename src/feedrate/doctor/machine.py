"""Gathering what doctor knows of the machine: files and figures, read once, nothing imported."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from feedrate.doctor.facts import gather_host
from feedrate.doctor.machine_facts import CpuFacts, MachineFacts, SoftwareFacts
from feedrate.host.containers import container
from feedrate.host.files import ProcReader, SystemReader
from feedrate.host.gpus import gpus
from feedrate.host.limits import (
    affinity,
    cpu_quota,
    cpu_set,
    group_oom_kills,
    local_ranks,
    parse_cpu_list,
    usable_cpus,
)
from feedrate.host.storage import DataSize, data_size, storage_under
from feedrate.measure.examined import MOST_FILES
from feedrate.measure.versions import versions

THREAD_COUNTS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "OPENCV_FOR_THREADS_NUM",
)
"""Variables that say how many threads a library starts in each process."""
PINNING = ("OMP_PROC_BIND", "OMP_PLACES", "KMP_AFFINITY", "GOMP_CPU_AFFINITY")
"""Variables by which OpenMP binds threads to CPUs, and with its first thread the process."""
_COUNTING_SECONDS = 0.5
_TOLD = (*THREAD_COUNTS, *PINNING, "CUDA_VISIBLE_DEVICES")
_CUDA = re.compile(r"^(cuda|hip)\b[^=\n]*=\s*'([^']+)'", re.MULTILINE)


def gather_machine(
    data: Path | None = None,
    *,
    reader: ProcReader | None = None,
    environ: Mapping[str, str] | None = None,
    ask_gpus: Callable[[], str | None] | None = None,
) -> MachineFacts:
    """Return this machine's facts. torch is not imported.

    Args:
        data: the files that will be read, of which storage and size are told.
        reader: the source of the system's files; default: this machine.
        environ: the environment; default: this process's.
        ask_gpus: returns what ``nvidia-smi`` prints; default: that command.
    """
    reader = reader or SystemReader()
    environ = os.environ if environ is None else environ
    return MachineFacts(
        host=gather_host(reader),
        cpus=_cpus(reader, environ),
        software=software(environ),
        gpus=gpus(reader, ask_gpus),
        group_kills=group_oom_kills(reader),
        container=container(reader, environ),
        environment={name: environ[name] for name in _TOLD if name in environ},
        storage=storage_under(str(data or "."), reader),
        data_size=data_size(str(data)) if data is not None else None,
    )


def with_files(
    machine: MachineFacts, files: Sequence[str], reader: ProcReader | None = None
) -> MachineFacts:
    """Return the facts with those of the ``files`` that a target has read while items were made.

    As they are where there are none. As many as were kept stand for all in their common folder,
    fewer for themselves.
    """
    if not files:
        return machine
    parts = [Path(file) for file in files]
    folder = Path(os.path.commonpath([part.parent for part in parts]))
    if len(files) < MOST_FILES:
        size = DataSize(sum(map(_bytes, parts)), len(parts))
    elif folder == folder.parent:
        return machine  # nothing in common but the root
    else:
        size = data_size(str(folder), seconds=_COUNTING_SECONDS)
    place = str(parts[0] if len(parts) == 1 else folder)
    storage = storage_under(place, reader or SystemReader())
    return msgspec.structs.replace(machine, storage=storage, data_size=size)


def _bytes(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def software(environ: Mapping[str, str]) -> SoftwareFacts:
    """Return what is installed, by its metadata and by torch's file of its version."""
    known = versions()
    torch = known.get("torch")
    return SoftwareFacts(
        python=platform.python_version(),
        torch=torch,
        torchvision=known.get("torchvision"),
        build=parse_build(torch, _text(_part("version.py"))) if torch is not None else None,
        torchvision_needs=_needs("torchvision", "torch") if "torchvision" in known else None,
        # NVIDIA's images bring the newer driver's libraries along, and say so in these
        cuda_compat="_CUDA_COMPAT_PATH" in environ
        or "cuda/compat" in environ.get("LD_LIBRARY_PATH", ""),
        gnu_openmp=_brings_gnu_openmp() if torch is not None else None,
    )


def parse_build(version: str, text: str | None) -> str | None:
    """Return what torch was built for, by its version and its ``torch/version.py``."""
    if text is not None and re.search(r"^cuda\b", text, re.MULTILINE):
        found = _CUDA.search(text)
        if found is None:
            return "cpu"
        return f"{'cuda' if found[1] == 'cuda' else 'rocm'} {found[2]}"
    return "cpu" if version.endswith("+cpu") else None


def _cpus(reader: ProcReader, environ: Mapping[str, str]) -> CpuFacts:
    allowed = affinity()
    limit = usable_cpus(reader, allowed)
    return CpuFacts(
        logical=os.cpu_count() or 1,
        affinity=allowed,
        usable=limit.cpus,
        limited_by=limit.source,
        quota=cpu_quota(reader),
        cpuset=cpu_set(reader),
        online=parse_cpu_list(reader.read("/sys/devices/system/cpu/online") or "") or None,
        ranks=local_ranks(environ),
    )


def _part(name: str) -> Path:
    """Return the path of a file of torch, which need not be there: it may be installed elsewise."""
    return Path(str(importlib.metadata.distribution("torch").locate_file(f"torch/{name}")))


def _text(file: Path) -> str | None:
    with contextlib.suppress(OSError, ValueError):
        return file.read_text("utf-8")
    return None


def _brings_gnu_openmp() -> bool | None:
    with contextlib.suppress(OSError):
        return any(file.name.startswith("libgomp") for file in _part("lib").iterdir())
    return None


def _needs(package: str, other: str) -> str | None:
    """Return what a package's metadata asks of another: "==2.4.0"."""
    for wish in importlib.metadata.requires(package) or ():
        found = re.fullmatch(rf"{other}\s*\(?\s*([<>=!~][^;)]*?)\s*\)?\s*(?:;.*)?", wish)
        if found is not None:
            return found[1]
    return None
