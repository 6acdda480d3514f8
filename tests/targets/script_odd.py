"""Training scripts that do what nobody expects; the first argument says which."""

import os
import sys

import torch
from torch.utils.data import DataLoader, IterableDataset
from training import Numbers, Trainer, make_loader


class Stream(IterableDataset):
    def __iter__(self):
        for index in range(100_000):
            yield torch.full((3,), float(index)), index % 2


class Shard(DataLoader):
    """Looks one batch ahead, as Accelerate's does."""

    def __iter__(self):
        iterator = super().__iter__()
        try:
            current = next(iterator)
        except StopIteration:
            return
        while True:
            try:
                following = next(iterator)
            except StopIteration:
                yield current
                return
            yield current
            current = following


class Endless(DataLoader):
    """Keeps one iterator for all epochs, as timm's MultiEpochsDataLoader."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        vars(self)["batches"] = Forever(self.batch_sampler)
        object.__setattr__(self, "batch_sampler", vars(self)["batches"])
        vars(self)["iterator"] = super().__iter__()

    def __len__(self):
        return len(vars(self)["batches"].sampler)

    def __iter__(self):
        for _ in range(len(self)):
            yield next(vars(self)["iterator"])


class Forever:
    def __init__(self, sampler):
        self.sampler = sampler

    def __iter__(self):
        while True:
            yield from iter(self.sampler)


class Own(DataLoader):
    """Makes its batches without torch's iterator."""

    def __iter__(self):
        for indices in self.batch_sampler:
            yield self.collate_fn([self.dataset[index] for index in indices])


def train(loader, epochs=10_000):
    trainer = Trainer()
    for _ in range(epochs):
        for batch in loader:
            trainer.step(batch)


def shard():
    train(Shard(Numbers(40, 0.001), batch_size=4))


def endless():
    train(Endless(Numbers(40, 0.001), batch_size=4))


def own():
    train(Own(Numbers(40, 0.001), batch_size=4))


def anew():
    trainer = Trainer()
    for _ in range(10_000):
        loader = DataLoader(Numbers(40, 0.001), batch_size=4, num_workers=1)
        for batch in loader:
            trainer.step(batch)


def one_place():
    loaders = {kind: DataLoader(Numbers(40, 0.001), batch_size=4) for kind in ("test", "train")}
    trainer = Trainer()
    for _ in range(10_000):
        trainer.test(loaders["test"])
        for batch in loaders["train"]:
            trainer.step(batch)


def with_means():
    """Goes through its training loader for the mean, and looks at a batch, before it trains."""
    loader = make_loader(400, num_workers=1)
    mean = sum(x.mean() for x, _ in loader) / len(loader)
    x, _ = next(iter(loader))
    assert x.shape == (4, 3), mean
    train(loader)


def changes_batches():
    trainer = Trainer()
    rows = [{"x": torch.ones(3), "y": index % 2} for index in range(40)]
    loader = DataLoader(rows, batch_size=4)
    for _ in range(10_000):
        for batch in loader:
            assert float(batch["x"].max()) == 1.0, "a batch comes as it was"
            y = batch.pop("y")
            trainer.step((batch["x"].mul_(0.5), y))


def stream():
    train(DataLoader(Stream(), batch_size=4, num_workers=1))


def inference():
    trainer = Trainer()
    del trainer.optimizer
    loader = make_loader(40, 0.001)
    while True:
        trainer.test(loader)


def swallows():
    trainer = Trainer()
    loader = make_loader(40, 0.001)
    while True:
        with_luck(trainer, loader)


def with_luck(trainer, loader):
    try:
        for batch in loader:
            trainer.step(batch)
    except:  # noqa: E722
        print("again")


def exits_at_once():
    sys.exit("no data folder")


def crashes():
    loader = make_loader(400, 0.001)
    trainer = Trainer()
    for number, batch in enumerate(loader):
        if number == 50:
            raise RuntimeError("loss is NaN")
        trainer.step(batch)


def never():
    print("nothing to do")


def three_batches():
    train(make_loader(12), epochs=1)


def empty():
    train(DataLoader(Numbers(2), batch_size=4, drop_last=True), epochs=1)


def moves():
    """Prints megabytes, goes to another folder, and cleans up at its end."""
    for _ in range(64):
        print("x" * 65536)
    os.chdir("/")
    try:
        train(make_loader(40, 0.001, num_workers=1))
    finally:
        print("cleaned up")


def three_batches_and_out():
    three_batches()
    sys.exit(0)


def daemon():
    if os.fork():
        os._exit(0)
    train(make_loader(40, 0.001), epochs=1)


def forks():
    """Trains in this process; a copy of it comes to its end as well."""
    pid = os.fork()
    if pid == 0:
        train(make_loader(40), epochs=1)
        sys.exit(5)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5
    train(make_loader(40, 0.001))


def workers_die_at_three():
    train(make_loader(4000, 0.005, worker_init_fn=die_at_three))


def die_at_three(number):
    if number >= 2:
        os._exit(7)


if __name__ == "__main__":
    torch.set_num_threads(1)
    globals()[sys.argv[1]]()
