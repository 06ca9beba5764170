from __future__ import annotations

import math
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.errors import MuntinError
from muntin.partials import values
from tests import strategies
from tests.naive import same, spark_order

FIXED: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    *((kind, st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)) for kind, bits in (
        (pa.int8(), 8), (pa.int16(), 16), (pa.int32(), 32), (pa.int64(), 64),
    )),
    (pa.float64(), st.floats()),
    (pa.float32(), st.floats(width=32)),
    (pa.bool_(), st.booleans()),
    (pa.date32(), st.dates(date(1, 1, 1), date(9999, 12, 31))),
    (pa.timestamp("us", tz="UTC"), st.datetimes(timezones=st.just(None))),
    (pa.timestamp("us"), st.datetimes()),
    (pa.duration("us"), st.timedeltas(timedelta(days=-(10**8)), timedelta(days=10**8))),
]  # fmt: skip
RANKED: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.string(), st.text(max_size=3)),
    (pa.large_string(), st.text(max_size=3)),
    (pa.binary(), st.binary(max_size=3)),
    (pa.large_binary(), st.binary(max_size=3)),
    (pa.decimal128(10, 3), st.decimals(-(10**6), 10**6, places=3)),
]


@st.composite
def typed_values(draw: st.DrawFn, kinds: list[tuple[pa.DataType, st.SearchStrategy[Any]]]) -> pa.Array:
    kind, each = draw(st.sampled_from(kinds))
    array = pa.array(draw(st.lists(st.none() | each, max_size=15)), kind)
    return array.slice(draw(st.integers(0, len(array))))  # slices have offsets that are easily forgotten


def sorted_like_spark(array: pa.Array, keys: np.ndarray[Any, Any]) -> bool:
    found = [(int(key), spark_order(value)) for key, value in zip(keys, array.to_pylist(), strict=True)]
    return all((a[0] < b[0]) == (a[1] < b[1]) and (a[0] == b[0]) == (a[1] == b[1]) for a in found for b in found)


@given(typed_values(FIXED))
def test_fixed_order_keys(array: pa.Array) -> None:
    keys = values.fixed_order_keys(array)
    assert keys.dtype == np.int64
    null = np.asarray(array.is_null())
    back = values.from_order_keys(keys, array.type, None, null)
    assert back.type == array.type
    assert all(map(same, back.to_pylist(), array.to_pylist()))
    assert sorted_like_spark(array.drop_null(), keys[~null])


@given(typed_values(RANKED))
def test_ranked(array: pa.Array) -> None:
    ranks, dictionary = values.ranked(array)
    null = np.asarray(array.is_null())
    assert dictionary.to_pylist() == sorted(set(array.drop_null().to_pylist()))
    assert values.from_order_keys(ranks, array.type, dictionary, null).equals(array)
    assert sorted_like_spark(array.drop_null(), ranks[~null])
    assert all(0 <= rank < max(len(dictionary), 1) for rank in ranks)


@given(st.lists(st.lists(strategies.WORDS, max_size=6), min_size=1, max_size=4))
def test_union_ranked(lists: list[list[str]]) -> None:
    encoded = [values.ranked(pa.array(each, pa.string())) for each in lists]
    union, new_ranks = values.union_ranked([dictionary for _, dictionary in encoded])
    assert union.to_pylist() == sorted({word for each in lists for word in each})
    for words, (ranks, _), new in zip(lists, encoded, new_ranks, strict=True):
        assert [union[int(rank)].as_py() for rank in new[ranks]] == words
        assert len(new) >= 1  # absent partials hold rank 0, even of a dictionary without values


@given(st.lists(st.floats()))
def test_floats_keep_their_bits(drawn: list[float]) -> None:
    back = values.floats_from_order_keys(values.float_order_keys(np.array(drawn, dtype=np.float64)))
    for found, expected in zip(back.tolist(), drawn, strict=True):
        assert same(found, expected)
        assert found == 0 or math.isnan(found) or found.hex() == expected.hex()


def test_floats_in_sparks_order() -> None:
    ordered = [-math.inf, -1e308, -1.0, -5e-324, 0.0, 5e-324, 1.0, math.inf, math.nan]
    keys = values.float_order_keys(np.array(ordered))
    assert keys.tolist() == sorted(set(keys.tolist()))
    zeros = values.float_order_keys(np.array([0.0, -0.0]))
    assert zeros[0] == zeros[1]
    nans = values.float_order_keys(np.array([0x7FF8_0000_0000_0000, 0x7FF0_0000_0000_0001, -1], np.int64).view(float))
    assert set(nans.tolist()) == {int(keys[-1])}


def test_valid_mask() -> None:
    assert values.valid_mask(pa.array([1.0, math.nan])) is None
    mask = values.valid_mask(pa.array([1.0, None, math.nan]))
    assert mask is not None
    assert mask.tolist() == [True, False, True]


def test_numbers() -> None:
    assert values.numbers(pa.array([1, 2], pa.int16())).tolist() == [1.0, 2.0]
    assert values.numbers(pa.array([Decimal("1.25")])).tolist() == [1.25]
    assert values.numbers(pa.array([2**63 - 1])).tolist() == [2.0**63]
    assert values.numbers(pa.array([0.5, None]))[0] == 0.5


@given(st.lists(st.tuples(st.integers(-5, 5), st.booleans()), max_size=20), st.sampled_from(["int64", "float64"]))
def test_masked(numbers: list[tuple[int, bool]], dtype: str) -> None:
    twice = np.repeat(np.array([number for number, _ in numbers], dtype=dtype), 2)
    found = values.masked(twice[::2], np.array([missing for _, missing in numbers], dtype=bool))
    found.validate(full=True)
    assert found.type == pa.from_numpy_dtype(np.dtype(dtype))
    assert found.to_pylist() == [None if missing else number for number, missing in numbers]


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.null()])
def test_what_cannot_be_compared(kind: pa.DataType) -> None:
    with pytest.raises(MuntinError, match=r"fare is of type .*, whose values cannot be compared here"):
        values.check_orderable(kind, "fare")
