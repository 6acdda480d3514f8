"""What holds an object, told by name; nothing here needs torch."""

from __future__ import annotations

import functools
import sys
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from feedrate.measure.causes.holding import Held, Holders
from feedrate.measure.causes.naming import frame_locals, function_name, type_name

SECONDS = 5.0
GLOBAL: list[object] = []


class Thing:
    def __init__(self, value: object = None) -> None:
        self.value = value


class Dataset:
    shared: dict[int, object] = {}  # noqa: RUF012

    def __init__(self) -> None:
        self.cache: dict[int, object] = {}
        self.transform = Thing([])
        self.single: object = None


class Slotted:
    __slots__ = ("kept",)

    def __init__(self, kept: object) -> None:
        self.kept = kept


@functools.cache
def decode(number: int) -> Thing:
    return Thing(number)


@functools.lru_cache(maxsize=2)
def decode_few(number: int) -> Thing:
    return Thing(number)


@pytest.fixture(autouse=True)
def emptied() -> Iterator[None]:
    yield
    GLOBAL.clear()
    Dataset.shared.clear()
    decode.cache_clear()
    decode_few.cache_clear()


def find(sample: object, **named: object) -> Held:
    return Holders(named).find(sample, {}, SECONDS)


def test_an_attribute_of_the_dataset() -> None:
    dataset = Dataset()
    thing = dataset.cache[1] = Thing()
    held = find(thing, dataset=dataset)
    assert held.chain == ("dataset.cache", "dict")
    assert held.containers == (dataset.cache,)
    assert held.way == (dataset.cache, thing)
    assert held.sizes() == (1,)


def test_an_object_that_the_dataset_holds_itself() -> None:
    dataset = Dataset()
    dataset.single = Thing()
    held = find(dataset.single, dataset=dataset)
    assert held.chain == ("dataset.single",)
    assert held.containers == ()
    assert held.sizes() == ()


def test_a_transform_of_the_dataset_is_told_with_its_own_attribute() -> None:
    dataset = Dataset()
    thing = Thing()
    dataset.transform.value = [thing]
    assert find(thing, dataset=dataset).chain == ("dataset.transform.value", "list")


def test_a_global_of_a_module() -> None:
    thing = Thing()
    GLOBAL.append(thing)
    held = find(thing)
    assert held.chain == ("test_holding.GLOBAL", "list")
    assert held.containers[0] is GLOBAL


def test_objects_in_between_are_told_with_their_attributes() -> None:
    thing = Thing()
    GLOBAL.append(Thing({"kept": thing}))
    chain = find(thing).chain
    assert chain == ("test_holding.GLOBAL", "list", "test_holding.Thing.value", "dict")


def test_a_slot_is_an_attribute_too() -> None:
    thing = Thing()
    GLOBAL.append(Slotted(thing))
    assert find(thing).chain == ("test_holding.GLOBAL", "list", "test_holding.Slotted.kept")


def test_an_attribute_of_a_class() -> None:
    thing = Dataset.shared[1] = Thing()
    assert find(thing).chain == ("Dataset.shared", "dict")


@pytest.mark.parametrize("cached", [decode, decode_few])
def test_a_function_cache(cached: Any) -> None:
    thing = cached(3)
    held = find(thing)
    assert held.chain == (f"lru_cache of {cached.__name__}()",)
    assert held.sizes()[0] == 1
    assert not held.is_bounded()


def test_a_function_cache_that_is_full_is_bounded() -> None:
    thing = [decode_few(number) for number in range(3)][-1]
    held = find(thing)
    assert held.chain[0] == "lru_cache of decode_few()"
    assert held.is_bounded()


def test_what_a_cache_takes_at_most_is_known_before_it_is_full() -> None:
    decode_few.cache_clear()
    assert find(decode_few(1)).most() == 2
    assert find(deque([[1, 2]], maxlen=7)[0]).most() is None, "nothing names it"
    assert find([[1]][0]).most() is None


@functools.lru_cache(maxsize=1)
def table() -> dict[int, list[int]]:
    return {}


def test_a_cache_of_one_thing_is_no_limit_for_what_is_in_it() -> None:
    table()[3] = [1, 2]
    held = find(table()[3])
    assert held.chain[0] == "lru_cache of table()"
    assert not held.is_bounded()
    assert held.most() is None


def test_a_ring_that_is_full_is_bounded() -> None:
    ring: deque[object] = deque(maxlen=2)
    GLOBAL.append(ring)
    ring.extend([Thing(), Thing()])
    assert find(ring[0]).is_bounded()


def make_callback() -> Callable[[object], None]:
    seen: list[object] = []

    def callback(batch: object) -> None:
        seen.append(batch)

    return callback


def test_a_closure() -> None:
    callback = make_callback()
    thing = Thing()
    callback(thing)
    held = find(thing)
    assert held.chain == ("seen in the closure of make_callback.callback()", "list")


def remember(thing: object, kept: list[object] = []) -> None:  # noqa: B006
    kept.append(thing)


def test_a_default_argument() -> None:
    thing = Thing()
    remember(thing)
    assert find(thing).chain == ("a default argument of remember()", "list")
    remember.__defaults__[0].clear()  # type: ignore[index]


def test_a_local_variable_of_a_function_that_runs() -> None:
    losses = [Thing()]
    variables = list(frame_locals(lambda file: file == __file__))
    held = Holders({}, variables).find(losses[0], {}, SECONDS)
    name = "test_a_local_variable_of_a_function_that_runs()"
    assert held.chain == (f"losses in {name}", "list")


def test_a_tuple_that_the_collector_does_not_track_is_passed() -> None:
    data = bytes(100)
    record = (1, data)
    GLOBAL.append(record)
    held = Holders({}).find(data, {id(data): record}, SECONDS)
    assert held.chain[0] == "test_holding.GLOBAL"
    assert held.containers[0] is GLOBAL


def test_a_script_is_called_by_its_file() -> None:
    script = types.ModuleType("__main__")
    script.__file__ = "/home/me/train.py"
    exec("CACHE = []", vars(script))
    thing = Thing()
    vars(script)["CACHE"].append(thing)
    assert find(thing).chain == ("train.CACHE", "list")


def test_what_nothing_holds_has_no_chain() -> None:
    assert find(Thing()) == Held()


def test_no_time_means_no_chain() -> None:
    times = iter([0.0, 9.0, 9.0])
    thing = Thing(1)
    around = {"kept": [thing]}
    holders = Holders({}, clock=lambda: next(times))
    assert holders.find(thing, {}, 1.0) == Held()
    del around


def test_types_are_told_as_their_users_know_them() -> None:
    assert type_name([]) == "list"
    assert type_name(Thing()) == "test_holding.Thing"
    assert function_name(decode) == "decode()"
    assert function_name(Thing.__init__) == "Thing.__init__()"


def test_an_array_is_told_with_its_shape() -> None:
    numpy = pytest.importorskip("numpy")
    assert type_name(numpy.zeros((4, 3), "float32")) == "numpy.ndarray 4×3 float32"


def test_a_tensor_is_told_with_its_shape() -> None:
    torch = pytest.importorskip("torch")
    assert type_name(torch.zeros(3, 2, 2)) == "torch.Tensor 3×2×2 float32"
    assert type_name(torch.tensor(1)) == "torch.Tensor scalar int64"


def test_the_module_under_test_is_loaded_by_its_plain_name() -> None:
    # the names above rest on it
    assert sys.modules[__name__].__name__ == "test_holding"
