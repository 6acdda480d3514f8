from __future__ import annotations

import subprocess
import sys

import pytest

from feedrate.errors import MissingExtra
from feedrate.experiments import vision


def test_each_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vision, "find_spec", lambda name: object() if name == "PIL" else None)
    with pytest.raises(MissingExtra) as caught:
        vision.require_vision("The demo")
    assert str(caught.value) == ("The demo needs torchvision: run pip install 'feedrate[vision]'")


def test_nothing_is_said_where_all_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vision, "find_spec", lambda name: object())
    vision.require_vision("The demo")


def test_what_the_command_uses_imports_no_torch() -> None:
    code = (
        "import sys; from feedrate.experiments import idx, photos, published, vision; "
        "vision.find_spec('torchvision'); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
