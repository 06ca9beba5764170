"""Sums and means of decimals against Python's own, which have as many digits as they need."""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Context, Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin import aggregates as A
from muntin.aggregates.decimals import Wide
from muntin.arrays import Runs
from muntin.errors import MuntinError
from muntin.partials.rows import Rows
from muntin.partials.values import of_type
from tests import strategies
from tests.builders import TIME

EXACTLY = Context(prec=200, rounding=ROUND_HALF_UP)


@st.composite
def types(draw: st.DrawFn) -> pa.Decimal128Type:
    precision = draw(st.sampled_from([1, 5, 10, 17, 18, 19, 20, 28, 29, 34, 38]) | st.integers(1, 38))
    return pa.decimal128(precision, draw(st.integers(0, precision)))


def decimals(kind: pa.Decimal128Type) -> st.SearchStrategy[Decimal | None]:
    most = 10**kind.precision - 1
    units = st.integers(-most, most) | st.sampled_from([most, -most, 0, 1, -1]) | st.integers(-9, 9)
    return st.none() | units.map(lambda unit: scaled(min(max(unit, -most), most), kind.scale))


def scaled(units: int, scale: int) -> Decimal:
    return EXACTLY.scaleb(Decimal(units), -scale)


def answer(aggregate: A.Aggregate, kind: pa.DataType, parts: Sequence[Sequence[Decimal | None]]) -> Decimal | None:
    """Of all parts, each of which is a pane of its own; as one run, and combined one by one."""
    bound = aggregate.bind({"d": kind}, None, TIME)
    column = pa.array([each for part in parts for each in part], kind)
    column = pa.concat_arrays([pa.nulls(1, kind), column]).slice(1)  # as a part of a larger array
    groups = np.array([i for i, part in enumerate(parts) for _ in part], dtype=np.int64)
    rows = Rows(pa.record_batch([column], ["d"]), np.zeros(len(column), dtype=np.int64), groups, len(parts))
    lifted = [partial.lift(rows) for partial in bound.partials]
    runs = Runs.of(np.array([0]), len(parts))
    reduced = [partial.reduce(state, runs) for partial, state in zip(bound.partials, lifted, strict=True)]
    for partial, state, whole in zip(bound.partials, lifted, reduced, strict=True):
        combined = tuple(column[:1] for column in state)
        for part in range(1, len(parts)):
            combined = partial.combine(combined, tuple(column[part : part + 1] for column in state))
        assert [column.tolist() for column in combined] == [column.tolist() for column in whole]
    (found,) = bound.lower(reduced, {}).cast(bound.result).to_pylist()
    assert found is None or isinstance(found, Decimal)
    return found


@given(st.data())
def test_sums_and_means_are_exact_or_an_error(data: st.DataObject) -> None:
    kind = data.draw(types())
    values = data.draw(st.lists(decimals(kind), min_size=1, max_size=8))
    parts = data.draw(strategies.cuts(values))
    there = [each for each in values if each is not None]
    total = Decimal(0)
    for each in there:
        total = EXACTLY.add(total, each)
    expected = {A.sum: total, A.mean: EXACTLY.divide(total, Decimal(max(len(there), 1)))}
    for aggregate, exact in expected.items():
        result = aggregate("d").bind({"d": kind}, None, TIME).result
        rounded = EXACTLY.quantize(exact, scaled(1, result.scale))
        if not there:
            assert answer(aggregate("d"), kind, parts) is None
        elif EXACTLY.abs(rounded) >= scaled(10**result.precision, result.scale):
            with pytest.raises(MuntinError, match=r"of column 'd' overflows decimal.*use smaller windows"):
                answer(aggregate("d"), kind, parts)
        else:
            assert answer(aggregate("d"), kind, parts) == rounded


@pytest.mark.parametrize(
    ("kind", "total", "mean"),
    [
        (pa.decimal128(10, 2), pa.decimal128(20, 2), pa.decimal128(14, 6)),
        (pa.decimal128(28, 0), pa.decimal128(38, 0), pa.decimal128(32, 4)),
        (pa.decimal128(38, 10), pa.decimal128(38, 10), pa.decimal128(38, 14)),
        (pa.decimal128(38, 38), pa.decimal128(38, 38), pa.decimal128(38, 38)),
    ],
)
def test_types_are_those_of_spark(kind: pa.DataType, total: pa.DataType, mean: pa.DataType) -> None:
    assert A.sum("d").bind({"d": kind}, None, TIME).result == total
    assert A.mean("d").bind({"d": kind}, None, TIME).result == mean


def test_a_half_is_rounded_away_from_zero() -> None:
    kind = pa.decimal128(4, 2)
    eight = [Decimal("0.01")] + [Decimal("0.00")] * 31  # 0.0003125
    assert answer(A.mean("d"), kind, [eight]) == Decimal("0.000313")
    assert answer(A.mean("d"), kind, [[-each for each in eight]]) == Decimal("-0.000313")


@given(st.data())
def test_decimals_as_doubles_are_the_nearest_ones(data: st.DataObject) -> None:
    """Up to 15 digits; beyond that there is a double between them and the nearest one at most."""
    kind = data.draw(types())
    column = data.draw(st.lists(decimals(kind), min_size=1, max_size=8))
    found = of_type(pa.array([None, *column], kind).slice(1), pa.float64()).to_pylist()
    for each, exact in zip(found, column, strict=True):
        if exact is None or kind.precision <= 15:
            assert each == (None if exact is None else float(exact))
        else:
            assert abs(each - float(exact)) <= 2 * math.ulp(float(exact))


@given(st.data())
def test_wide_integers(data: st.DataObject) -> None:
    units = data.draw(st.lists(st.integers(-(10**30), 10**30), min_size=1, max_size=5))
    by = data.draw(st.lists(st.integers(1, 2**45), min_size=len(units), max_size=len(units)))
    digits = [[unit >> 96, *((unit >> shift) & 0xFFFFFFFF for shift in (64, 32, 0))] for unit in units]
    wide = Wide.of(tuple(np.array(column, dtype=np.int64) for column in zip(*digits, strict=True)))
    factors, kind, nothing = np.array(by, dtype=np.int64), pa.decimal128(38, 0), np.zeros(len(units), dtype=bool)
    assert wide.as_decimals(kind, nothing, "").to_pylist() == units
    assert wide.times(factors).over(factors).as_decimals(kind, nothing, "").to_pylist() == units
    with decimal.localcontext(EXACTLY):
        expected = [int((Decimal(unit) / each).to_integral_value()) for unit, each in zip(units, by, strict=True)]
    assert wide.over(factors).as_decimals(kind, nothing, "").to_pylist() == expected
    products = [unit * each for unit, each in zip(units, by, strict=True)]
    if all(abs(product) < 10**38 for product in products):
        assert wide.times(factors).as_decimals(kind, nothing, "").to_pylist() == products
    else:
        with pytest.raises(MuntinError, match="overflows decimal"):
            wide.times(factors).as_decimals(kind, nothing, "that")
