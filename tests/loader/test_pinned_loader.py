"""Loaders with real workers whose batches are pinned in place, for a device that is a fake."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import elastic_datasets as ds
from fake_device import FakeDevice, FakePinning

from feedrate.loader import in_place, torch_private
from feedrate.loader import pinning as pinning_module
from feedrate.loader.allowance import Allowance
from feedrate.loader.dataloader import DataLoader
from feedrate.loader.pinning import Pinning, find_pinning

pytestmark = pytest.mark.torch


class Pair:
    """A batch class of a user's own."""

    def __init__(self, items: list[Any]) -> None:
        self.data = torch.stack([item[0] for item in items])
        self.pinned_by = "nobody"

    def pin_memory(self) -> Pair:
        self.data = self.data.pin_memory()
        self.pinned_by = threading.current_thread().name
        return self


class Images(torch.utils.data.Dataset):
    """Item i is full of i, and large enough for a slot."""

    def __init__(self, length: int = 60, kills: str | None = None) -> None:
        self.length = length
        self.kills = kills

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        if self.kills is not None and index == 21:
            mark = Path(self.kills)
            if not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return torch.full((64, 64), float(index)), index


class Installed:
    def __init__(self, device: FakeDevice, copies: FakePinning, pinning: Pinning) -> None:
        self.device = device
        self.copies = copies
        self.pinning = pinning


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Installed]:
    """A fake accelerator, for which batches are pinned in place."""
    device = FakeDevice()
    copies = FakePinning(device)
    pinning = Pinning(device)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda t, device=None: copies(t))
    monkeypatch.setattr(in_place, "find_pinning", lambda kind: pinning if pinning.works else None)
    yield Installed(device, copies, pinning)
    device.finish()
    for _ in range(3):
        gc.collect()  # a loader that an error holds
        pinning.settle()
    assert device.registered.keys() == copies.addresses
    assert device.wrong == []


def train(loader: Any, device: FakeDevice, changes: dict[int, Any] | None = None) -> list[int]:
    """Copy every batch to the device, which is some batches behind; return the items."""
    seen = []
    for count, (images, numbers) in enumerate(loader):
        assert device.is_pinned(images)
        device.copy(images, count % 3)
        if count % 2:
            device.run((count - 5) % 3, 2)
        assert (images == numbers.view(-1, 1, 1)).all()
        seen += numbers.tolist()
        if changes and count in changes:
            changes[count]()
    return seen


@pytest.mark.parametrize("persistent", [False, True])
def test_batches_are_pinned_as_they_arrive_without_a_thread(
    installed: Installed, persistent: bool
) -> None:
    before = threading.active_count()
    loader = DataLoader(
        Images(), batch_size=4, num_workers=2, pin_memory=True, persistent_workers=persistent
    )
    for _ in range(3):
        assert train(loader, installed.device) == list(range(60))
        assert threading.active_count() == before
    # The numbers of a batch are in its slot too.
    assert installed.copies.copied == 0


def test_growing_and_shrinking(installed: Installed) -> None:
    loader = DataLoader(
        Images(200), batch_size=4, num_workers=2, pin_memory=True, persistent_workers=True
    )
    changes = {5: loader.grow, 15: loader.shrink, 20: lambda: loader.grow(2)}
    for _ in range(2):
        assert train(loader, installed.device, changes) == list(range(200))


def test_kills(installed: Installed, tmp_path: Path) -> None:
    loader = DataLoader(
        Images(kills=str(tmp_path / "mark")),
        batch_size=4,
        num_workers=2,
        pin_memory=True,
        on_worker_death="replace",
    )
    assert train(loader, installed.device) == list(range(60))
    assert loader.stats().restarts == 1


def test_all_batches_kept_and_copied_at_the_end(installed: Installed) -> None:
    batches = list(DataLoader(Images(), batch_size=4, num_workers=2, pin_memory=True))
    for images, _ in batches:
        installed.device.copy(images, 0)
    del images
    assert [int(i) for _, numbers in batches for i in numbers] == list(range(60))
    batches.clear()
    train(DataLoader(Images(), batch_size=4, num_workers=2, pin_memory=True), installed.device)


def test_what_is_in_no_slot_is_pinned_as_torch_does_it(installed: Installed) -> None:
    loader = DataLoader(ds.Numbers(40), batch_size=4, num_workers=2, pin_memory=True)
    seen = []
    for tensors, numbers in loader:
        assert installed.device.is_pinned(tensors)
        seen += numbers.tolist()
    assert seen == list(range(40))


def test_batch_classes_pin_themselves_once(installed: Installed) -> None:
    loader = DataLoader(Images(), batch_size=4, num_workers=2, pin_memory=True, collate_fn=Pair)
    for batch in loader:
        assert type(batch) is Pair
        assert batch.pinned_by == threading.current_thread().name
        assert installed.device.is_pinned(batch.data)
    assert installed.copies.copied == 0


class Unpinnable(Pair):
    def pin_memory(self) -> Pair:
        raise KeyError("no such memory")


def test_errors_of_pinning_are_raised_as_torch_raises_them(installed: Installed) -> None:
    loader = DataLoader(
        Images(), batch_size=4, num_workers=2, pin_memory=True, collate_fn=Unpinnable
    )
    with pytest.raises(KeyError, match="in pin memory thread for device"):
        next(iter(loader))


def test_errors_of_workers_pass(installed: Installed) -> None:
    with pytest.raises(KeyError):
        list(DataLoader(ds.Raises(), batch_size=8, num_workers=2, pin_memory=True))


def test_past_the_allowance_private_copies_are_pinned_by_torch(
    installed: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pinning_module, "allowance", Allowance(limit=500_000))
    with pytest.warns(UserWarning, match="the batches that are kept"):
        kept = list(DataLoader(Images(), batch_size=4, num_workers=2, pin_memory=True))
    assert all(installed.device.is_pinned(images) for images, _ in kept)
    assert installed.copies.copied >= 2 * 5
    assert [int(i) for _, numbers in kept for i in numbers] == list(range(60))


def test_when_the_device_refuses_a_thread_takes_over(installed: Installed) -> None:
    installed.device.most = 2 * 2**20
    loader = DataLoader(
        Images(200), batch_size=16, num_workers=2, pin_memory=True, persistent_workers=True
    )
    threads = set()
    seen = []
    kept = []
    for images, numbers in loader:
        assert installed.device.is_pinned(images)
        installed.device.copy(images, 0)
        kept.append(images)
        seen += numbers.tolist()
        threads |= {thread.name for thread in threading.enumerate()}
    assert seen == list(range(200))
    assert 0 < installed.device.registrations <= 2
    assert not installed.pinning.works
    assert "feedrate_pin_memory" in threads
    assert train(loader, installed.device) == list(range(200))
    # A loader that begins now has torch's way from the start.
    again = DataLoader(Images(), batch_size=4, num_workers=1, pin_memory=True)
    iterator = iter(again)
    assert iterator._pin_memory_thread.name == "feedrate_pin_memory"
    assert len(list(iterator)) == 15


def test_arrays_may_be_read_by_the_device_too(installed: Installed) -> None:
    loader = DataLoader(
        Images(), batch_size=4, num_workers=2, pin_memory=True, collate_fn=to_arrays
    )
    for count, array in enumerate(loader):
        installed.device.copy(torch.from_numpy(array), count % 3)
        assert (array[0] == 4 * count).all()
        del array


def to_arrays(items: list[Any]) -> Any:
    return np.stack([item[0].numpy() for item in items] * 4)


def test_other_transports_and_other_devices_have_torchs_thread(
    installed: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = DataLoader(Images(), batch_size=4, num_workers=1, pin_memory=True, transport="torch")
    iterator = iter(loader)
    assert iterator._pin_memory_thread.is_alive()
    assert len(list(iterator)) == 15
    monkeypatch.setattr(torch_private, "can_use_cuda", lambda: True)
    monkeypatch.setattr(pinning_module, "_cuda", lambda: installed.pinning)
    for kind in ("xpu", "mps", "privateuseone:0"):
        assert find_pinning(kind) is None
    for kind in ("cuda", "cuda:1", "", None):
        assert find_pinning(kind) is installed.pinning
    installed.pinning.refused = True
    assert find_pinning("cuda") is None
    installed.pinning.refused = False
    monkeypatch.setattr(torch_private, "can_use_cuda", lambda: False)
    assert find_pinning("cuda") is None


EXIT = """
    import sys
    sys.path.insert(0, {folder!r})
    import torch
    from fake_device import FakeDevice
    from feedrate.loader import in_place
    from feedrate.loader.dataloader import DataLoader
    from feedrate.loader.pinning import Pinning
    class Images(torch.utils.data.Dataset):
        def __len__(self): return 60
        def __getitem__(self, i): return torch.full((64, 64), float(i)), i
    if __name__ == "__main__":
        device = FakeDevice()
        pinning = Pinning(device)
        torch.accelerator.is_available = lambda: True
        torch.accelerator.current_accelerator = lambda: torch.device("cuda")
        torch.Tensor.pin_memory = lambda tensor, device=None: tensor
        in_place.find_pinning = lambda kind: pinning
        loader = DataLoader(Images(), batch_size=4, num_workers=2, pin_memory=True,
                            persistent_workers={persistent})
        iterator = iter(loader)
        kept = [next(iterator) for _ in range(5)]
        for images, _ in kept[:3]:
            device.copy(images, 0)
        del kept[:2]
        {end}
"""


@pytest.mark.parametrize(("persistent", "end"), [(True, "pass"), (False, "del loader, iterator")])
def test_interpreter_exit_with_copies_under_way(persistent: bool, end: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    folder = str(Path(__file__).parent)
    script.write_text(textwrap.dedent(EXIT).format(folder=folder, persistent=persistent, end=end))
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
