from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.panes import packed
from muntin.panes.table import Layout, PaneTable, key_schema
from muntin.panes.tuples import Tuples, by_code, concatenated
from tests import naive_models, strategies
from tests.builders import TYPES, plain, to_batch
from tests.naive import Row, comparable

COLUMNS = st.lists(st.sampled_from(["x", "n", "w", "kept", "f"]), max_size=3, unique=True)
ROWS = strategies.rows(st.integers(-3, 3))  # many ties
FAR = strategies.rows(st.sampled_from([-(2**61), 0, 1, 2**61]))
KEYED = (ROWS | FAR).flatmap(
    lambda rows: st.lists(st.integers(0, 2) | st.just(70_000), min_size=len(rows), max_size=len(rows)).map(
        lambda keys: [{**row, "key": key} for row, key in zip(rows, keys, strict=True)]
    )
)


def tuples_of(rows: Sequence[Row], columns: Sequence[str]) -> Tuples:
    key, time = (np.array([row[name] for row in rows], dtype=np.int64) for name in ("key", "t"))
    return Tuples(key, time, to_batch(rows, {name: TYPES[name] for name in columns}))


def read(tuples: Tuples) -> list[str]:
    columns = [plain(column) for column in tuples.columns.columns]
    whole = zip(tuples.key.tolist(), tuples.time.tolist(), *columns, strict=True)
    return [repr([comparable(value) for value in each]) for each in whole]


@given(KEYED, COLUMNS, st.data())
def test_the_order_does_not_depend_on_the_arrival(rows: list[Row], columns: list[str], data: st.DataObject) -> None:
    found = read(tuples_of(rows, columns).in_order())
    assert read(tuples_of(data.draw(st.permutations(rows)), columns).in_order()) == found
    ordered = [each for key in (0, 1, 2, 70_000) for each in naive_models.in_order(of_key(rows, key), columns)]
    assert found == read(tuples_of(ordered, columns))


def of_key(rows: Sequence[Row], key: int) -> list[Row]:
    return [row for row in rows if row["key"] == key]


def test_nulls_are_first_and_nan_is_last() -> None:
    rows = [{"key": 0, "t": 5, "x": x} for x in (np.nan, np.inf, None, 0.0, -np.inf, None)]
    column = plain(tuples_of(rows, ["x"]).in_order().columns.column("x"))
    assert repr(column) == repr([None, None, -np.inf, 0.0, np.inf, np.nan])


def test_earlier_columns_come_first() -> None:
    rows = [{"key": 0, "t": 5, "n": n, "w": w} for n, w in ((2, "a"), (1, "z"), (1, None), (None, "b"))]
    ordered = tuples_of(rows, ["n", "w"]).in_order().columns
    assert [*zip(*map(plain, ordered.columns), strict=True)] == [(None, "b"), (1, None), (1, "z"), (2, "a")]
    ordered = tuples_of(rows, ["w", "n"]).in_order().columns
    assert [*zip(*map(plain, ordered.columns), strict=True)] == [(None, 1), ("a", 2), ("b", None), ("z", 1)]


@pytest.mark.parametrize(
    ("column", "values"),
    [("x", [-0.0, 0.0]), ("s", [None, {"a": -0.0, "b": None}, {"a": 0.0, "b": None}, {"a": 0.0, "b": "b"}])],
)
def test_values_that_are_equal_or_have_no_order_have_a_place_yet(column: str, values: list[object]) -> None:
    rows = [{"key": 0, "t": 5, column: value} for value in values]
    found = {repr(plain(tuples_of(each, [column]).in_order().columns.column(column))) for each in permutations(rows)}
    assert len(found) == 1


def test_the_sign_of_a_zero_comes_behind_the_other_columns() -> None:
    rows = [{"key": 0, "t": 5, "x": x, "n": n} for x, n in ((-0.0, 2), (0.0, 1), (-0.0, 1))]
    ordered = tuples_of(rows, ["x", "n"]).in_order().columns
    assert repr([*zip(*map(plain, ordered.columns), strict=True)]) == "[(-0.0, 1), (0.0, 1), (-0.0, 2)]"


@given(st.lists(st.integers(0, 5) | st.integers(0, 2**40), max_size=50))
def test_by_code_is_a_stable_argsort(codes: list[int]) -> None:
    array = np.array(codes, dtype=np.int64)
    assert by_code(array).tolist() == np.argsort(array, kind="stable").tolist()


@given(KEYED, COLUMNS, st.data())
def test_take(rows: list[Row], columns: list[str], data: st.DataObject) -> None:
    tuples = tuples_of(rows, columns)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))), dtype=bool)
    expected = read(tuples_of([row for row, kept in zip(rows, mask, strict=True) if kept], columns))
    assert read(tuples.take(mask)) == expected
    assert read(tuples.take(np.flatnonzero(mask))) == expected
    assert len(tuples.take(mask)) == mask.sum()


def test_take_of_all_is_the_same() -> None:
    tuples = tuples_of([{"key": 0, "t": 5}], [])
    assert tuples.take(np.array([True])) is tuples


@given(KEYED, COLUMNS, st.data())
def test_concatenated(rows: list[Row], columns: list[str], data: st.DataObject) -> None:
    parts = [tuples_of(part, columns) for part in data.draw(strategies.cuts(rows))]
    assert read(concatenated(parts)) == read(tuples_of(rows, columns))
    assert concatenated(parts).columns.schema == parts[0].columns.schema


@given(KEYED, COLUMNS)
def test_recoded(rows: list[Row], columns: list[str]) -> None:
    codes = np.arange(70_001)[::-1]
    moved = [{**row, "key": 70_000 - row["key"]} for row in rows]
    assert read(tuples_of(rows, columns).recoded(codes)) == read(tuples_of(moved, columns))


@given(KEYED, COLUMNS)
def test_pack_and_unpack(rows: list[Row], columns: list[str]) -> None:
    tuples = tuples_of(rows, columns)
    keys = pa.record_batch([pa.nulls(1)], schema=key_schema([]))
    layout = Layout(key_schema([]), (), tuples.columns.schema)
    back = packed.unpack(layout, packed.pack(PaneTable(keys, (), {}, tuples))).tuples
    assert back is not None
    assert back.key.dtype == back.time.dtype == np.int64
    assert back.columns.schema == tuples.columns.schema
    assert read(back) == read(tuples)


@pytest.mark.parametrize("columns", [[], ["w"]])
def test_no_tuples(columns: list[str]) -> None:
    schema = pa.schema([pa.field(name, TYPES[name]) for name in columns])
    none = Layout(key_schema([]), (), schema).no_tuples()
    assert none is not None
    assert len(none) == 0
    assert none.columns.schema == schema
    assert len(none.in_order()) == 0
    assert len(concatenated([none, none])) == 0
    assert Layout(key_schema([]), ()).no_tuples() is None
