from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.errors import MuntinError
from muntin.panes import keys
from tests import naive, strategies

NAN = math.nan
PERSON = pa.struct([("name", pa.string()), ("score", pa.float64())])
NESTED = pa.struct([("who", PERSON), ("id", pa.int32())])
PEOPLE = st.fixed_dictionaries(
    {"name": st.none() | strategies.WORDS, "score": st.none() | st.sampled_from([NAN, 0.0, -0.0, 1.0])}
)
COLUMNS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.string(), strategies.WORDS),
    (pa.large_string(), strategies.WORDS),
    (pa.binary(), st.binary(max_size=2)),
    (pa.int64(), st.integers(-2, 2) | st.sampled_from([2**63 - 1, -(2**63)])),
    (pa.int8(), st.integers(-2, 2)),
    (pa.float64(), st.sampled_from([NAN, -0.0, 0.0, math.inf, -math.inf, 1.5])),
    (pa.float32(), st.sampled_from([NAN, -0.0, 0.0, 1.5])),
    (pa.bool_(), st.booleans()),
    (pa.date32(), st.dates(date(1969, 12, 30), date(1970, 1, 2))),
    (pa.timestamp("us", tz="UTC"), st.integers(-2, 2)),
    (pa.timestamp("us"), st.integers(-2, 2)),
    (pa.duration("us"), st.integers(-2, 2)),
    (pa.decimal128(5, 2), st.sampled_from([Decimal("0.00"), Decimal("1.10"), Decimal("-1.10")])),
    (pa.null(), st.none()),
    (PERSON, PEOPLE),
    (NESTED, st.fixed_dictionaries({"who": st.none() | PEOPLE, "id": st.none() | st.integers(0, 1)})),
]


@st.composite
def key_rows(draw: st.DrawFn, max_columns: int = 3) -> tuple[list[pa.DataType], list[list[Any]]]:
    """The types of a few key columns, and the values of each."""
    chosen = draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=max_columns))
    length = draw(st.integers(0, 15))
    values = [draw(st.lists(st.none() | each, min_size=length, max_size=length)) for _, each in chosen]
    return [kind for kind, _ in chosen], values


def arrays(kinds: Sequence[pa.DataType], values: Sequence[list[Any]]) -> list[pa.Array]:
    return [keys.normalised(pa.array(column, kind)) for kind, column in zip(kinds, values, strict=True)]


def plain_keys(values: Sequence[list[Any]]) -> list[Any]:
    return [tuple(naive.comparable(value) for value in key) for key in zip(*values, strict=True)]


@given(key_rows())
def test_codes_are_dense_and_tell_keys_apart(drawn: tuple[list[pa.DataType], list[list[Any]]]) -> None:
    kinds, values = drawn
    codes, first = keys.encode(arrays(kinds, values), len(values[0]))
    plain = plain_keys(values)
    code_of = dict(zip(plain, codes.tolist(), strict=True))
    assert codes.tolist() == [code_of[key] for key in plain]
    assert sorted(code_of.values()) == list(range(len(code_of)))
    assert first.tolist() == [plain.index(key) for key in sorted(code_of, key=code_of.__getitem__)]


@given(key_rows(), st.integers(1, 4), st.booleans(), st.sampled_from([1, 8, 1 << 20]))
def test_codes_of_batch_after_batch_are_of_their_keys(
    drawn: tuple[list[pa.DataType], list[list[Any]]], parts: int, known: bool, most: int
) -> None:
    kinds, values = drawn
    encoder = keys.Encoder()
    length = len(values[0])
    with patch.multiple(keys, _PER_KNOWN=0 if known else 2, _MOST_KNOWN=most):
        for part in range(parts):
            cut = slice(part * length // parts, (part + 1) * length // parts)
            columns = arrays(kinds, [column[cut] for column in values])
            coded = encoder.encode(columns, len(columns[0]))
            for codes in (coded, coded.dense()):
                assert all(0 <= code < codes.count for code in codes.codes.tolist())
                behind = codes.keys(codes.codes)
                assert [column.type for column in behind] == kinds
                assert plain_keys([c.to_pylist() for c in behind]) == plain_keys([c.to_pylist() for c in columns])
            dense = coded.dense()
            assert sorted(set(dense.codes.tolist())) == list(range(dense.count))
            orders = [np.argsort(codes.codes, kind="stable").tolist() for codes in (coded, dense)]
            assert orders[0] == orders[1]


def test_integers_as_far_apart_as_they_can_be() -> None:
    extremes = pa.array([2**63 - 1, -(2**63), 0, -(2**63)])
    coded = keys.Encoder().encode([extremes, extremes], 4)
    assert [column.to_pylist() for column in coded.keys(coded.codes)] == [extremes.to_pylist()] * 2
    wide = pa.array([-(2**30), 2**30 - 2])  # codes up to 2**31: two columns are encoded again
    coded = keys.Encoder().encode([wide, wide, wide], 2)
    assert [column.to_pylist() for column in coded.keys(coded.codes)] == [wide.to_pylist()] * 3
    assert coded.count < keys.MOST_CODES


@pytest.mark.parametrize("length", [0, 1, 5])
def test_without_columns_there_is_one_key(length: int) -> None:
    codes, first = keys.encode([], length)
    assert codes.tolist() == [0] * length
    assert first.tolist() == [0] * min(length, 1)
    assert len(set(keys.hashes([], length).tolist())) == min(length, 1)


def test_a_null_struct_is_not_a_struct_of_nulls() -> None:
    column = pa.array([None, {"name": None, "score": None}, None], PERSON)
    codes, _ = keys.encode([column], 3)
    assert codes[0] == codes[2] != codes[1]
    a, b, c = keys.hashes([column], 3).tolist()
    assert a == c != b


def test_floats_in_structs_are_normalised_too() -> None:
    inner = pa.array([{"name": "a", "score": 0.0}, {"name": "a", "score": -0.0}, None], PERSON)
    outer = pa.StructArray.from_arrays([inner, pa.array([1, 1, 1], pa.int32())], fields=list(NESTED))
    for column in map(keys.normalised, (inner, outer)):
        assert keys.encode([column], 3)[0].tolist() == [0, 0, 1]
        a, b, c = keys.hashes([column], 3).tolist()
        assert a == b != c


def test_columns_do_not_run_together() -> None:
    left, right = pa.array(["ab", "a"]), pa.array(["c", "bc"])
    assert keys.encode([left, right], 2)[0].tolist() == [0, 1]
    a, b = keys.hashes([left, right], 2).tolist()
    assert a != b


@given(key_rows())
def test_hashes_are_equal_where_keys_are(drawn: tuple[list[pa.DataType], list[list[Any]]]) -> None:
    kinds, values = drawn
    hashes = keys.hashes(arrays(kinds, values), len(values[0])).tolist()
    by_key: dict[Any, set[int]] = {}
    for key, hashed in zip(plain_keys(values), hashes, strict=True):
        by_key.setdefault(key, set()).add(hashed)
    assert all(len(each) == 1 for each in by_key.values())
    assert len(set().union(*by_key.values())) == len(by_key)  # 64 bits: a clash would be a flaw, not chance


@given(key_rows(), st.data())
def test_hashes_and_codes_do_not_depend_on_slices_and_chunks(
    drawn: tuple[list[pa.DataType], list[list[Any]]], data: st.DataObject
) -> None:
    kinds, values = drawn
    length = len(values[0])
    begin = data.draw(st.integers(0, length))
    end = data.draw(st.integers(begin, length))
    whole = [pa.array(column, kind) for kind, column in zip(kinds, values, strict=True)]
    fresh = arrays(kinds, [column[begin:end] for column in values])
    for parts in (
        [keys.normalised(column.slice(begin, end - begin)) for column in whole],
        [keys.normalised(column).slice(begin, end - begin) for column in whole],
        [pa.concat_arrays([part.slice(0, 1), part.slice(1)]) for part in fresh],
    ):
        assert keys.hashes(parts, end - begin).tolist() == keys.hashes(fresh, end - begin).tolist()
        assert keys.encode(parts, end - begin)[0].tolist() == keys.encode(fresh, end - begin)[0].tolist()


# Literal values: state in a checkpoint is spread by them, so they may never change.
@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (
            pa.array(["", "a", "muntin", None]),
            [6649321510745838866, 13444652536404031299, 11613248241248682795, 11411385861277225494],
        ),
        (pa.array([b"\x00", b""]), [12155485105054806240, 6649321510745838866]),
        (
            pa.array([0, 1, -1, 2**63 - 1]),
            [6649321510745838866, 10635140312816661111, 17663078076590113, 14331718450213183517],
        ),
        (pa.array([0, 1], pa.int8()), [6649321510745838866, 10635140312816661111]),
        (pa.array([-0.0, NAN, 1.5]), [6649321510745838866, 14896592849211638354, 12176604488153210988]),
        (pa.array([1.5], pa.float32()), [12176604488153210988]),
        (pa.array([True, False]), [10635140312816661111, 6649321510745838866]),
        (pa.array([date(1970, 1, 2)]), [10635140312816661111]),
        (pa.array([datetime(1970, 1, 1, tzinfo=timezone.utc)], pa.timestamp("us", tz="UTC")), [6649321510745838866]),
        (pa.array([Decimal("1.10")], pa.decimal128(5, 2)), [13800580440427222087]),
        (pa.array([{"name": "a", "score": 1.5}, None], PERSON), [8217885569697737781, 619360863110043245]),
    ],
)
def test_hashes_never_change(column: pa.Array, expected: list[int]) -> None:
    assert keys.hashes([keys.normalised(column)], len(column)).tolist() == expected


def test_hash_of_several_columns_never_changes() -> None:
    columns = [pa.array(["a", None]), pa.array([1, 2])]
    assert keys.hashes(columns, 2).tolist() == [7680315944034439273, 9067802845542138396]
    assert keys.hashes([], 1).tolist() == [0x9E3779B97F4A7C15]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(range(20_000)),
        pa.array([f"user-{i}" for i in range(20_000)]),
        pa.array([i * 1024 for i in range(20_000)]),
        pa.array([i / 7 for i in range(20_000)]),
        pa.array([{"name": str(i % 200), "score": float(i // 200)} for i in range(20_000)], PERSON),
    ],
    ids=["integers", "strings", "multiples", "floats", "structs"],
)
@pytest.mark.parametrize("shards", [2, 7, 16])
def test_keys_spread_evenly_over_shards(column: pa.Array, shards: int) -> None:
    share = np.bincount((keys.hashes([column], len(column)) % np.uint64(shards)).astype(np.int64), minlength=shards)
    assert share.min() > 0.85 * len(column) / shards
    assert share.max() < 1.15 * len(column) / shards


def test_normalised_makes_one_form_of_equal_floats() -> None:
    column = keys.normalised(pa.array([-0.0, 0.0, np.float64.fromhex("nan"), -NAN, None]))
    bits = column.fill_null(1.0).to_numpy().view(np.int64)
    assert bits[0] == bits[1] == 0
    assert bits[2] == bits[3]
    assert column.null_count == 1


@pytest.mark.parametrize("kind", [kind for kind, _ in COLUMNS])
def test_key_types(kind: pa.DataType) -> None:
    assert keys.normalised(pa.nulls(2, kind)).to_pylist() == [None, None]
    keys.check_key_type(kind, "route")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (pa.list_(pa.int64()), "'route'"),
        (pa.map_(pa.string(), pa.string()), "'route'"),
        (pa.struct([("a", pa.list_(pa.int64()))]), "'route.a'"),
    ],
)
def test_types_that_cannot_be_keys(kind: pa.DataType, name: str) -> None:
    with pytest.raises(MuntinError, match=f"by column {name} is of type .*, which cannot be a key"):
        keys.check_key_type(kind, "route")
