"""NVIDIA GPUs: which there are, which of them this process can reach, and how busy they are."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from feedrate.host.files import ProcReader

_DRIVER = re.compile(r"Kernel Module(?:\s+for\s+\S+)?\s+(\d+(?:\.\d+)+)")
_DEVICE = re.compile(r"nvidia\d+")
_QUERY = "name,driver_version,memory.total,memory.used,utilization.gpu"
_FIELDS = 5
_MIB = 1024**2


@dataclass(frozen=True, slots=True)
class GpuUse:
    """One GPU's memory in bytes, and the share of time in which it worked of late, 0 to 1.

    ``None`` where it does not tell.
    """

    total: int | None = None
    used: int | None = None
    busy: float | None = None


@dataclass(frozen=True, slots=True)
class Gpus:
    """The machine's NVIDIA GPUs by name, and its driver's version.

    ``reachable`` is how many of them this process has devices of, ``None`` where that is not told.
    ``use`` is theirs, in the order of ``names``, where ``nvidia-smi`` answered.
    """

    names: tuple[str, ...] = ()
    driver: str | None = None
    reachable: int | None = None
    use: tuple[GpuUse, ...] = ()


def gpus(reader: ProcReader, ask: Callable[[], str | None] | None = None) -> Gpus:
    """Return what the driver's files tell, and ``nvidia-smi`` where it answers.

    ``ask`` returns that command's table, or ``None``.
    """
    known = driver_files(reader)
    told = parse_smi((ask or ask_smi)() or "")
    if told is None:
        return known
    # what the command lists is what can be reached: files also list what a container was not given
    names = known.names if len(known.names) > len(told.names) else told.names
    return Gpus(names, told.driver or known.driver, len(told.names), told.use)


def driver_files(reader: ProcReader) -> Gpus:
    """Return what ``/proc/driver/nvidia`` and the devices in ``/dev`` tell, on Linux."""
    folder = "/proc/driver/nvidia"
    version = _DRIVER.search(reader.read(f"{folder}/version") or "")
    if version is None:
        return Gpus()
    names = []
    for bus in sorted(reader.listdir(f"{folder}/gpus") or ()):
        text = reader.read(f"{folder}/gpus/{bus}/information") or ""
        fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        names.append(fields.get("Model", "").strip() or "NVIDIA GPU")
    devices = reader.listdir("/dev")
    reachable = None if devices is None else sum(map(bool, map(_DEVICE.fullmatch, devices)))
    return Gpus(tuple(names), version[1], reachable)


def parse_smi(text: str) -> Gpus | None:
    """Return what a table of ``nvidia-smi`` without header and units lists, ``None`` for none."""
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines()]
    rows = [row for row in rows if len(row) == _FIELDS]
    if not rows:
        return None
    use = tuple(
        GpuUse(_bytes(total), _bytes(used), _share(busy)) for _, _, total, used, busy in rows
    )
    return Gpus(tuple(row[0] for row in rows), rows[0][1], len(rows), tuple(use))


def ask_smi(seconds: float = 1.0) -> str | None:
    """Return the table that ``nvidia-smi`` prints, ``None`` where it does not within that time."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return None
    try:
        process = subprocess.Popen(
            [command, f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None
    try:
        text, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        # one that waits for a broken driver cannot even be killed: it is not waited for
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=0.2)
        return None
    return text.decode("utf-8", "replace") if process.returncode == 0 else None


def _bytes(mebibytes: str) -> int | None:
    with contextlib.suppress(ValueError):
        return int(mebibytes) * _MIB
    return None  # "[N/A]"


def _share(percent: str) -> float | None:
    with contextlib.suppress(ValueError):
        return int(percent) / 100
    return None
