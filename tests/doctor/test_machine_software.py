"""The checks of what is installed and of GPUs, on made-up facts."""

from __future__ import annotations

import pytest

from doctor.hosts import make_host
from doctor.machines import (
    GIB,
    container,
    found,
    make_machine,
    make_software,
    seen,
)
from feedrate.host.gpus import Gpus, GpuUse

H100 = "NVIDIA H100 80GB HBM3"


# --- software


def test_torchvision_of_another_torch() -> None:
    finding = found(make_machine(software=make_software(torch="2.5.1+cu121")))["setup.versions"]
    assert finding.severity == "warning"
    assert "torchvision 0.21.0 asks for torch ==2.6.0, and 2.5.1+cu121" in finding.title
    assert finding.remedy.endswith("pip install torch==2.6.0")
    same = make_software(torch="2.6.0+cpu")
    assert "setup.versions" not in found(make_machine(software=same))
    nightly = make_software(torch="2.7.0.dev20250101+cu126")
    assert "setup.versions" not in found(make_machine(software=nightly))


def test_no_torch() -> None:
    none = make_software(torch=None, torchvision=None, build=None, torchvision_needs=None)
    machine = make_machine(software=none)
    assert found(machine)["setup.versions"].title == "torch is not installed in this Python"
    assert "known faults" not in seen(machine)


@pytest.mark.parametrize(
    ("torchvision", "torch", "faulty"),
    [("0.19.1", "2.4.1", False), ("0.20.1+cpu", "2.5.1", True), ("0.21.0", "2.6.0", False)],
)
def test_the_leak_of_webp_images(torchvision: str, torch: str, faulty: bool) -> None:
    software = make_software(torch=torch, torchvision=torchvision, torchvision_needs=f"=={torch}")
    findings = found(make_machine(software=software))
    assert ("setup.known_fault" in findings) == faulty
    if faulty:
        finding = findings["setup.known_fault"]
        assert finding.title == "torchvision 0.20.1+cpu decodes WebP images with a leak"
        assert "torchvision 0.21 or later" in finding.remedy
        assert finding.severity == "info"


@pytest.mark.parametrize(
    ("python", "torchvision", "faulty"),
    [
        ("3.14.0", "0.25.0", False),
        ("3.14.1", "0.25.0", True),
        ("3.14.1", None, False),
        ("3.14.2", "0.25.0", False),
    ],
)
def test_the_python_that_breaks_torchvision(
    python: str, torchvision: str | None, faulty: bool
) -> None:
    software = make_software(python=python, torchvision=torchvision, torchvision_needs=None)
    findings = found(make_machine(software=software))
    assert ("setup.known_fault" in findings) == faulty
    if faulty:
        assert findings["setup.known_fault"].severity == "warning"
        assert findings["setup.known_fault"].remedy == "upgrade to Python 3.14.2 or later"


def test_forkserver_is_told_where_it_is_new() -> None:
    host = make_host(python_version="3.14.0", start_method="forkserver")
    finding = found(make_machine(host=host))["start_method"]
    assert finding.severity == "info"
    assert "Python 3.14.0 starts workers by forkserver" in finding.title
    assert "__main__" in finding.why


# --- GPUs


def test_torch_without_cuda_beside_a_gpu() -> None:
    machine = make_machine(gpus=Gpus((H100, H100), "570.1", 2))
    finding = found(machine)["setup.torch_without_gpu"]
    assert finding.severity == "warning"
    assert finding.title == f"torch 2.6.0 is built without CUDA; here is 2 × {H100}"


@pytest.mark.parametrize(
    ("build", "driver", "old"),
    [
        ("cuda 12.4", "525.60.13", False),
        ("cuda 12.4", "470.86", True),
        ("cuda 13.0", "575.51", True),
        ("cuda 13.0", "580.65.06", False),
        ("cuda 14.0", "100.1", False),  # what that needs is not known here
        ("rocm 6.2", "470.86", False),
        (None, "470.86", False),
    ],
)
def test_drivers_too_old_for_torchs_cuda(build: str | None, driver: str, old: bool) -> None:
    software = make_software(build=build)
    machine = make_machine(gpus=Gpus((H100,), driver, 1), software=software)
    assert ("setup.driver_too_old" in found(machine)) == old
    compatible = make_software(build=build, cuda_compat=True)
    helped = make_machine(gpus=Gpus((H100,), driver, 1), software=compatible)
    assert "setup.driver_too_old" not in found(helped)


def test_gpus_that_cannot_be_used_here_are_only_told() -> None:
    cuda = make_software(build="cuda 12.4")
    given_none = container(gpus=Gpus((H100,), "570.1", 0), software=cuda)
    finding = found(given_none)["gpu_unreachable"]
    assert finding.severity == "info"
    assert "this container was given none" in finding.title
    for value in ("", "-1", "NoDevFiles"):
        hidden = make_machine(
            gpus=Gpus((H100,), "570.1", 1),
            software=cuda,
            environment={"CUDA_VISIBLE_DEVICES": value},
        )
        title = found(hidden)["gpu_hidden"].title
        assert title == f'CUDA_VISIBLE_DEVICES="{value}" hides {H100} from torch'


@pytest.mark.parametrize(
    ("use", "told"),
    [
        (GpuUse(80 * GIB, 60 * GIB, 0.0), "60.0 GiB of 80.0 GiB is taken, and it works 0 %"),
        (GpuUse(None, None, 0.9), "it works 90 % of the time"),
        (GpuUse(8 * GIB, GIB, 0.1), None),
        (GpuUse(), None),
    ],
)
def test_a_gpu_that_is_in_use(use: GpuUse, told: str | None) -> None:
    machine = make_machine(
        gpus=Gpus((H100, H100), "570.1", 2, (GpuUse(80 * GIB, 0, 0.0), use)),
        software=make_software(build="cuda 12.4"),
    )
    findings = found(machine)
    if told is None:
        assert "gpu_in_use" not in findings
    else:
        assert told in findings["gpu_in_use"].title
        assert findings["gpu_in_use"].severity == "info"
