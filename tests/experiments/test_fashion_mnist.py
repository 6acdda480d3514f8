from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from feedrate.errors import TargetError

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")
torchvision = pytest.importorskip("torchvision")

from feedrate.experiments import fashion_mnist, idx

BATCHES = 3


@contextlib.contextmanager
def batches(loader: Any) -> Iterator[Iterator[Any]]:
    """The first few batches; the workers are gone afterwards."""
    iterator = iter(loader)
    try:
        yield islice(iterator, BATCHES)
    finally:
        if loader.num_workers:
            iterator._shutdown_workers()


def test_the_model_has_the_published_number_of_parameters() -> None:
    model = fashion_mnist.make_model()
    assert sum(parameter.numel() for parameter in model.parameters()) == 105_866
    assert model(torch.zeros(2, 1, 28, 28)).shape == (2, 10)


@pytest.mark.parametrize(("train", "count"), [(True, 60_000), (False, 10_000)])
def test_torchvision_reads_the_synthetic_files(synthetic: Path, train: bool, count: int) -> None:
    dataset = torchvision.datasets.FashionMNIST(str(synthetic), train=train, download=False)
    assert len(dataset) == count
    assert dataset.data.shape == (count, 28, 28)
    image, label = dataset[count - 1]
    assert image.size == (28, 28)
    assert label in range(10)


@pytest.mark.parametrize("condition", ["light", "augmented"])
@pytest.mark.parametrize("workers", [0, 2])
def test_the_step_trains_on_the_loader_s_batches(
    synthetic: Path, condition: str, workers: int
) -> None:
    loader, step = fashion_mnist.make_run(str(synthetic), condition, device="cpu")
    assert (loader.num_workers, loader.batch_size, len(loader)) == (0, 256, 235)
    loader.num_workers = workers
    loader.prefetch_factor = 2 if workers else None
    step.feedrate_warm_up()
    before = [parameter.clone() for parameter in step.model.parameters()]
    labels_seen = []
    with batches(loader) as few:
        for batch in few:
            images, labels = batch
            assert images.shape == (256, 1, 28, 28)
            assert images.dtype == torch.float32
            labels_seen.append(labels)
            step(batch)
    assert len(labels_seen) == BATCHES
    assert len(torch.cat(labels_seen).unique()) == 10  # shuffled
    after = list(step.model.parameters())
    assert all(not torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_the_labels_can_be_learnt(synthetic: Path) -> None:
    torch.manual_seed(0)
    loader, step = fashion_mnist.make_run(str(synthetic), "light", images=10_240, device="cpu")
    for batch in loader:
        step(batch)
    images, labels = next(iter(loader))
    hits = (step.model(images).argmax(dim=1) == labels).float().mean()
    assert hits > 0.5  # chance: 0.1


def test_only_the_augmented_condition_changes_images(synthetic: Path) -> None:
    for condition, same in (("light", True), ("augmented", False)):
        loader, _ = fashion_mnist.make_run(str(synthetic), condition, device="cpu")
        assert torch.equal(loader.dataset[0][0], loader.dataset[0][0]) is same


def test_a_short_pass_reads_fewer_images(synthetic: Path) -> None:
    loader, _ = fashion_mnist.make_run(str(synthetic), "light", images=600, device="cpu")
    assert (len(loader.dataset), len(loader)) == (600, 3)


def test_the_warm_up_is_a_step_of_the_same_shape(synthetic: Path) -> None:
    loader, step = fashion_mnist.make_run(str(synthetic), "light", batch_size=32, device="cpu")
    seen = []
    step.model.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].shape))
    step.feedrate_warm_up()
    step(next(iter(loader)))
    assert seen == [(32, 1, 28, 28)] * 2


def test_float32_is_not_tf32(synthetic: Path) -> None:
    torch.backends.cudnn.allow_tf32 = True
    fashion_mnist.make_run(str(synthetic), "light", device="cpu")
    assert torch.backends.cudnn.allow_tf32 is False
    assert torch.backends.cuda.matmul.allow_tf32 is False


def test_missing_files_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="--synthetic"):
        fashion_mnist.make_run(str(tmp_path), "light")


def test_an_unknown_condition_names_those_there_are(synthetic: Path) -> None:
    with pytest.raises(TargetError, match="'light' or 'augmented'"):
        fashion_mnist.make_run(str(synthetic), "dark")


def test_files_are_those_that_torchvision_looks_for(synthetic: Path) -> None:
    names = {Path(name).stem for name, _ in torchvision.datasets.FashionMNIST.resources}
    assert names == {file.name for file in idx.FILES}
