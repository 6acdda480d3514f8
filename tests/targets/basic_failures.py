"""Datasets, collate functions and steps that fail as people's do.

The tests look for the lines marked "here" in this file.
"""

import os
import signal
import sys
import threading

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler


class TwoArguments(Exception):
    def __init__(self, path, reason):
        super().__init__(f"{path}: {reason}")


class Items(Dataset):
    """Sixteen items, each made by a function."""

    def __init__(self, make):
        self.make = make

    def __len__(self):
        return 16

    def __getitem__(self, index):
        return self.make(index)


def good(index):
    return torch.tensor(float(index))


def value_error(index):
    raise ValueError("item is broken")  # here: value_error


def key_error(index):
    return {}["label"]  # here: key_error


def two_arguments(index):
    raise TwoArguments("a.jpg", "is truncated")  # here: two_arguments


def many_lines(index):
    text = '\n  first line\nsecond: line\n  File "x.py", line 3, in y'
    raise ValueError(text)  # here: many_lines


def no_message(index):
    assert index < 0  # here: no_message


def chained(index):
    try:
        return {}["label"]
    except KeyError as error:
        raise RuntimeError("cannot read sample 3") from error  # here: chained


def while_handling(index):
    try:
        return {}["label"]
    except KeyError:
        raise RuntimeError("cannot read sample 4")  # noqa: B904  # here: while_handling


def in_library(index):
    return torch.stack(index)  # here: in_library


def none(index):
    return None


def of_two_sizes(index):
    return torch.zeros(index + 1)


def of_two_lengths(index):
    return [1] * (index + 1)


def objects(index):
    return object()


def undecodable(index):
    raise FileNotFoundError("no file \udcff.jpg")  # here: undecodable


def leaves(index):
    os._exit(3)


def exits(index):
    sys.exit("enough")


def killed(index):
    os.kill(os.getpid(), signal.SIGKILL)


def segfaults(index):
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGSEGV)


def cannot_be_sent(index):
    return threading.Lock()


class NoLength(Dataset):
    def __getitem__(self, index):
        return index


class BrokenStream(IterableDataset):
    def __iter__(self):
        yield 1.0
        raise ValueError("shard is broken")  # here: BrokenStream


class BrokenAtStart(IterableDataset):
    def __iter__(self):
        raise ValueError("no shards")  # here: BrokenAtStart


class BrokenSampler(Sampler):
    def __iter__(self):
        yield 1
        raise ValueError("no more indices")  # here: BrokenSampler


class BrokenLoader(DataLoader):
    def __iter__(self):
        raise ValueError("not today")  # here: BrokenLoader


def broken_collate(rows):
    raise ValueError("rows do not fit")  # here: broken_collate


def as_they_are(rows):
    return rows


def broken_init(worker_id):
    raise ValueError("no database")  # here: broken_init


def broken_step(batch):
    raise ValueError("loss is nan")  # here: broken_step


def step_with_a_loader(batch):
    for _ in DataLoader(Items(value_error), batch_size=2):
        pass


def none_step(batch):
    None.backward()  # here: none_step


def no_length_step(batch):
    len(None)  # here: no_length_step


def make_local_items():
    class Local(Items):
        pass

    return Local(good)
