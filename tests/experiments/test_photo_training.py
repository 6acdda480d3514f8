from __future__ import annotations

from pathlib import Path

import pytest

from feedrate.errors import TargetError

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")

from feedrate.experiments import photo_training, photos


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(photos.make_photos(tmp_path_factory.mktemp("photos"), count=20))


def test_batches_are_what_the_step_takes(folder: str) -> None:
    loader, step = photo_training.make_run(folder, batch_size=8, device="cpu")
    before = [parameter.clone() for parameter in step.model.parameters()]
    sizes = []
    for batch in loader:
        images, classes = batch
        assert images.shape[1:] == (3, 128, 128)
        assert images.dtype == torch.float32
        assert 0 <= images.min() < images.max() <= 1
        sizes.append(len(classes))
        step(batch)
    assert sizes == [8, 8, 4]
    after = list(step.model.parameters())
    assert all(not torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_the_warm_up_is_a_step_of_the_same_shape(folder: str) -> None:
    loader, step = photo_training.make_run(folder, batch_size=8, device="cpu")
    seen = []
    step.model.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].shape))
    step.feedrate_warm_up()
    step(next(iter(loader)))
    assert seen == [(8, 3, 128, 128)] * 2


def test_classes_are_the_folders(folder: str) -> None:
    loader = photo_training.make_loader(folder)
    assert tuple(loader.dataset.classes) == photos.CLASSES
    assert len(loader.dataset) == 20


def test_a_folder_without_photographs_is_one_sentence(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(TargetError, match="feedrate demo makes them"):
            photo_training.make_loader(str(folder))
