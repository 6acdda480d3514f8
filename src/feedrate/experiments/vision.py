"""The experiments' own dependency: torchvision and Pillow, which are an extra.

Looked for without importing them, so that the command can ask before it starts a child.
"""

from __future__ import annotations

from importlib.util import find_spec

from feedrate.errors import MissingExtra

_PACKAGES = {"torchvision": "torchvision", "PIL": "Pillow"}


def require_vision(purpose: str) -> None:
    """Return if torchvision and Pillow are installed.

    Args:
        purpose: what needs them, as the subject of the error's sentence.

    Raises:
        MissingExtra: one of them is not installed; the sentence has the install command.
    """
    missing = [name for module, name in _PACKAGES.items() if find_spec(module) is None]
    if missing:
        raise MissingExtra(
            f"{purpose} needs {' and '.join(missing)}: run pip install 'feedrate[vision]'"
        )
