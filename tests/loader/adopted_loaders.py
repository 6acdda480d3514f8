"""Loader classes as users write them, importable by whoever unpickles one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch.utils.data
from torch.utils.data import DataLoader as TorchLoader


class Twice(TorchLoader):  # type: ignore[type-arg]
    """Gives every batch twice, and has an attribute and a method of its own."""

    def __init__(self, *arguments: Any, times: int = 2, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.times = times

    def __iter__(self) -> Iterator[Any]:
        for batch in super().__iter__():
            for _ in range(self.times):
                yield batch

    def __len__(self) -> int:
        return self.times * super().__len__()

    def stats(self) -> str:
        return "the user's"


class Counting:
    """A mixin that counts the epochs."""

    epochs = 0

    def __iter__(self) -> Iterator[Any]:
        self.epochs += 1
        return super().__iter__()  # type: ignore[misc,no-any-return]


class Mixed(Counting, TorchLoader):  # type: ignore[type-arg]
    pass


class Wrapping(TorchLoader):  # type: ignore[type-arg]
    """Puts torch's iterator into another, as PyTorch Geometric does."""

    def _get_iterator(self) -> Any:
        return (("wrapped", batch) for batch in super()._get_iterator())


class ByName(TorchLoader):  # type: ignore[type-arg]
    """Calls torch's method by the name of its class, from a method of its own."""

    def __iter__(self) -> Any:
        return self._begin()

    def _begin(self) -> Any:
        return torch.utils.data.DataLoader.__iter__(self)


class OwnState(TorchLoader):  # type: ignore[type-arg]
    """Says itself what of it is pickled, and does not ask the class behind it."""

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"packed": True}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


class OwnReduce(TorchLoader):  # type: ignore[type-arg]
    def __reduce__(self) -> Any:
        return Twice, (self.dataset,)


class Slotted(TorchLoader):  # type: ignore[type-arg]
    __slots__ = ("extra",)


class Guarded(TorchLoader):  # type: ignore[type-arg]
    """Lets nobody change it once it is made."""

    def __setattr__(self, name: str, value: Any) -> None:
        if getattr(self, "made", False) and not name.startswith("_"):
            raise AttributeError(f"{name} is fixed")
        super().__setattr__(name, value)


class OwnIterator(TorchLoader):  # type: ignore[type-arg]
    """Builds an iterator of its own, as torchdata's StatefulDataLoader does."""

    def _get_iterator(self) -> Any:
        return iter([self.dataset[0]])

    def __iter__(self) -> Any:
        return self._get_iterator()


class Handing(TorchLoader):  # type: ignore[type-arg]
    """Iterates another loader that it holds, as Accelerate's do."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner.dataset)
        self.inner = inner

    def __iter__(self) -> Any:
        return self.inner.__iter__()


class Strict(TorchLoader):  # type: ignore[type-arg]
    """Demands an argument of every subclass."""

    def __init_subclass__(cls, *, colour: str) -> None:
        super().__init_subclass__()


class Keeps(TorchLoader):  # type: ignore[type-arg]
    """Has a method by a name that feedrate's iterators call."""

    def keep_stats(self) -> None:
        raise AssertionError("never called")
