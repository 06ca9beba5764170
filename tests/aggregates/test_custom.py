from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin import aggregates as A
from muntin.arrays import Array, Runs, State
from muntin.errors import MuntinError
from muntin.partials.custom import CustomPartial, OptionalPartial
from muntin.partials.rows import Rows
from tests import naive, strategies
from tests.builders import TIME, bind, compose, lift_affine, one_number, to_batch
from tests.naive import Row

TYPES = {"n": pa.int64(), "x": pa.float64(), "kept": pa.bool_()}


def same_array(state: Any) -> Any:
    return state


def add(left: Array, right: Array) -> Array:
    return np.asarray(left + right)


def folded(aggregate: A.Aggregate, *columns: list[Any], types: dict[str, pa.DataType] = TYPES) -> Any:
    """The aggregate over one group of tuples."""
    bound = bind(aggregate, types)
    (partial,) = bound.partials
    assert isinstance(partial, CustomPartial)
    names = partial.inputs
    batch = pa.record_batch([pa.array(c, types[n]) for n, c in zip(names, columns, strict=True)], list(names))
    nothing = np.zeros(batch.num_rows, dtype=np.int64)
    _, state = partial.lift_tuples(Rows(batch, nothing, nothing, 1))
    return bound.lower([partial.reduce(state, Runs.of(np.array([0]), len(state[0])))], {})[0].as_py()


# The state may be an array, a tuple, a list or a dict


@given(st.lists(st.integers(-100, 100), min_size=1))
def test_a_state_of_one_array(numbers: list[int]) -> None:
    assert folded(A.custom(lambda n: n, add, same_array, returns="long"), numbers) == sum(numbers)


@given(st.lists(st.floats(1, 100), min_size=1))
def test_a_state_of_several_arrays(numbers: list[float]) -> None:
    geometric_mean = A.custom(
        lambda x: (np.log(x), np.ones_like(x)),
        lambda a, b: [a[0] + b[0], a[1] + b[1]],
        lambda state: np.exp(state[0] / state[1]),
    )
    assert math.isclose(folded(geometric_mean, numbers), math.exp(sum(map(math.log, numbers)) / len(numbers)))


@given(st.lists(st.integers(-100, 100), min_size=1))
def test_a_state_with_names_keeps_the_order(numbers: list[int]) -> None:
    first_and_last = A.custom(
        lambda n: {"first": n, "last": n},
        lambda a, b: {"first": a["first"], "last": b["last"]},
        lambda state: state["last"] * 1000 + state["first"],
        returns="long",
    )
    assert folded(first_and_last, numbers) == numbers[-1] * 1000 + numbers[0]


@given(st.lists(st.booleans(), min_size=1))
def test_a_state_of_booleans(flags: list[bool]) -> None:
    parity = A.custom(lambda kept: kept, np.logical_xor, same_array, returns="boolean")
    assert folded(parity, flags) == reduce(lambda a, b: a != b, flags)


# What lift gets


def test_columns_are_the_parameters_of_lift() -> None:
    weighted = A.custom(lambda x, n: x * n, add, same_array)
    assert weighted.columns == ("x", "n")
    assert folded(weighted, [1.0, 2.0], [3, 4]) == 11.0


def test_columns_may_be_named() -> None:
    assert A.custom(lambda value: value, add, same_array, columns="x").columns == ("x",)
    assert A.custom(lambda a, b: a + b, add, same_array, columns=["x", "n"]).columns == ("x", "n")


@given(strategies.rows(min_size=1))
def test_lift_gets_no_null_and_nothing_filtered_out(rows: list[Row]) -> None:
    aggregate = A.custom(lambda x, n: (x, n), lambda a, b: a, lambda state: state[0], where="kept")
    (partial,) = bind(aggregate).partials
    assert isinstance(partial, CustomPartial)
    groups = np.zeros(len(rows), dtype=np.int64)
    chosen, (x, n) = partial.lift_tuples(Rows(to_batch(rows), groups, groups, 1))
    counted = [i for i, row in enumerate(rows) if row["kept"] and row["x"] is not None and row["n"] is not None]
    assert chosen.tolist() == counted
    assert n.tolist() == [rows[i]["n"] for i in counted]
    np.testing.assert_array_equal(x, np.array([rows[i]["x"] for i in counted], dtype=np.float64))


@pytest.mark.parametrize(
    ("kind", "value", "dtype"),
    [
        (pa.int8(), 5, "int8"),
        (pa.float32(), 0.5, "float32"),
        (pa.bool_(), True, "bool"),
        (pa.string(), "é", "object"),
        (pa.binary(), b"x", "object"),
        (pa.decimal128(5, 2), Decimal("1.25"), "object"),
        (pa.decimal128(3, 3), Decimal("0.125"), "object"),
        (pa.date32(), date(1969, 12, 31), "datetime64[D]"),
        (pa.timestamp("us"), -5, "datetime64[us]"),
        (pa.timestamp("us", tz="UTC"), 5, "datetime64[us]"),
        (pa.duration("us"), 5, "timedelta64[us]"),
    ],
)
def test_every_type_is_lifted_as_it_was_tried(kind: pa.DataType, value: Any, dtype: str) -> None:
    seen = []

    def lift(v: Array) -> Array:
        seen.append(v.dtype)
        return np.ones(len(v), dtype=np.int64)

    assert folded(A.custom(lift, add, same_array, returns="long"), [value, None, value], types={"v": kind}) == 2
    assert seen == [np.dtype(dtype)] * 2


def test_times_may_be_states() -> None:
    latest = A.custom(lambda t: t, np.maximum, same_array, returns="timestamp")
    (partial,) = latest.bind({"t": TIME}, None, TIME).partials
    assert [field.dtype for field in partial.fields] == ["<M8[us]"]


# What is wrong is an error before anything starts


def custom(
    lift: Callable[..., Any] = lambda n: n,
    combine: Callable[..., Any] = add,
    lower: Callable[..., Any] = same_array,
    **options: Any,
) -> A.Bound:
    return bind(A.custom(lift, combine, lower, **options), TYPES)


def fails(*_: Any) -> Any:
    raise ValueError("no luck")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: custom(combine=lambda a, b: (a, b)),
            "lift gave an array .*, combine gave 2 arrays",
        ),
        (lambda: custom(lambda n: (n, n)), "combine .* raised TypeError|same state as lift"),
        (
            lambda: custom(lambda n: {"a": n}, lambda a, b: {"b": a["a"]}),
            "lift gave a dict of 'a', combine gave a dict of 'b'",
        ),
        (lambda: custom(combine=lambda a, b: a / 2), "keep the shape and the type .* int64 it made float64"),
        (lambda: custom(combine=lambda a, b: np.concatenate([a, b])), r"keep the shape .* of shape \(4,\)"),
        (lambda: custom(combine=lambda a, b: a.sum()), "combine of a custom aggregate must return a NumPy array"),
        (lambda: custom(combine=fails), "combine of a custom aggregate raised ValueError .* no luck"),
        (lambda: custom(lambda n: fails()), "lift of a custom aggregate raised ValueError .* no luck"),
        (lambda: custom(lambda n: n.sum()), "lift of a custom aggregate must return a NumPy array"),
        (lambda: custom(lambda n: n[:2]), r"one value per tuple: 4 tuples gave an array of shape \(2,\)"),
        (lambda: custom(lambda n: np.outer(n, n)), r"shape \(4, 4\)"),
        (lambda: custom(lambda n: n.astype(str)), "a state is made of numbers, booleans or times"),
        (lambda: custom(lambda n: n.astype(object)), "a state is made of numbers, booleans or times"),
        (lambda: custom(lambda n: n.astype("M8[m]"), np.maximum), "a state is made of numbers, booleans or times"),
        (lambda: custom(lower=fails), "lower of a custom aggregate raised ValueError .* no luck"),
        (lambda: custom(lower=lambda state: state[:1]), "2 states gave 1 values"),
        (lambda: custom(lower=lambda state: state.sum()), "lower of a custom aggregate returned"),
        (lambda: custom(lower=lambda state: state + 0.5, returns="int"), "does not fit returns='int'"),
        (lambda: custom(lower=lambda state: ["a", "b"], returns="int"), "does not fit returns='int'"),
        (lambda: custom(returns="complex"), "returns is 'complex'; give one of double"),
        (lambda: custom(columns="z"), "no column 'z' in the data"),
        (lambda: custom(lambda fare: fare), "no column 'fare' in the data"),
        (lambda: custom(columns=()), "columns is empty"),
        (lambda: custom(lambda: np.zeros(4)), "columns is empty"),
        (
            lambda: custom(columns=["n", 5]),
            "columns must be the name of a column, a SQL expression or a Spark column, got 5",
        ),
        (lambda: custom("n"), "lift must be a function, got 'n'"),  # type: ignore[arg-type]
        (lambda: custom(lower=None), "lower must be a function, got None"),  # type: ignore[arg-type]
        (
            lambda: A.custom(lambda v: v, add, same_array).bind({"v": pa.list_(pa.int64())}, None, TIME),
            "cannot read column 'v' of type array<",
        ),
    ],
)
def test_errors_when_built(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(MuntinError, match=message):
        build()


def test_a_length_that_is_wrong_only_later() -> None:
    aggregate = A.custom(lambda n: n[:4], add, same_array, returns="long")
    with pytest.raises(MuntinError, match=r"lift of a custom aggregate must return 1 array\(s\) of length 5"):
        folded(aggregate, [1, 2, 3, 4, 5])


@pytest.mark.parametrize(
    ("returns", "kind"),
    [("double", pa.float64()), (" LONG ", pa.int64()), ("timestamp", TIME), (pa.int16(), pa.int16())],
)
def test_returns(returns: Any, kind: pa.DataType) -> None:
    values = {pa.float64(): 1.0, TIME: np.datetime64(1, "us")}
    bound = custom(lower=lambda state: np.full(len(state), values.get(kind, 1)), returns=returns)
    assert bound.result == kind


def test_commutative_says_whether_panes_keep_tuples() -> None:
    (ordered,) = custom().partials
    (free,) = custom(commutative=True).partials
    assert isinstance(ordered, CustomPartial)
    assert isinstance(free, CustomPartial)
    assert (ordered.commutative, free.commutative) == (False, True)


# With a flag, where it shares its leaves with others


def optional_composed(where: str | None) -> tuple[OptionalPartial, CustomPartial]:
    (inner,) = bind(A.custom(lift_affine, compose, one_number, returns="long", where=where)).partials
    assert isinstance(inner, CustomPartial)
    return OptionalPartial(where, inner), inner


def composed_states(state: State) -> list[tuple[int, int] | None]:
    present, a, b = (column.tolist() for column in state)
    return [(slope, shift) if held else None for held, slope, shift in zip(present, a, b, strict=True)]


def maps_of(rows: list[Row], where: str | None) -> tuple[int, int] | None:
    counted = [row["n"] for row in rows if row["n"] is not None and (where is None or row[where])]
    return naive.compose_all(map(naive.affine, counted)) if counted else None


@pytest.mark.parametrize("where", [None, "kept"])
@given(groups=st.lists(strategies.rows(max_size=5), min_size=1, max_size=5))
def test_an_optional_partial_of_groups_of_tuples_in_their_order(where: str | None, groups: list[list[Row]]) -> None:
    partial, _ = optional_composed(where)
    rows = [row for group in groups for row in group]
    of = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    state = partial.lift(Rows(to_batch(rows), np.zeros(len(rows), np.int64), of, len(groups)))
    assert [column.dtype.kind for column in state] == ["b", "i", "i"]
    assert composed_states(state) == [maps_of(group, where) for group in groups]


@given(st.lists(st.tuples(strategies.rows(max_size=2), strategies.rows(max_size=2)), min_size=1, max_size=6))
def test_an_optional_partial_combines_what_is_there(pairs: list[tuple[list[Row], list[Row]]]) -> None:
    partial, _ = optional_composed("kept")
    left, right = (
        partial.lift(
            Rows(
                to_batch([row for pair in pairs for row in pair[side]]),
                np.zeros(sum(len(pair[side]) for pair in pairs), np.int64),
                np.repeat(np.arange(len(pairs)), [len(pair[side]) for pair in pairs]),
                len(pairs),
            )
        )
        for side in (0, 1)
    )
    combined = composed_states(partial.combine(left, right))
    assert combined == [maps_of(first + second, "kept") for first, second in pairs]


def test_an_optional_partial_reads_what_its_inner_one_reads() -> None:
    partial, inner = optional_composed("kept")
    assert partial.inputs == inner.inputs == ("n",)
    assert partial.where == "kept"
    assert [field.dtype for field in partial.fields] == ["bool", *inner.dtypes]
