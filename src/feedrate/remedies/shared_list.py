"""`SharedList`: a list whose records all processes read from the same memory."""

from __future__ import annotations

import array
import operator
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar, overload

from feedrate.remedies.packing import pack, unpack, unpack_plain
from feedrate.remedies.shared_bytes import SharedBytes

T = TypeVar("T")


class SharedList(Sequence[T]):
    """A list that cannot be changed, packed into shared memory. For a dataset's records.

    A forked worker that reads a plain list of Python objects copies it page by page, since reading
    an object counts a reference; a spawned one gets a whole copy at its start. Here neither
    happens: every read makes the record anew from the packed bytes, which nobody writes to. What a
    read returns is the reader's own; to change it does not change the list.

    Args:
        items: the records: any objects that can be pickled. Plain ones (strings, numbers, lists,
            dicts with string keys) are read fastest.
        file: keep the bytes in this file instead of memory, for lists larger than that. It is not
            removed. It is written beside a file of that name and then put in its place: a list that
            was made of the former one stays as it is, in every process that has it.

    Raises:
        TypeError: a record cannot be packed; says which.
        OSError: there is no room, or the file cannot be replaced.
    """

    def __init__(self, items: Iterable[T], *, file: str | os.PathLike[str] | None = None) -> None:
        ends = array.array("Q", [0])
        self._attach(SharedBytes(_parts(items, ends), file))

    def _attach(self, shared: SharedBytes) -> None:
        self._shared = shared
        data = shared.data
        count = int.from_bytes(data[-8:], "little")
        table = data[len(data) - 8 * (count + 2) : -8]
        # A mark of 16 bytes and padding before the table keep it aligned.
        self._ends = table.cast("Q")
        self._data = data

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: Any) -> Any:
        """Return one record, or a plain list of those in a slice.

        Raises:
            IndexError: there is no such record.
        """
        if isinstance(index, slice):
            return [self._read(i) for i in range(*index.indices(len(self)))]
        place = operator.index(index)
        if place < 0:
            place += len(self)
        if not 0 <= place < len(self):
            raise IndexError(f"index {index} in a SharedList of {len(self)}")
        return self._read(place)

    def _read(self, place: int) -> Any:
        # The lowest bit of an end says whether the record is a pickle.
        start, end = self._ends[place], self._ends[place + 1]
        record = self._data[start >> 1 : end >> 1]
        return unpack(record, True) if end & 1 else unpack_plain(record)

    def __iter__(self) -> Iterator[T]:
        return map(self._read, range(len(self)))

    def __repr__(self) -> str:
        size = len(self._data) / 2**20
        return f"SharedList({len(self):,} records in {size:.1f} MiB of shared memory)"

    def __reduce__(self) -> Any:
        return _from_shared, (self._shared,)


def _from_shared(shared: SharedBytes) -> SharedList[Any]:
    made: SharedList[Any] = SharedList.__new__(SharedList)
    made._attach(shared)
    return made


def _parts(items: Iterable[Any], ends: array.array[int]) -> Iterator[bytes]:
    """Yield the records, then the table of their ends, then how many they are."""
    end = 0
    for place, item in enumerate(items):
        record, pickled = pack(item, place)
        end += len(record)
        ends.append(end << 1 | pickled)
        yield record
    yield bytes(-end % 8)
    yield ends.tobytes()
    yield (len(ends) - 1).to_bytes(8, "little")
