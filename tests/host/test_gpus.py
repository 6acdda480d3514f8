from __future__ import annotations

import stat
from pathlib import Path

import pytest

from feedrate.host.files import FakeReader
from feedrate.host.gpus import Gpus, GpuUse, ask_smi, driver_files, gpus, parse_smi

MIB = 1 << 20
VERSION = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n"
    "GCC version:  gcc version 11.4.0\n"
)
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03  Release Build  (x)\n"
CARD = "Model: \t\t NVIDIA A100-SXM4-80GB\nIRQ:   \t\t 16\nGPU UUID: \t GPU-1\n"
FILES = {
    "/proc/driver/nvidia/version": VERSION,
    "/proc/driver/nvidia/gpus/0000:01:00.0/information": CARD,
    "/proc/driver/nvidia/gpus/0000:02:00.0/information": "",
    "/dev/nvidia0": "",
    "/dev/nvidia1": "",
    "/dev/nvidiactl": "",
    "/dev/nvidia-uvm": "",
    "/dev/null": "",
}
TABLE = (
    "NVIDIA H100 80GB HBM3, 570.86.15, 81559, 1024, 37\n"
    "NVIDIA H100 80GB HBM3, 570.86.15, [N/A], [N/A], [N/A]\n"
)


def silent() -> str | None:
    return None


def test_what_the_drivers_files_tell() -> None:
    known = gpus(FakeReader(FILES), silent)
    assert known == Gpus(("NVIDIA A100-SXM4-80GB", "NVIDIA GPU"), "535.104.05", 2)
    assert driver_files(FakeReader({"/proc/driver/nvidia/version": OPEN})).driver == "560.35.03"


def test_no_driver_and_no_command() -> None:
    assert gpus(FakeReader({}), silent) == Gpus()


def test_a_container_that_was_given_none() -> None:
    files = {name: text for name, text in FILES.items() if not name.startswith("/dev/nvidia")}
    known = gpus(FakeReader(files), silent)
    assert (len(known.names), known.reachable) == (2, 0)


def test_what_the_command_tells() -> None:
    told = parse_smi(TABLE)
    use = (GpuUse(81559 * MIB, 1024 * MIB, 0.37), GpuUse())
    assert told == Gpus(("NVIDIA H100 80GB HBM3",) * 2, "570.86.15", 2, use)
    assert gpus(FakeReader({}), lambda: TABLE) == told


def test_the_command_lists_only_what_can_be_reached() -> None:
    known = gpus(FakeReader(FILES), lambda: TABLE.splitlines()[0])
    assert (len(known.names), known.reachable, len(known.use)) == (2, 1, 1)


@pytest.mark.parametrize("text", ["", "No devices were found\n", "a, b\n"])
def test_a_table_without_gpus(text: str) -> None:
    assert parse_smi(text) is None


@pytest.mark.parametrize(
    ("script", "answer"),
    [
        ("echo 'X, 1.2, 10, 5, 0'", "X, 1.2, 10, 5, 0\n"),
        ("echo failed; exit 9", None),
        ("exec sleep 60", None),
    ],
)
def test_the_command_is_asked_and_not_waited_for(
    script: str, answer: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = tmp_path / "nvidia-smi"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert ask_smi(seconds=0.2 if "sleep" in script else 30) == answer


def test_no_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ask_smi() is None
