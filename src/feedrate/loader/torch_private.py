"""The names of torch that are not public, all in this one file.

Each is looked up on the installed torch and has a fallback; nothing else in feedrate may lean on
a name of torch's that begins with an underscore. Seen in torch 2.4 to 2.14.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.utils.data import DataLoader


def forget_iterator(loader: DataLoader[Any]) -> None:
    """Drop the iterator that a loader with persistent workers keeps for its next epoch.

    A factory may have looked at a batch already; workers of the old settings must not be used on.
    """
    if getattr(loader, "_iterator", None) is not None:
        object.__setattr__(loader, "_iterator", None)


def set_checked_attribute(loader: DataLoader[Any], name: str, value: object) -> None:
    """Set an attribute that torch guards against changes once a loader is made.

    The guard protects loaders whose workers may be running; ours has not been iterated.
    """
    object.__setattr__(loader, name, value)
