"""Small batches of many tensors: rebuilt as they were, each upon memory of its own."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from feedrate.loader.numpy_views import NUMPY_DTYPES
from feedrate.loader.small_batches import SmallDecoder, SmallEncoder, most_bytes

Pair = namedtuple("Pair", "one two")


def there_and_back(data: Any) -> Any:
    message = SmallEncoder().encode(7, data)
    assert message is not None
    number, back = SmallDecoder().decode(memoryview(message))
    assert number == 7
    return back


def goes_the_careful_way(data: Any) -> bool:
    return SmallEncoder().encode(7, data) is None


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and torch.equal(one, other)


shapes = st.lists(st.integers(1, 4), max_size=3).map(tuple)
tensors = st.builds(
    lambda dtype, shape, seed: (
        (torch.arange(64).roll(seed)[: max(1, torch.Size(shape).numel())])
        .to(dtype)
        .reshape(shape)
        .clone()
    ),
    st.sampled_from(sorted(NUMPY_DTYPES, key=str)),
    shapes,
    st.integers(0, 63),
)


@given(st.lists(tensors, min_size=1, max_size=12), st.sampled_from(["list", "tuple", "dict", "in"]))
def test_any_plain_tensors_arrive_equal_in_their_order(
    given_tensors: list[torch.Tensor], container: str
) -> None:
    named = {f"k{i}": tensor for i, tensor in enumerate(given_tensors)}
    data: Any = {
        "list": given_tensors,
        "tuple": tuple(given_tensors),
        "dict": named,
        "in": {"x": [named, "a word"], 3: None},
    }[container]
    back = there_and_back(data)
    assert type(back) is type(data)
    if container == "in":
        assert back["x"][1] == "a word"
        assert back[3] is None
        back = back["x"][0]
    if isinstance(back, dict):
        assert list(back) == list(named)
        back = list(back.values())
    assert all(map(same, back, given_tensors))
    assert len(back) == len(given_tensors)


def test_each_has_a_storage_of_its_own_and_can_be_written_to() -> None:
    back = there_and_back([torch.zeros(3), torch.ones(3), torch.full((3,), 2.0)])
    back[1].mul_(50)
    assert [tensor.tolist() for tensor in back] == [[0.0] * 3, [50.0] * 3, [2.0] * 3]
    assert [tensor.untyped_storage().nbytes() for tensor in back] == [12, 12, 12]


def test_a_named_tuple_and_a_tensor_alone_keep_their_kind() -> None:
    assert type(there_and_back(Pair(torch.ones(2), torch.ones(3)))) is Pair
    assert same(there_and_back(torch.ones(2)), torch.ones(2))


def test_the_same_tensor_twice_is_one_tensor_afterwards() -> None:
    tensor = torch.ones(2)
    back = there_and_back({"deep": [[tensor], [tensor]]})
    assert back["deep"][0][0] is back["deep"][1][0]


def test_a_message_does_not_depend_on_those_before_it_but_by_the_table() -> None:
    encoder, decoder = SmallEncoder(), SmallDecoder()
    for data in (
        [torch.ones(2)],
        [torch.ones(2)],
        [torch.ones(3), torch.zeros(2, dtype=torch.int64)],
        {"a": torch.ones(1)},
        {"b": torch.ones(1)},
    ):
        message = encoder.encode(1, data)
        assert message is not None
        _, back = decoder.decode(memoryview(message))
        assert type(back) is type(data)
        assert list(back) == list(data) if isinstance(data, dict) else len(back) == len(data)


base = torch.arange(8.0)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param([base, base], id="one tensor twice"),
        pytest.param([base[:4], base[2:6]], id="views that overlap"),
        pytest.param([base, base[2:3]], id="a view of another"),
        pytest.param([base.view(2, 4).t()], id="strided"),
        pytest.param([torch.ones(2, requires_grad=True)], id="gradient"),
        pytest.param([torch.ones(0)], id="empty"),
        pytest.param([torch.ones(0), torch.ones(1)], id="empty among others"),
        pytest.param([torch.ones(2, dtype=torch.bfloat16)], id="bfloat16"),
        pytest.param([torch.ones(2).to_sparse()], id="sparse"),
        pytest.param([torch.nn.Parameter(torch.ones(2))], id="subclass"),
        pytest.param([torch.ones(2, device="meta")], id="no data"),
        pytest.param([torch.ones(most_bytes(1) // 4 + 1)], id="large"),
        pytest.param(
            [torch.ones(most_bytes(2) // 8), torch.ones(most_bytes(2) // 8 + 9)],
            id="large in all",
        ),
        pytest.param(["a word", 3], id="no tensors"),
        pytest.param([torch.ones(2), b"x" * 100_000], id="long pickle"),
    ],
)
def test_what_is_not_plain_or_not_small_goes_the_careful_way(data: Any) -> None:
    assert goes_the_careful_way(data)


def test_keys_of_other_types_keep_their_type() -> None:
    back = there_and_back({True: torch.ones(1), 2: torch.zeros(1)})
    assert [type(key) for key in back] == [bool, int]
