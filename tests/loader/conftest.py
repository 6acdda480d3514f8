"""Datasets for the elastic loader, at module level so that spawned workers can import them."""

from __future__ import annotations

import logging
import random
import warnings
from collections.abc import Iterator
from importlib.util import find_spec

import pytest


@pytest.fixture(autouse=True)
def quiet_suggestion() -> Iterator[None]:
    """torch warns of more workers than CPUs, which these tests have on purpose."""
    logging.getLogger("feedrate").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork")
        yield
    logging.getLogger("feedrate").setLevel(logging.NOTSET)


@pytest.fixture(autouse=True)
def same_seeds() -> None:
    random.seed(0)
    if find_spec("torch") is not None:
        import torch

        torch.manual_seed(0)
