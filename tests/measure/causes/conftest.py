"""What is set aside for all tests is not for these, which look at how objects are held."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def nothing_set_aside() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.collect()
    gc.freeze()
