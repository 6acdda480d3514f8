from __future__ import annotations

import pytest

from feedrate.doctor.package_versions import meets, release


@pytest.mark.parametrize(
    ("version", "numbers"),
    [
        ("2.4.1+cu121", (2, 4, 1)),
        ("2.4.0", (2, 4)),
        ("2.7.0.dev20250101", (2, 7)),
        ("0.21", (0, 21)),
        ("unknown", ()),
        ("", ()),
    ],
)
def test_the_numbers_of_a_version(version: str, numbers: tuple[int, ...]) -> None:
    assert release(version) == numbers


@pytest.mark.parametrize(
    ("version", "wishes", "answer"),
    [
        ("2.4.0", "==2.4.0", True),
        ("2.4.0+cu121", "==2.4", True),
        ("2.4.1", "==2.4.0", False),
        ("2.14.1", ">=2.14.0", True),
        ("2.9", ">=2.14.0", False),
        ("2.9", ">=2.4,<3", True),
        ("3.0", ">=2.4,<3", False),
        ("2.4.0", "<=2.4", True),
        ("2.4.0", ">2.4", False),
        ("2.4.0", "~=2.4", None),
        ("2.4.0", "==2.4.*", None),
        ("2.4.0", "==2.4.0a1", None),
        ("2.7.0.dev20250101", "==2.6.0", None),
        ("2.4.0a0+git1234", "==2.6.0", None),
    ],
)
def test_whether_a_version_is_what_is_asked_for(
    version: str, wishes: str, answer: bool | None
) -> None:
    assert meets(version, wishes) is answer
