"""The kinds of work that the loader's benchmarks run on: datasets, batch sizes and steps."""

from __future__ import annotations

import io
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import Dataset

Step = Callable[[Any], None]


class Waits(Dataset):
    """Items that wait for storage, and then are a small tensor."""

    def __init__(self, seconds: float = 0.005, length: int = 10**7) -> None:
        self.seconds = seconds
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        time.sleep(self.seconds)
        return torch.full((3, 32, 32), float(index)), index


class Photographs(Dataset):
    """Decodes JPEG photographs from memory, and scales them with torchvision."""

    def __init__(self, length: int = 10**7) -> None:
        # Here, as a script has it at its top: in a worker it would take the first batch of each a
        # second, which is a start that no fixed number of workers pays again in its measured time.
        import torchvision.transforms.functional  # noqa: F401
        from matplotlib.cbook import get_sample_data
        from PIL import Image

        self.length = length
        with Image.open(get_sample_data("grace_hopper.jpg", asfileobj=False)) as whole:
            photo = whole.convert("RGB").resize((500, 375))
        buffer = io.BytesIO()
        photo.save(buffer, "JPEG", quality=90)
        self.data = buffer.getvalue()

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        from PIL import Image
        from torchvision.transforms.functional import pil_to_tensor

        with Image.open(io.BytesIO(self.data)) as photo:
            small = photo.convert("RGB").resize((160, 160))
        return pil_to_tensor(small), index


class Tiny(Dataset):
    """Items that cost next to nothing: a row of a tensor."""

    def __init__(self, length: int = 10**7) -> None:
        self.length = length
        self.rows = torch.rand(4096, 16)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.rows[index % 4096], index


class Big(Dataset):
    """Batches of 24 MiB: moving them costs more than making them."""

    def __init__(self, length: int = 10**7) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return torch.full((3, 256, 256), float(index)), index


class Uneven(Dataset):
    """Most items take 1 ms, one in thirty 60 ms: storage that stalls now and then."""

    def __init__(self, length: int = 10**7) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        slow = random.Random(index).random() < 1 / 30
        time.sleep(0.06 if slow else 0.001)
        return torch.zeros(64), index


class Texts(Dataset):
    """Sequences of very different length, padded by the collate function."""

    def __init__(self, length: int = 10**7) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        rng = random.Random(index)
        return torch.tensor([rng.randrange(30_000) for _ in range(rng.randrange(20, 400))])


def pad(items: list[torch.Tensor]) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence(items, batch_first=True)


class InMemory(Dataset):
    """A tensor dataset that hands out whole batches at once."""

    def __init__(self, length: int = 10**7) -> None:
        self.length = length
        self.images = torch.randint(0, 255, (2048, 3, 64, 64), dtype=torch.uint8)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.images[index % 2048], index

    def __getitems__(self, indices: list[int]) -> Any:
        return [self[index] for index in indices]


def no_step(batch: Any) -> None:
    """Take the batch and ask for the next."""


def sleeping_step(seconds: float) -> Step:
    """Return a step that leaves the CPUs alone, as an accelerator's does."""

    def step(batch: Any) -> None:
        time.sleep(seconds)

    return step


@dataclass(frozen=True)
class Work:
    """One kind of work."""

    name: str
    dataset: Dataset[Any]
    batch_size: int
    step: Step = no_step
    collate: Any = None

    def options(self, **more: Any) -> dict[str, Any]:
        """Return the loader's arguments."""
        options: dict[str, Any] = {"batch_size": self.batch_size, **more}
        if self.collate is not None:
            options["collate_fn"] = self.collate
        return options


KINDS: dict[str, Callable[[], Work]] = {
    "storage": lambda: Work("waits for storage (5 ms an item)", Waits(), 16, sleeping_step(0.008)),
    "jpeg": lambda: Work("decodes JPEG photographs", Photographs(), 32, sleeping_step(0.004)),
    "tiny": lambda: Work("tiny items", Tiny(), 256, sleeping_step(0.001)),
    "big": lambda: Work("big batches (24 MiB)", Big(), 32, sleeping_step(0.002)),
    "slow_step": lambda: Work("a slow step (60 ms)", Photographs(), 8, sleeping_step(0.06)),
    "uneven": lambda: Work("items of uneven cost", Uneven(), 8, sleeping_step(0.004)),
    "text": lambda: Work("text, padded", Texts(), 64, sleeping_step(0.004), pad),
    "memory": lambda: Work("tensors in memory", InMemory(), 128, sleeping_step(0.004)),
}
"""How each kind of work is made, by its short name."""


def all_work() -> list[Work]:
    """Return the eight kinds."""
    return [make() for make in KINDS.values()]


def rate(iterator: Any, step: Step, seconds: float, multiple: int = 1) -> float:
    """Return batches per second over at least ``seconds``, in whole multiples of batches."""
    count = 0
    start = time.perf_counter()
    while True:
        step(next(iterator))
        count += 1
        if count % multiple == 0:
            elapsed = time.perf_counter() - start
            if elapsed >= seconds:
                return count / elapsed
