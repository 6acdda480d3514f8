"""Loaders as users write them, the healthy one and the broken ones."""

import os
import signal
import subprocess
import sys
import threading
import time

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

ITEMS = 64


class Numbers(Dataset):
    def __init__(self, length=ITEMS):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return torch.full((8,), float(index)), index


class Breaks(Numbers):
    def __getitem__(self, index):
        if index == 37:
            raise ValueError("item 37 is broken")
        return super().__getitem__(index)


class Kills(Numbers):
    def __getitem__(self, index):
        if index == 37:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


class Sleeps(Numbers):
    def __getitem__(self, index):
        if index == 37:
            time.sleep(1000)
        return super().__getitem__(index)


class Returns(Numbers):
    def __getitem__(self, index):
        return None


class NoLength(Dataset):
    def __getitem__(self, index):
        return torch.zeros(1)


class Stream(IterableDataset):
    def __iter__(self):
        return iter(torch.arange(ITEMS, dtype=torch.float32))


class NoStream(IterableDataset):
    def __iter__(self):
        return iter(())


def healthy():
    print("the user's own print")
    return DataLoader(Numbers(), batch_size=8, shuffle=True)


def raises():
    return DataLoader(Breaks(), batch_size=8)


def kills():
    return DataLoader(Kills(), batch_size=8)


def sleeps():
    return DataLoader(Sleeps(), batch_size=8)


def sleeps_with_scratch():
    from feedrate.measure.scratch import make_scratch

    (make_scratch("causes") / "seen.json").write_text("{}")
    return sleeps()


def returns_nothing():
    return DataLoader(Returns(), batch_size=8)


def empty():
    return DataLoader(Numbers(0), batch_size=8)


def smaller_than_a_batch():
    return DataLoader(Numbers(5), batch_size=8, drop_last=True)


def no_length():
    return NoLength()


def stream():
    return DataLoader(Stream(), batch_size=8)


def empty_stream():
    return DataLoader(NoStream(), batch_size=8)


def not_picklable():
    class Local(Numbers):
        pass

    return DataLoader(Local(), batch_size=8)


def something_else():
    return [1, 2, 3]


def forgets_to_return():
    DataLoader(Numbers())


def fails():
    raise FileNotFoundError("no folder photos")


def exits():
    sys.exit(3)


def leaves_at_once():
    os._exit(0)


def with_step():
    def step(batch):
        batch[0].sum()

    return DataLoader(Numbers(), batch_size=8), step


def starts_a_daemon():
    """Leave a process behind that has a session of its own, as daemons do."""
    command = [sys.executable, "-c", "import time; time.sleep(1000)", "left-behind-by-target"]
    subprocess.Popen(command, start_new_session=True)
    return healthy()


def prints_megabytes():
    print("x" * 5_000_000)
    return healthy()


def deaf_to_interrupts():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return sleeps()


def keeps_a_thread():
    """Start a thread that outlives everything, and prints."""

    def chatter():
        while True:
            print("still here", flush=True)
            time.sleep(0.05)

    threading.Thread(target=chatter).start()
    return healthy()


def hangs_and_chatters():
    keeps_a_thread()
    return sleeps()


def step_hangs():
    return DataLoader(Numbers(), batch_size=8), lambda batch: time.sleep(1000)


class Unsendable(Numbers):
    def __getitem__(self, index):
        return (lambda: index) if index == 37 else index


def cannot_be_sent():
    return DataLoader(Unsendable(), batch_size=8, collate_fn=list)


class EndsEarly(Numbers):
    def __getitem__(self, index):
        return next(iter(())) if index >= self.length // 2 else super().__getitem__(index)


def ends_early():
    return DataLoader(EndsEarly(), batch_size=8)


def ends_at_once():
    return DataLoader(EndsEarly(1), batch_size=8)


class StreamOfOwn(IterableDataset):
    """Is its own iterator, and ends as those do."""

    def __init__(self):
        self.place = 0

    def __iter__(self):
        self.place = 0
        return self

    def __next__(self):
        if self.place == ITEMS:
            raise StopIteration
        self.place += 1
        return torch.zeros(1)


def stream_of_own():
    return DataLoader(StreamOfOwn(), batch_size=None)


def tells_random_numbers():
    import random

    import numpy as np

    raise ValueError(f"{random.random()} {np.random.rand()}")


def takes_half_a_second_of_cpu():
    end = time.process_time() + 0.5
    while time.process_time() < end:
        pass
    return healthy()
