from __future__ import annotations

import pickle
import random

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from torch.utils.data import DataLoader, Dataset

from feedrate.loader.dataloader import DataLoader as ElasticLoader
from feedrate.remedies.seeds import seed_worker


class Draws(Dataset):  # type: ignore[type-arg]
    """Three numbers an item, one from each generator."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> tuple[float, float, float]:
        return random.random(), float(np.random.random()), float(torch.rand(()))


def epochs(count: int, kind: type = DataLoader, **options: object) -> list[list[list[float]]]:
    generator = torch.Generator().manual_seed(7)
    loader = kind(
        Draws(), batch_size=1, num_workers=2, worker_init_fn=seed_worker, generator=generator,
        **options,
    )  # fmt: skip
    return [[[float(part) for part in batch] for batch in loader] for _ in range(count)]


@pytest.mark.parametrize("kind", [DataLoader, ElasticLoader])
@pytest.mark.parametrize("persistent", [False, True])
def test_no_two_draws_are_equal(kind: type, persistent: bool) -> None:
    """Not in two workers, nor in two epochs, nor from two generators."""
    drawn = [
        number
        for epoch in epochs(3, kind, persistent_workers=persistent)
        for item in epoch
        for number in item
    ]
    assert len(set(drawn)) == 3 * 8 * 3


def test_the_same_seed_gives_the_same_items() -> None:
    assert epochs(2) == epochs(2)


def test_spawned_workers_can_load_it() -> None:
    assert pickle.loads(pickle.dumps(seed_worker)) is seed_worker


def test_the_whole_seed_counts() -> None:
    """Seeds that lie 2**32 apart are not the same for NumPy."""
    found = []
    state = torch.get_rng_state()
    try:
        for seed in (5, 5 + 2**32):
            torch.manual_seed(seed)
            seed_worker(0)
            found.append(np.random.random())
    finally:
        torch.set_rng_state(state)
    assert found[0] != found[1]
