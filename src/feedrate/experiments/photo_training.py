"""Trains a small network on a folder of JPEG photographs: the script that feedrate demo tunes.

Plain PyTorch and torchvision, written as one writes it for oneself. The demo puts a copy of it
beside its photographs as train.py, anew each time: to change it, change a copy under another name.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

IMAGE_SIZE = 128
CLASSES = 2


def make_loader(folder: str, batch_size: int = 32) -> DataLoader[Any]:
    """Return a loader that shuffles, decodes and augments the photographs of ``folder``.

    Raises:
        FileNotFoundError: there are no photographs in it.
    """
    from torchvision.datasets import ImageFolder
    from torchvision.transforms import v2

    augment = v2.Compose(
        [
            v2.RandomResizedCrop(IMAGE_SIZE, antialias=True),
            v2.RandomHorizontalFlip(),
            v2.ColorJitter(brightness=0.2, contrast=0.2, saturation=0.2),
            v2.ToImage(),
            v2.ToDtype(torch.float32, scale=True),
        ]
    )
    dataset = ImageFolder(folder, transform=augment)
    return DataLoader(dataset, batch_size=batch_size, shuffle=True)


class TrainingStep:
    """Copy to the device, forward, backward, SGD: one batch at each call."""

    def __init__(self, device: torch.device, batch_size: int) -> None:
        self.device = device
        self.model = nn.Sequential(
            nn.Conv2d(3, 16, kernel_size=7, stride=4, padding=3),
            nn.ReLU(),
            nn.Conv2d(16, 32, kernel_size=3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 64, kernel_size=3, stride=2, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(64, CLASSES),
        ).to(device)
        self._batch_size = batch_size
        self._optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self._loss = nn.CrossEntropyLoss()

    def __call__(self, batch: list[Tensor]) -> Any:
        """Train on ``batch``, images of (n, 3, 128, 128) and classes of (n); return the loss."""
        images, classes = (part.to(self.device, non_blocking=True) for part in batch)
        self._optimizer.zero_grad()
        loss = self._loss(self.model(images), classes)
        loss.backward()
        self._optimizer.step()
        return loss.detach()

    def feedrate_warm_up(self) -> None:
        """Train once on a synthetic batch; feedrate bench calls it before it measures."""
        images = torch.rand(self._batch_size, 3, IMAGE_SIZE, IMAGE_SIZE)
        self([images, torch.arange(self._batch_size) % CLASSES])


def pick_device(name: str) -> torch.device:
    """Return the named device; "auto" is the accelerator if there is one, else the CPU."""
    if name != "auto":
        return torch.device(name)
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


def make_run(
    folder: str, batch_size: int = 32, device: str = "auto"
) -> tuple[DataLoader[Any], TrainingStep]:
    """Return the loader and the training step; errors as `make_loader`.

    Without an accelerator the step computes on one CPU, and leaves the others to the workers.
    """
    where = pick_device(device)
    if where.type == "cpu":
        torch.set_num_threads(1)
    return make_loader(folder, batch_size), TrainingStep(where, batch_size)


def main() -> None:
    """Train for a number of epochs on the photographs beside this file."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    epochs = parser.parse_args().epochs
    folder = Path(__file__).resolve().parent / "photos"
    try:
        loader, step = make_run(str(folder))
    except FileNotFoundError:
        sys.exit(f"{folder} holds no photographs: feedrate demo makes them")
    for epoch in range(epochs):
        loss = torch.zeros(())
        for batch in loader:
            loss = step(batch)
        print(f"epoch {epoch + 1} of {epochs}: loss {loss:.3f}")  # noqa: T201


if __name__ == "__main__":
    main()
