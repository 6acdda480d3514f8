"""Whether workers, and epochs, draw the same random numbers: tried with two workers, twice."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from feedrate.measure.examined import Randomness, Untried
from feedrate.measure.examining.digests import UNKNOWN, Digests, digest
from feedrate.measure.examining.probe import Place, Tell
from feedrate.measure.examining.twins import replaced, with_workers
from feedrate.measure.examining.walking import walk

_WORKERS = 2


def find_sources(loader: DataLoader[Any], indices: list[Any], tell: Tell, place: Place) -> None:
    """Tell which generators an item draws from; to be called in a probe.

    `Untried` where none of its items can be compared.
    """
    dataset: Any = loader.dataset
    states = _states(dataset)
    before = {name: read() for name, read in states.items()}
    known = False
    for number, index in enumerate(indices):
        place.at = index if isinstance(index, int) else number
        known = digest(dataset[index]) != UNKNOWN or known
    drawn = tuple(name for name, read in states.items() if read() != before[name])
    if drawn and not known:
        tell(Untried(what="random numbers", why="its items cannot be compared"))
    else:
        tell(Randomness(sources=drawn))


def _states(dataset: Any) -> dict[str, Any]:
    """Return what reads the state of each generator that an item could draw from."""
    found: dict[str, Any] = {
        "random": random.getstate,
        "numpy.random": lambda: _of_numpy(np.random.get_state(legacy=False)),
        "torch": lambda: torch.get_rng_state().numpy().tobytes(),
    }
    own = random._inst
    for path, value in walk(dataset, "dataset"):
        if isinstance(value, random.Random) and value is not own:
            found[path] = value.getstate
        elif isinstance(value, np.random.Generator):
            found[path] = lambda value=value: repr(value.bit_generator.state)
        elif isinstance(value, np.random.RandomState):
            found[path] = lambda value=value: _of_numpy(value.get_state(legacy=False))
        elif isinstance(value, torch.Generator) and value.device.type == "cpu":
            found[path] = lambda value=value: value.get_state().numpy().tobytes()
    return found


def _of_numpy(state: Any) -> tuple[bytes, int]:
    return state["state"]["key"].tobytes(), int(state["state"]["pos"])


def compare(loader: DataLoader[Any], indices: list[Any], sources: tuple[str, ...]) -> Randomness:
    """Read each index twice in each of two workers, in two epochs."""
    order = [[index] for index in indices for _ in range(2 * _WORKERS)]
    twin = replaced(
        with_workers(loader, _WORKERS),
        batch_sampler=order,
        batch_size=None,
        drop_last=False,
        timeout=0,
        pin_memory=False,
    )
    twin.collate_fn = Digests()
    epochs = [[one for _, (one,) in twin] for _ in range(2)]
    return judge(epochs[0], epochs[1], sources, kept=bool(twin.persistent_workers))


def judge(
    first: list[str], second: list[str], sources: tuple[str, ...], *, kept: bool
) -> Randomness:
    """Compare what two workers made in turn: item by item worker 0, 1, 0 and 1 again."""
    items = varying = workers_same = epochs_same = 0
    for place in range(0, len(first), 2 * _WORKERS):
        one = first[place : place + 2 * _WORKERS]
        other = second[place : place + 2 * _WORKERS]
        if UNKNOWN in (*one, *other):
            continue
        items += 1
        if one[0] == one[2] or one[1] == one[3]:
            continue
        varying += 1
        workers_same += one[0] == one[1] and one[2] == one[3]
        epochs_same += one == other
    return Randomness(
        sources=sources,
        items=items,
        varying=varying,
        workers_same=workers_same,
        epochs_same=epochs_same,
        kept=kept,
    )
