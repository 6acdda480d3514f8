"""The workload of the published worker sweep. Imports torch and torchvision: for children only.

Source: benchmarks/reference/published_sweep.json, "workload" and the two "transform"s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from feedrate.errors import TargetError
from feedrate.experiments import idx
from feedrate.experiments.devices import pick_device
from feedrate.experiments.published import AUGMENTED, BATCH_SIZE, LIGHT
from feedrate.experiments.steady_step import steady_cpu_step
from feedrate.experiments.vision import require_vision

Batch = list[Tensor]


def make_run(
    data_dir: str,
    condition: str,
    batch_size: int = BATCH_SIZE,
    images: int | None = None,
    device: str = "auto",
) -> tuple[DataLoader[Any], TrainingStep]:
    """Return the experiment's loader, without workers yet, and its training step.

    Without an accelerator the step computes on one CPU and keeps the memory that it has had.

    Args:
        data_dir: the folder that holds ``FashionMNIST/raw``; nothing is downloaded.
        condition: "light" (ToTensor) or "augmented" (random crop and rotation before it).
        batch_size: images in a batch.
        images: only so many of the 60,000, for a short pass.
        device: where the step runs; "auto" takes the accelerator if there is one.

    Raises:
        TargetError: the files are not there, or there is no such condition.
        MissingExtra: torchvision is not installed.
    """
    require_vision("The FashionMNIST experiment")
    transform = _make_transform(condition)
    from torchvision.datasets import FashionMNIST

    if not idx.present(data_dir):
        raise TargetError(
            f"FashionMNIST's four files are not in {idx.raw_folder(data_dir)}: let feedrate bench "
            "fashion-mnist fetch them, or pass --synthetic"
        )
    dataset = FashionMNIST(data_dir, train=True, transform=transform, download=False)
    if images is not None:
        # cut here and not by a Subset, which would add a call to each item
        dataset.data, dataset.targets = dataset.data[:images], dataset.targets[:images]
    _forbid_tf32()
    where = pick_device(device)
    if where.type == "cpu":
        steady_cpu_step()
    loader: DataLoader[Any] = DataLoader(dataset, batch_size=batch_size, shuffle=True)
    return loader, TrainingStep(where, batch_size)


def make_model() -> nn.Sequential:
    """Return the CNN: 105,866 parameters, images of (batch, 1, 28, 28) to (batch, 10) scores."""
    return nn.Sequential(
        nn.Conv2d(1, 16, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, 64),
        nn.ReLU(),
        nn.Linear(64, idx.CLASSES),
    )


class TrainingStep:
    """Copy to the device, forward, backward, Adam: one batch at each call, in float32.

    The device is not synchronized: whoever measures does so where it measures.
    """

    def __init__(self, device: torch.device, batch_size: int) -> None:
        self.device = device
        self.model = make_model().to(device).train()
        self._batch_size = batch_size
        self._optimizer = torch.optim.Adam(self.model.parameters())
        self._loss = nn.CrossEntropyLoss()

    def __call__(self, batch: Batch) -> None:
        """Train on ``batch``: images of (n, 1, 28, 28) and labels of (n)."""
        # only a copy from pinned memory can go on while the next batch is fetched
        images, labels = (part.to(self.device, non_blocking=part.is_pinned()) for part in batch)
        self._optimizer.zero_grad(set_to_none=True)
        self._loss(self.model(images), labels).backward()
        self._optimizer.step()

    def feedrate_warm_up(self) -> None:
        """Train once on a synthetic batch, so that one-off costs fall before the measuring."""
        images = torch.rand(self._batch_size, 1, idx.SIDE, idx.SIDE)
        self([images, torch.arange(self._batch_size) % idx.CLASSES])


def _forbid_tf32() -> None:
    """Float32 means float32: cuDNN's convolutions would use TF32 unless told."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


def _make_transform(condition: str) -> Callable[[Any], Tensor]:
    from torchvision import transforms

    if condition == LIGHT:
        steps = [transforms.ToTensor()]
    elif condition == AUGMENTED:
        steps = [
            transforms.RandomResizedCrop(idx.SIDE, scale=(0.75, 1.0)),
            transforms.RandomRotation(15),
            transforms.ToTensor(),
        ]
    else:
        raise TargetError(f"there is no condition {condition!r}: use {LIGHT!r} or {AUGMENTED!r}")
    compose: Callable[[Any], Tensor] = transforms.Compose(steps)
    return compose
