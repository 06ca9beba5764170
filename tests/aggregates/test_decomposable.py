"""Every built-in aggregate against its meaning: lifted, combined in any grouping, reduced."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin import aggregates as A
from muntin.arrays import Runs, State, fold_runs
from muntin.errors import MuntinError
from muntin.partials.partial import Count, IntegerSum, Partial
from muntin.partials.rows import Rows
from tests import strategies
from tests.builders import BUILT_IN, TIME, TYPES, bind, plain, row, to_batch
from tests.naive import Row, same

PARTS = 4


@st.composite
def grouped_rows(draw: st.DrawFn) -> list[list[list[Row]]]:
    """Rows by group and part; some of both are empty."""
    parts = st.lists(strategies.rows(max_size=3), min_size=PARTS, max_size=PARTS)
    return draw(st.lists(parts, min_size=1, max_size=3))


def united(drawn: list[list[list[Row]]]) -> list[list[Row]]:
    return [[each for part in group for each in part] for group in drawn]


def as_rows(rows: Sequence[Row], groups: Sequence[int], group_count: int) -> Rows:
    times = np.array([each["t"] for each in rows], dtype=np.int64)
    return Rows(to_batch(rows), times, np.array(groups, dtype=np.int64), group_count)


def part_rows(drawn: list[list[list[Row]]]) -> Rows:
    """All parts of all groups as one batch, so that ranks are of one dictionary."""
    flat = [part for group in drawn for part in group]
    groups = [i for i, part in enumerate(flat) for _ in part]
    return as_rows([each for part in flat for each in part], groups, len(flat))


def check_answers(name: str, states: list[State], rows: Rows, groups: list[list[Row]]) -> None:
    bound = bind(BUILT_IN[name].aggregate)
    for partial, state in zip(bound.partials, states, strict=True):
        assert [column.dtype for column in state] == [np.dtype(field.dtype) for field in partial.fields], name
    answers = plain(bound.lower(states, rows.dictionaries).cast(bound.result))
    expected = [BUILT_IN[name].naive(group) for group in groups]
    assert len(answers) == len(expected)
    assert all(map(same, answers, expected)), (name, answers, expected)


def one_run(length: int) -> Runs:
    return Runs.of(np.array([0]), length)


@given(grouped_rows())
def test_lift(drawn: list[list[list[Row]]]) -> None:
    rows = part_rows(drawn)
    for name, case in BUILT_IN.items():
        states = [partial.lift(rows) for partial in bind(case.aggregate).partials]
        check_answers(name, states, rows, [part for group in drawn for part in group])


@given(grouped_rows())
def test_reduce_is_the_lift_of_the_union(drawn: list[list[list[Row]]]) -> None:
    rows = part_rows(drawn)
    runs = Runs.of(np.arange(len(drawn)) * PARTS, rows.group_count)
    for name, case in BUILT_IN.items():
        states = [partial.reduce(partial.lift(rows), runs) for partial in bind(case.aggregate).partials]
        check_answers(name, states, rows, united(drawn))


@given(grouped_rows(), st.permutations(range(PARTS)), st.tuples(*(st.integers(0, joint) for joint in (2, 1, 0))))
def test_combine_in_any_order_and_grouping_is_the_lift_of_the_union(
    drawn: list[list[list[Row]]], order: list[int], joints: tuple[int, ...]
) -> None:
    rows = part_rows(drawn)
    for name, case in BUILT_IN.items():
        states = [combined(partial, partial.lift(rows), order, joints) for partial in bind(case.aggregate).partials]
        check_answers(name, states, rows, united(drawn))


def combined(partial: Partial, state: State, order: Sequence[int], joints: Sequence[int]) -> State:
    """The parts in `order`; neighbours are combined at each joint in turn, until one is left."""
    parts = [tuple(column[part::PARTS] for column in state) for part in order]
    for joint in joints:
        parts[joint : joint + 2] = [partial.combine(parts[joint], parts[joint + 1])]
    (whole,) = parts
    return whole


# Integers


def one_group(aggregate: A.Aggregate, column: pa.Array) -> Any:
    """The aggregate over all of column "n"."""
    bound = aggregate.bind({"n": column.type}, None, TIME)
    nothing = np.zeros(len(column), dtype=np.int64)
    rows = Rows(pa.record_batch([column], ["n"]), nothing, nothing, 1)
    return bound.lower([partial.lift(rows) for partial in bound.partials], rows.dictionaries)[0].as_py()


LARGE = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([2**63 - 1, -(2**63), 2**53 + 1, -1, 1])


@given(st.lists(LARGE, min_size=1, max_size=8), st.data())
def test_integer_sums_are_exact_or_an_error(numbers: list[int], data: st.DataObject) -> None:
    parts = data.draw(strategies.cuts(numbers))
    bound = A.sum("n").bind({"n": pa.int64()}, None, TIME)
    groups = np.array([i for i, part in enumerate(parts) for _ in part], dtype=np.int64)
    rows = Rows(pa.record_batch([pa.array(numbers)], ["n"]), groups, groups, len(parts))
    states = [partial.reduce(partial.lift(rows), one_run(len(parts))) for partial in bound.partials]
    if -(2**63) <= sum(numbers) < 2**63:
        assert bound.lower(states, {}).to_pylist() == [sum(numbers)]
    else:
        with pytest.raises(MuntinError, match="sum of column 'n' overflows a 64-bit integer"):
            bound.lower(states, {})


@pytest.mark.parametrize("value", [2**41 - 1, 1 - 2**41, 3])
def test_integer_sums_of_many_tuples_are_exact(value: int) -> None:
    length = (1 << 21) + 1001  # so many halves are beyond what double precision could add
    assert one_group(A.sum("n"), pa.array(np.full(length, value))) == value * length


@given(st.lists(LARGE, min_size=1, max_size=8))
def test_integer_means_do_not_overflow(numbers: list[int]) -> None:
    exact = Fraction(sum(numbers), len(numbers))
    assert math.isclose(one_group(A.mean("n"), pa.array(numbers)), exact, rel_tol=1e-15)


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32()])
def test_sums_of_narrow_integers_are_longs(kind: pa.DataType) -> None:
    assert one_group(A.sum("n"), pa.array([100, 100, 100], kind)) == 300


# Floating numbers


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=20), st.sampled_from([1e9, -1e9, 1e12]), st.data())
def test_variance_far_from_zero(drawn: list[int], base: float, data: st.DataObject) -> None:
    numbers = [base + each / 1024 for each in drawn]
    exact = [Fraction(number) for number in numbers]
    expected = sum((number - sum(exact) / len(exact)) ** 2 for number in exact) / len(exact)
    parts = data.draw(strategies.cuts(numbers))
    bound = bind(A.var_pop("x"))
    groups = [i for i, part in enumerate(parts) for _ in part]
    rows = as_rows([row(0, x=number) for number in numbers], groups, len(parts))
    (moments,) = bound.partials
    (found,) = bound.lower([moments.reduce(moments.lift(rows), one_run(len(parts)))], {}).to_pylist()
    # Means are known to an ulp of the base, and so are distances from them. A sum of squares would be off by hundreds.
    slack = 4 * math.ulp(base)
    assert math.isclose(found, expected, abs_tol=slack * (max(numbers) - min(numbers) + slack))


@pytest.mark.parametrize(
    ("numbers", "total"),
    [
        ([math.inf, -math.inf], math.nan),
        ([math.inf, 1.0], math.inf),
        ([1e308, 1e308], math.inf),
        ([math.nan], math.nan),
    ],
)
def test_sums_beyond_the_finite_are_silent(numbers: list[float], total: float) -> None:
    bound = bind(A.sum("x"))
    rows = as_rows([row(0, x=number) for number in numbers], range(len(numbers)), len(numbers))
    lifted = [partial.lift(rows) for partial in bound.partials]
    runs = one_run(len(numbers))
    reduced = [partial.reduce(state, runs) for partial, state in zip(bound.partials, lifted, strict=True)]
    folded = [fold_runs(state, runs, p.combine) for p, state in zip(bound.partials, lifted, strict=True)]
    for states in (reduced, folded):
        (found,) = bound.lower(states, {}).to_pylist()
        assert same(found, total)


def test_variance_of_one_value() -> None:
    assert one_group(A.var_pop("n"), pa.array([5.0])) == 0.0
    assert one_group(A.var_samp("n"), pa.array([5.0])) is None
    assert one_group(A.stddev_samp("n"), pa.array([math.nan])) is None


@pytest.mark.parametrize("position", [0, 1])
def test_the_moments_of_nothing_change_nothing(position: int) -> None:
    # 1e200 squared is infinite, and infinity times no tuples would be NaN.
    bound = bind(A.var_pop("x"))
    (moments,) = bound.partials
    state = moments.lift(as_rows([row(0, x=1e200)], [position], 2))
    assert bound.lower([moments.reduce(state, one_run(2))], {}).to_pylist() == [0.0]


def test_variance_of_decimals() -> None:
    assert one_group(A.var_pop("n"), pa.array([Decimal("1.0"), Decimal("3.0")])) == 1.0


# Types and names


@pytest.mark.parametrize(
    ("aggregate", "result"),
    [
        (A.count(), pa.int64()),
        (A.sum("n"), pa.int64()),
        (A.sum("x"), pa.float64()),
        (A.mean("n"), pa.float64()),
        (A.stddev_pop("n"), pa.float64()),
        (A.min("w"), pa.string()),
        (A.last("kept"), pa.bool_()),
        (A.argmax("w", "n"), pa.string()),
        (A.argmin("n"), TIME),
        (A.max_count("x"), pa.int64()),
    ],
)
def test_result_types(aggregate: A.Aggregate, result: pa.DataType) -> None:
    assert bind(aggregate).result == result


@pytest.mark.parametrize(
    "column",
    [
        pa.array([3, 1, 2], pa.int8()),
        pa.array([3, 1, 2], pa.date32()),
        pa.array([3, 1, 2], pa.timestamp("us")),
        pa.array([3, 1, 2], pa.duration("us")),
        pa.array([0.5, -0.5, 0.25], pa.float32()),
        pa.array([b"c", b"a", b"b"]),
        pa.array([Decimal("3.10"), Decimal("-1.20"), Decimal("2.00")]),
        pa.array(["c", "B", "b"]),
    ],
    ids=lambda column: str(column.type),
)
def test_extremes_of_every_type(column: pa.Array) -> None:
    assert one_group(A.max("n"), column) == column[0].as_py()
    assert one_group(A.min("n"), column) == column[1].as_py()
    assert one_group(A.min("n"), pa.nulls(3, column.type)) is None


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: bind(A.sum("w")), "sum needs a number, but column 'w' is of type string"),
        (lambda: bind(A.mean("kept")), "mean needs a number"),
        (lambda: bind(A.stddev_samp("w")), "stddev_samp needs a number"),
        (lambda: bind(A.min("s")), "column 's' is of type struct.*cannot be compared"),
        (lambda: bind(A.argmin("x", "s")), "column 's' is of type struct.*cannot be compared"),
        (lambda: bind(A.max("fare"), {"fares": pa.int64()}), "no column 'fare' in the data. Did you mean 'fares'"),
        (lambda: bind(A.count("zzz")), "no column 'zzz' in the data. There are: 't', 'k'"),
        (lambda: bind(A.sum("d"), {"d": pa.date32()}), "sum needs a number, but column 'd' is of type date; cast"),
        (lambda: A.sum(""), "column must be the name of a column.*got ''"),
        (lambda: A.count(3), "column must be the name of a column.*got 3"),  # type: ignore[arg-type]
        (lambda: A.argmax("x", by=""), "by must be the name of a column"),
        (lambda: A.count(where="  "), "where is an empty string"),
    ],
)
def test_wrong_combinations_fail_when_built(build: Any, message: str) -> None:
    with pytest.raises(MuntinError, match=message):
        build()


def test_partials_are_values() -> None:
    types = TYPES
    total, present = A.sum("n").bind(types, None, TIME).partials
    assert A.mean("n").bind(types, None, TIME).partials == (total, present) == (IntegerSum(None, "n"), Count(None, "n"))
    assert A.sum("n").bind(types, "kept", TIME).partials != (total, present)
