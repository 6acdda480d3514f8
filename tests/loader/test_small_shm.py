"""Training where ``/dev/shm`` has no room: batches of 20 MB all the same."""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("torch")

pytestmark = [pytest.mark.torch, pytest.mark.needs_root]

TRAINING = """
    import sys
    import torch
    from torch.utils.data import Dataset
    if sys.argv[1] == "torch":
        from torch.utils.data import DataLoader
    else:
        from feedrate.loader.dataloader import DataLoader

    class Large(Dataset):
        def __len__(self):
            return 24

        def __getitem__(self, index):
            return torch.full((1_250_000,), float(index)), index

    if __name__ == "__main__":
        weight = torch.nn.Parameter(torch.zeros(1))
        optimizer = torch.optim.SGD([weight], lr=1e-6)
        seen = []
        for data, index in DataLoader(Large(), batch_size=4, num_workers=2):
            assert data.nbytes == 20_000_000
            assert bool((data == index[:, None]).all())
            seen += index.tolist()
            loss = (weight * data.mean() - 1).square().sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert seen == list(range(24)), seen
        print("trained", bool(weight > 0))
"""

SMALL = "mount -t tmpfs -o size=1m none /dev/shm"
# What is written until there is no room; dd ends with an error then, as it should.
FULL = (
    "mount -t tmpfs -o size=4m none /dev/shm; dd if=/dev/zero of=/dev/shm/rest bs=64k 2>/dev/null"
    "; test $(df --output=avail /dev/shm | tail -n 1) -eq 0"
)


def run(mount: str, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command with a ``/dev/shm`` of its own, which is gone with it."""
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", f'{{ {mount}; }} && exec "$@"', "sh", *command],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module", params=[SMALL, FULL], ids=["1 MB", "full"])
def mount(request: pytest.FixtureRequest) -> str:
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare to make a private mount with")
    tried = run(request.param, "true")
    if tried.returncode:
        pytest.skip(f"no private /dev/shm can be made: {tried.stderr.strip() or tried.returncode}")
    return str(request.param)


@pytest.fixture
def script(tmp_path: Path) -> str:
    file = tmp_path / "train.py"
    file.write_text(textwrap.dedent(TRAINING))
    return str(file)


def test_training_runs(mount: str, script: str) -> None:
    done = run(mount, sys.executable, script, "feedrate")
    assert (done.returncode, done.stdout, done.stderr) == (0, "trained True\n", "")


def test_the_limit_is_real_for_torchs_loader(mount: str, script: str) -> None:
    done = run(mount, sys.executable, script, "torch")
    assert done.returncode != 0
    assert "trained" not in done.stdout
    signs = ("No space left on device", "(28)", "Bus error", "shared memory")
    assert any(sign in done.stderr for sign in signs), done.stderr
