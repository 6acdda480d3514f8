from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch
pytest.importorskip("torch")

FAULTS = """
import resource, statistics
import torch
from feedrate.experiments.fashion_mnist import TrainingStep
from feedrate.experiments.steady_step import steady_cpu_step
steady_cpu_step()
assert torch.get_num_threads() == 1
step = TrainingStep(torch.device("cpu"), 256)
faults = []
for _ in range(25):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    step.feedrate_warm_up()
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(statistics.median(faults))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's malloc only")
def test_a_step_does_not_fault_its_activations_in_again(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FAULTS], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    # the first convolution's output alone has 256 x 16 x 28 x 28 floats: 3,136 pages
    assert float(done.stdout) < 3136


def test_without_such_a_malloc_it_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from feedrate.experiments import steady_step

    def nothing(name: None) -> object:
        return object()

    monkeypatch.setattr(steady_step.ctypes, "CDLL", nothing)
    before = torch.get_num_threads()
    try:
        steady_step.steady_cpu_step()
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
