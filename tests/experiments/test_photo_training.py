from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")

from feedrate.experiments import photo_training, photos
from feedrate.measure import wire
from feedrate.measure.executor import SubprocessExecutor
from feedrate.settings import LoaderSettings

SOURCE = Path(photo_training.__file__)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(photos.make_photos(tmp_path_factory.mktemp("demo") / "photos", count=20))


@pytest.fixture
def script(folder: str) -> Path:
    return Path(shutil.copy(SOURCE, Path(folder).with_name("train.py")))


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
    assert len(photos.CLASSES) == photo_training.CLASSES
    assert len(loader.dataset) == 20


def test_a_folder_without_photographs_is_one_sentence(tmp_path: Path) -> None:
    script = shutil.copy(SOURCE, tmp_path / "train.py")
    for _ in range(2):
        ended = subprocess.run(
            [sys.executable, script], capture_output=True, text=True, check=False
        )
        assert ended.returncode == 1
        assert (
            ended.stderr
            == f"{tmp_path / 'photos'} holds no photographs: feedrate demo makes them\n"
        )
        (tmp_path / "photos").mkdir(exist_ok=True)


def test_the_script_trains_by_itself(script: Path) -> None:
    ended = subprocess.run(
        [sys.executable, script, "--epochs", "2"], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert [line.partition(":")[0] for line in ended.stdout.splitlines()] == [
        "epoch 1 of 2",
        "epoch 2 of 2",
    ]


def test_a_tune_finds_the_call_that_apply_is_to_change(script: Path) -> None:
    edit = pytest.importorskip("feedrate.edit.editing")
    spec = wire.ChildSpec(
        target=str(script),
        settings=None,
        epochs=1,
        script=wire.ScriptSpec(place=str(script), argv=("--epochs", "10000")),
        session=wire.Look(seconds=0.1),
    )
    outcome = SubprocessExecutor().execute(spec, timeout=60, on_message=lambda _: None)
    assert outcome.error is None
    assert {window.phase for window in outcome.windows} == {"own", "cached"}
    assert outcome.used is not None
    (loader,) = outcome.used.loaders
    assert (loader.file, loader.facts.num_workers) == (str(script), 0)
    assert loader.optimizer_steps > 0
    assert loader.line is not None
    changed = edit.edit_call(
        script.read_text(),
        loader.line,
        LoaderSettings(num_workers=2, persistent_workers=True),
        facts=(loader.facts,),
    )
    assert "num_workers=2" in changed.source
    assert changed.notes == ()
