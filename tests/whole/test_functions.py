"""Every holistic aggregate over windows that are ranges of tuples, against its meaning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.holistic import frequent
from muntin.holistic.collected import Collected
from muntin.holistic.contents import WindowContents
from muntin.holistic.distinct import DistinctCount
from muntin.holistic.frequent import Mode, TopK
from muntin.holistic.function import HolisticFunction, spread
from muntin.holistic.quantiles import Quantiles
from muntin.panes.tuples import Tuples
from tests import naive, strategies
from tests.naive import Aggregation, Row

NUMBERS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "long": (pa.int64(), st.integers(-3, 3) | st.integers(-(2**62), 2**62)),
    "byte": (pa.int8(), st.integers(-128, 127)),
    "double": (pa.float64(), strategies.FLOATS),
    "float": (pa.float32(), strategies.FLOATS),
    "decimal": (pa.decimal128(10, 2), st.sampled_from([Decimal("1.50"), Decimal("-1.50"), Decimal("0.25")])),
}
KINDS = NUMBERS | {
    "boolean": (pa.bool_(), st.booleans()),
    "string": (pa.string(), strategies.WORDS),
    "date": (pa.date32(), st.sampled_from([date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)])),
    "timestamp": (pa.timestamp("us"), st.sampled_from([datetime(1, 1, 1), datetime(2013, 7, 1, 12)])),
}
Windows = list[tuple[int, int]]


@st.composite
def windows_of_keys(draw: st.DrawFn, sizes: Sequence[int]) -> Windows:
    """Windows in any order. Along a key both their edges grow; they overlap, and some are empty."""
    windows: Windows = []
    first = 0
    for size in sizes:
        edge = st.integers(first, first + size)
        pairs = [sorted(draw(st.tuples(edge, edge))) for _ in range(draw(st.integers(0, 6)))]
        begins, ends = (sorted(pair[i] for pair in pairs) for i in (0, 1))
        windows += zip(begins, ends, strict=True)
        first += size
    return draw(st.permutations(windows))


@st.composite
def inputs(
    draw: st.DrawFn, kinds: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]]
) -> tuple[WindowContents, list[Row]]:
    """Tuples of some keys and windows over them, and the tuples as rows."""
    kind, value = kinds[draw(st.sampled_from(list(kinds)))]
    sizes = draw(st.lists(st.integers(1, 12), max_size=4))
    row = st.fixed_dictionaries({"v": st.none() | value, "kept": st.none() | st.booleans()})
    rows: list[Row] = draw(st.lists(row, min_size=sum(sizes), max_size=sum(sizes)))
    return held_of(rows, kind, sizes, draw(windows_of_keys(sizes))), rows


def held_of(rows: Sequence[Row], kind: pa.DataType, sizes: Sequence[int], windows: Windows) -> WindowContents:
    columns = pa.record_batch(
        [pa.array([row["v"] for row in rows], kind), pa.array([row["kept"] for row in rows], pa.bool_())],
        names=["v", "kept"],
    )
    key = np.repeat(np.arange(len(sizes)), np.array(sizes, dtype=np.int64))
    time = np.concatenate([np.zeros(0, np.int64), *(np.arange(size) for size in sizes)])
    begin, end = (np.array([window[i] for window in windows], dtype=np.int64) for i in (0, 1))
    return WindowContents(Tuples(key, time, columns), begin, end)


def check(whole: HolisticFunction, of: Aggregation, held: WindowContents, rows: Sequence[Row]) -> None:
    if whole.where is not None:
        of = naive.where(whole.where, of)
    found = [flat(value) for value in whole.compute(held).to_pylist()]
    expected = [flat(of(rows[b:e])) for b, e in zip(held.begin.tolist(), held.end.tolist(), strict=True)]
    assert len(found) == len(expected)
    assert all(map(naive.same, found, expected)), (found, expected)


def flat(value: Any) -> Any:
    """Lists of pairs for lists of structs: NaN is like NaN within lists."""
    if isinstance(value, list):
        return [[each["item"], each["count"]] if isinstance(each, dict) else each for each in value]
    return value


WHERE = st.sampled_from([None, "kept"])
PROBABILITIES = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75, 0.99, 1.0]) | st.floats(0, 1)


def as_numbers(rows: Sequence[Row]) -> list[Row]:
    return [{**row, "v": float(row["v"]) if isinstance(row["v"], Decimal) else row["v"]} for row in rows]


@given(inputs(NUMBERS), WHERE, PROBABILITIES)
def test_a_quantile(drawn: tuple[WindowContents, list[Row]], where: str | None, probability: float) -> None:
    held, rows = drawn
    whole = Quantiles("v", where, (probability,), as_list=False)
    check(whole, naive.quantile("v", probability), held, as_numbers(rows))


@given(inputs(NUMBERS), WHERE, st.lists(PROBABILITIES, min_size=1, max_size=4))
def test_several_quantiles(
    drawn: tuple[WindowContents, list[Row]], where: str | None, probabilities: list[float]
) -> None:
    held, rows = drawn
    whole = Quantiles("v", where, tuple(probabilities), as_list=True)
    check(whole, naive.quantiles("v", probabilities), held, as_numbers(rows))


@given(inputs(KINDS), WHERE)
def test_how_many_are_distinct(drawn: tuple[WindowContents, list[Row]], where: str | None) -> None:
    check(DistinctCount("v", where), naive.count_distinct("v"), *drawn)


@given(inputs(KINDS), WHERE)
def test_how_many_combinations_are_distinct(drawn: tuple[WindowContents, list[Row]], where: str | None) -> None:
    held, rows = drawn
    both = [{**row, "v": None if row["v"] is None else (_one_form(row["v"]), row["kept"])} for row in rows]
    both = [{**row, "v": None if row["kept"] is None else row["v"]} for row in both]

    def combinations(window: Sequence[Row]) -> int:
        return len({row["v"] for row in window if row["v"] is not None})

    check(DistinctCount("v", where, ("kept",)), combinations, held, both)


def _one_form(value: Any) -> Any:
    """NaN is like NaN, and zero like minus zero."""
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    return value


@given(inputs(KINDS), WHERE, st.sampled_from([1, 3, 1 << 20]))
def test_the_mode(drawn: tuple[WindowContents, list[Row]], where: str | None, most: int) -> None:
    with patch.object(frequent, "MOST_COUNTS", most):
        check(Mode("v", where), naive.mode("v"), *drawn)


@given(inputs(KINDS), WHERE, st.integers(1, 5), st.sampled_from([1, 3, 1 << 20]))
def test_the_most_frequent(drawn: tuple[WindowContents, list[Row]], where: str | None, k: int, most: int) -> None:
    with patch.object(frequent, "MOST_COUNTS", most):
        check(TopK("v", where, k), naive.top_k("v", k), *drawn)


@given(inputs(KINDS), WHERE)
def test_all_values(drawn: tuple[WindowContents, list[Row]], where: str | None) -> None:
    check(Collected("v", where), lambda rows: naive.column_values(rows, "v"), *drawn)


@settings(max_examples=20)
@given(inputs(NUMBERS))
def test_what_is_shared_between_aggregates_serves_each_of_them(drawn: tuple[WindowContents, list[Row]]) -> None:
    held, rows = drawn
    for where in (None, "kept", None):
        check(DistinctCount("v", where), naive.count_distinct("v"), held, rows)
        check(Mode("v", where), naive.mode("v"), held, rows)
        check(Quantiles("v", where, (0.5,), as_list=False), naive.quantile("v", 0.5), held, as_numbers(rows))


def one_window(kind: pa.DataType, *values: Any) -> WindowContents:
    rows = [{"v": value, "kept": True} for value in values]
    return held_of(rows, kind, [len(rows)] if rows else [], [(0, len(rows))])


@pytest.mark.parametrize("values", [(), (None, None)])
def test_of_no_values(values: tuple[None, ...]) -> None:
    held = one_window(pa.int64(), *values)
    assert Quantiles("v", None, (0.5,), as_list=False).compute(held).to_pylist() == [None]
    assert Quantiles("v", None, (0.5, 1.0), as_list=True).compute(held).to_pylist() == [None]
    assert Mode("v", None).compute(held).to_pylist() == [None]
    assert DistinctCount("v", None).compute(held).to_pylist() == [0]
    assert TopK("v", None, 3).compute(held).to_pylist() == [[]]
    assert Collected("v", None).compute(held).to_pylist() == [[]]


def test_zeros_are_one_value_and_so_are_nans() -> None:
    held = one_window(pa.float64(), 0.0, math.nan, -0.0, -math.nan, 0.0)
    assert DistinctCount("v", None).compute(held).to_pylist() == [2]
    assert Mode("v", None).compute(held).to_pylist() == [0.0]
    ((first, second),) = TopK("v", None, 5).compute(held).to_pylist()
    assert first == {"item": 0.0, "count": 3}
    assert math.isnan(second["item"])
    assert second["count"] == 2


def test_nan_is_greater_than_all_numbers() -> None:
    held = one_window(pa.float64(), math.nan, math.inf, 1.0)
    assert Quantiles("v", None, (0.0, 0.5), as_list=True).compute(held).to_pylist() == [[1.0, math.inf]]
    assert math.isnan(Quantiles("v", None, (1.0,), as_list=False).compute(held)[0].as_py())


def test_between_infinities_there_is_no_number() -> None:
    held = one_window(pa.float64(), -math.inf, math.inf)
    assert math.isnan(Quantiles("v", None, (0.5,), as_list=False).compute(held)[0].as_py())


def test_of_equally_frequent_values_the_least() -> None:
    held = one_window(pa.string(), "b", "a", "c", "b", "a")
    assert Mode("v", None).compute(held).to_pylist() == ["a"]
    pairs = [{"item": "a", "count": 2}, {"item": "b", "count": 2}]
    assert TopK("v", None, 2).compute(held).to_pylist() == [pairs]


def test_spread() -> None:
    assert spread(pa.array([1, 2]), np.array([2, 0]), 4).to_pylist() == [2, None, 1, None]
    assert spread(pa.array([1, 2]), np.array([0, 1]), 2).to_pylist() == [1, 2]
