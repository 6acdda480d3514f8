"""Folders of classes: which are classes, and which numbers they have."""

from __future__ import annotations

from pathlib import Path

import pytest

from feedrate.errors import UsageError
from feedrate.remedies.image_listing import list_folder


def folder_of(root: Path, **images: int) -> Path:
    """Make a folder for each class with so many (empty) image files."""
    for name, count in images.items():
        (root / name).mkdir(parents=True)
        for number in range(count):
            (root / name / f"{number}.jpg").touch()
    return root


def test_a_class_without_images_would_change_the_others_numbers(tmp_path: Path) -> None:
    assert list_folder(folder_of(tmp_path / "train", a=1, b=1, c=1))[1] == ("a", "b", "c")
    validation = folder_of(tmp_path / "val", a=1, b=0, c=1)
    with pytest.raises(UsageError) as caught:
        list_folder(validation)
    sentence = str(caught.value)
    assert f" in b of {validation}, " in sentence
    assert "ImageFiles.from_table" in sentence


def test_not_all_of_many_are_named(tmp_path: Path) -> None:
    folder_of(tmp_path, full=1, **{f"empty{number}": 0 for number in range(5)})
    with pytest.raises(UsageError, match="in empty0, empty1, empty2 and 2 more of"):
        list_folder(tmp_path)


@pytest.mark.parametrize("name", [".ipynb_checkpoints", "__MACOSX", "@eaDir", "lost+found"])
@pytest.mark.parametrize("count", [0, 1])
def test_folders_that_programs_make_are_no_classes(tmp_path: Path, name: str, count: int) -> None:
    folder_of(tmp_path, **{"cat": 2, name: count, f"cat/{name}": count})
    rows, classes = list_folder(tmp_path)
    assert classes == ("cat",)
    assert rows == [(str(tmp_path / "cat" / f"{number}.jpg"), 0) for number in range(2)]


def test_other_names_with_underscores_are_classes(tmp_path: Path) -> None:
    assert list_folder(folder_of(tmp_path, __background__=1, cat=1))[1] == ("__background__", "cat")


def test_where_no_folder_has_images_those_beside_it_have_no_classes(tmp_path: Path) -> None:
    folder_of(tmp_path, notes=0)
    (tmp_path / "a.jpg").touch()
    assert list_folder(tmp_path) == ([(str(tmp_path / "a.jpg"), 0)], ())
