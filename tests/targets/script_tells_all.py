"""Loaders of all kinds, each with what a program can see of it: batches, draws, errors, its end."""

import itertools
import sys
import warnings

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info
from training import Numbers, Trainer

warnings.filterwarnings("ignore", message="This DataLoader will create")


class Scaled(Dataset):
    """Items that depend on an attribute and, through a transform, on an object's."""

    def __init__(self):
        self.epoch = 0
        self.transform = Size()

    def __len__(self):
        return 12

    def __getitem__(self, index):
        return self.transform(100 * self.epoch + index)


class Size:
    side = 1

    def __call__(self, number):
        return torch.full((self.side,), float(number))


class Broken(Numbers):
    def __getitem__(self, index):
        if index == 9:
            raise ValueError("nine")
        return super().__getitem__(index)


class Halves(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, 20, step))


class Twice(DataLoader):
    def __iter__(self):
        for batch in super().__iter__():
            yield batch
            yield batch


class Half(torch.utils.data.Sampler):
    def __init__(self, data):
        self.data = data

    def __iter__(self):
        return iter(torch.randperm(len(self.data)).tolist()[:8])

    def __len__(self):
        return 8


def show(name, loader, epochs=3):
    torch.manual_seed(0)
    print(name, loader.batch_size, loader.drop_last, type(loader).__name__)
    for epoch in range(epochs):
        seen = [part.tolist() if torch.is_tensor(part) else part for part in loader]
        first = next(iter(loader))
        print(name, epoch, seen, first, torch.rand(1).item(), torch.initial_seed())


def generator():
    return torch.Generator().manual_seed(4)


def ordinary():
    data = list(range(20))
    for workers in (0, 2):
        options = {"batch_size": 4, "num_workers": workers}
        show("in order", DataLoader(data, **options))
        show("shuffled", DataLoader(data, shuffle=True, **options))
        show("generator", DataLoader(data, shuffle=True, generator=generator(), **options))
        show("replaced", DataLoader(data, sampler=torch.utils.data.RandomSampler(data, True)))
        show("sampler", DataLoader(data, sampler=Half(data), drop_last=True, **options))
        show("batches", DataLoader(data, batch_sampler=[[3, 1], [2], [7, 8, 9]]))
        show("single", DataLoader(data, batch_size=None, shuffle=True, num_workers=workers))
        show("twice", Twice(data, shuffle=True, **options))
        show("collate", DataLoader(data, collate_fn=str, **options))
        show("iterable", DataLoader(Halves(), **options))
    show("persistent", DataLoader(data, shuffle=True, persistent_workers=True, **options))


def changing():
    data = Scaled()
    loader = DataLoader(data, batch_size=4, shuffle=True)
    for epoch in range(4):
        data.epoch = epoch
        data.transform.side = 1 + epoch // 2
        print("changing", [batch.tolist() for batch in loader])


def within():
    data = list(range(8))
    loader = DataLoader(data, batch_size=2, shuffle=True)
    for outer in loader:
        print("within", outer.tolist(), [inner.tolist() for inner in loader])
    for _ in range(2):
        print("beside", [(a.tolist(), b.tolist()) for a, b in zip(loader, loader, strict=True)])
    for batch in itertools.islice(itertools.cycle(loader), 10):
        print("around", batch.tolist())


def attempt(iterator):
    try:
        return next(iterator)[1].tolist()
    except ValueError as error:
        return str(error).rpartition("ValueError: ")[2].strip()


def breaking():
    for workers in (0, 2):
        loader = DataLoader(Broken(16), batch_size=2, num_workers=workers)
        for _ in range(2):
            iterator = iter(loader)
            print("breaking", [attempt(iterator) for _ in loader.batch_sampler])
            if workers:
                print("ended", list(iterator))


def trained():
    torch.manual_seed(1)
    trainer = Trainer()
    model = torch.nn.Sequential(torch.nn.Dropout(0.5), trainer.model)
    trainer.model = model
    loader = DataLoader(Numbers(40), batch_size=4, shuffle=True)
    for _ in range(3):
        for batch in loader:
            trainer.step(batch)
    print("trained", [value.tolist() for value in model.state_dict().values()])


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in sys.argv[2:]:
        torch.manual_seed(0)
        globals()[name]()
    print("on standard error", file=sys.stderr)
    sys.exit(int(sys.argv[1]))
