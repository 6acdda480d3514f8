"""The demo's target: a small network that learns from a folder of JPEG photographs.

Written as one would write it for one's own training, since the demo shows what feedrate finds in
code like this. Imports torch: for children only.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from feedrate.errors import TargetError
from feedrate.experiments.devices import pick_device
from feedrate.experiments.photos import CLASSES
from feedrate.experiments.vision import require_vision

IMAGE_SIZE = 128


def make_loader(folder: str, batch_size: int = 32) -> DataLoader[Any]:
    """Return a loader that shuffles, decodes and augments the photographs of ``folder``.

    Raises:
        TargetError: there are no photographs in it.
        MissingExtra: torchvision or Pillow is not installed.
    """
    require_vision("The demo")
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
    try:
        dataset = ImageFolder(folder, transform=augment)
    except FileNotFoundError as error:
        raise TargetError(f"{folder} holds no photographs: feedrate demo makes them") from error
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
            nn.Linear(64, len(CLASSES)),
        ).to(device)
        self._batch_size = batch_size
        self._optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self._loss = nn.CrossEntropyLoss()

    def __call__(self, batch: list[Tensor]) -> None:
        """Train on ``batch``: images of (n, 3, 128, 128) and classes of (n)."""
        images, classes = (part.to(self.device, non_blocking=True) for part in batch)
        self._optimizer.zero_grad()
        self._loss(self.model(images), classes).backward()
        self._optimizer.step()

    def feedrate_warm_up(self) -> None:
        """Train once on a synthetic batch, so that one-off costs fall before the measuring."""
        images = torch.rand(self._batch_size, 3, IMAGE_SIZE, IMAGE_SIZE)
        self([images, torch.arange(self._batch_size) % len(CLASSES)])


def make_run(
    folder: str, batch_size: int = 32, device: str = "auto"
) -> tuple[DataLoader[Any], TrainingStep]:
    """Return the demo's loader and its training step; errors as `make_loader`.

    Without an accelerator the step computes on one CPU, and leaves the others to the workers.
    """
    where = pick_device(device)
    if where.type == "cpu":
        torch.set_num_threads(1)
    return make_loader(folder, batch_size), TrainingStep(where, batch_size)
