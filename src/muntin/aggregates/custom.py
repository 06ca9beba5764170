"""Custom aggregates: the user's own `lift`, `combine` and `lower`, vectorised over NumPy arrays."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.aggregates.aggregate import Aggregate, Bound, Dictionaries, Types, Where, type_of
from muntin.arrays import Array, Int64Array, Runs, State, fold_runs, run_starts
from muntin.checks import flag
from muntin.errors import MuntinError
from muntin.expressions import ColumnLike, Given, check_given, shown
from muntin.partials import values
from muntin.partials.partial import Field, Partial
from muntin.partials.rows import Rows
from muntin.type_names import spark_name

_RESULTS: dict[str, pa.DataType] = {
    "double": pa.float64(),
    "float": pa.float32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_SAMPLE = 4


@dataclass(frozen=True)
class Shape:
    """How the user's functions hand their state over: one array, a tuple of arrays or a dict of them."""

    names: tuple[str, ...] | None
    size: int | None

    @classmethod
    def of(cls, state: Any, what: str) -> Shape:
        if isinstance(state, dict):
            return cls(tuple(state), len(state))
        if isinstance(state, tuple | list):
            return cls(None, len(state))
        if isinstance(state, np.ndarray):
            return cls(None, None)
        raise MuntinError(
            f"{what} of a custom aggregate must return a NumPy array, a tuple or a dict of them, got {state!r}."
        )

    def pack(self, state: Any) -> State:
        if self.size is None:
            return (np.asarray(state),)
        parts = state.values() if self.names is not None else state
        return tuple(np.asarray(part) for part in parts)

    def unpack(self, state: State) -> Any:
        if self.size is None:
            return state[0]
        return dict(zip(self.names, state, strict=True)) if self.names is not None else state


@dataclass(frozen=True)
class CustomPartial(Partial):
    """The user's state, one partial per pane; one per tuple where the order of the tuples matters.

    A function that is not commutative can only combine neighbours in time, and until the last window of a pane has
    closed a tuple may still arrive between any two others. So its tuples stay apart, lifted, and meet in the tree.
    """

    columns: tuple[str, ...]
    shape: Shape
    dtypes: tuple[str, ...]
    commutative: bool
    lift_function: Callable[..., Any]
    combine_function: Callable[[Any, Any], Any]
    rounds = True  # the user's function may add floats

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(Field(dtype) for dtype in self.dtypes)

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.columns

    def lift(self, rows: Rows) -> State:
        raise TypeError("a custom partial is lifted tuple by tuple: lift_tuples")

    def lift_tuples(self, rows: Rows) -> tuple[Int64Array, State]:
        """The positions of the tuples that count, and the lifted state of each."""
        mask = rows.mask(self.columns, self.where)
        chosen = np.arange(len(rows.groups)) if mask is None else np.flatnonzero(mask)
        inputs = [as_numpy(rows.array(column).take(pa.array(chosen))) for column in self.columns]
        lifted = self.shape.pack(self.lift_function(*inputs))
        return chosen, self._typed(lifted, len(chosen), "lift")

    def combine(self, left: State, right: State) -> State:
        result = self.combine_function(self.shape.unpack(left), self.shape.unpack(right))
        return self._typed(self.shape.pack(result), len(left[0]), "combine")

    def _typed(self, state: State, length: int, what: str) -> State:
        if len(state) != len(self.dtypes) or any(column.shape != (length,) for column in state):
            shapes = ", ".join(str(column.shape) for column in state)
            raise MuntinError(
                f"{what} of a custom aggregate must return {len(self.dtypes)} array(s) of length {length}, "
                f"got shapes {shapes}; return one value per input position."
            )
        return tuple(
            np.asarray(column).astype(dtype, copy=False) for column, dtype in zip(state, self.dtypes, strict=True)
        )


@dataclass(frozen=True)
class OptionalPartial(Partial):
    """A custom partial that shares its leaves with others, with a flag: of no tuples there is no custom state."""

    inner: CustomPartial

    @property
    def fields(self) -> tuple[Field, ...]:
        return (Field("bool"), *self.inner.fields)

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.inner.inputs

    def lift(self, rows: Rows) -> State:
        """The tuples of a group follow one another, in their order."""
        chosen, state = self.inner.lift_tuples(rows)
        groups = rows.groups[chosen]
        starts = run_starts(groups)
        present = np.zeros(rows.group_count, dtype=bool)
        present[groups[starts]] = True
        columns = [np.zeros(rows.group_count, dtype=column.dtype) for column in state]
        for column, folded in zip(
            columns, fold_runs(state, Runs.of(starts, len(groups)), self.inner.combine), strict=True
        ):
            column[present] = folded
        return (present, *columns)

    def combine(self, left: State, right: State) -> State:
        both = np.flatnonzero(left[0] & right[0])
        columns = tuple(np.where(left[0], a, b) for a, b in zip(left[1:], right[1:], strict=True))
        if len(both):
            combined = self.inner.combine(*(tuple(column[both] for column in side[1:]) for side in (left, right)))
            for column, update in zip(columns, combined, strict=True):
                column[both] = update
        return (left[0] | right[0], *columns)


def as_numpy(array: pa.Array) -> Array:
    """Tuples as the user's `lift` gets them: no nulls; strings as objects, times as datetime64[us]."""
    if pa.types.is_timestamp(array.type):
        return np.asarray(values.fixed_order_keys(array)).view("datetime64[us]")
    return np.asarray(array.to_numpy(zero_copy_only=False))


@dataclass(frozen=True, eq=False, repr=False)
class CustomAggregate(Aggregate):
    lift: Callable[..., Any]
    combine: Callable[[Any, Any], Any]
    lower: Callable[[Any], Any]
    inputs: tuple[Given, ...]
    returns: pa.DataType
    order_free: bool
    estimate: Callable[..., Any] | None = None

    @property
    def written(self) -> tuple[str, Mapping[str, object]]:
        given = {"lift": self.lift, "combine": self.combine, "lower": self.lower, "columns": self.inputs}
        return "custom", {**given, "returns": str(self.returns), "estimate": self.estimate}

    @property
    def columns(self) -> tuple[Given, ...]:
        return self.inputs

    def reading(self, names: Sequence[str]) -> Aggregate:
        return replace(self, inputs=tuple(names))

    def bind(self, types: Types, where: str | None, time: pa.DataType) -> Bound:
        """Try the functions on a few made-up tuples, so that a wrong shape is an error before anything starts."""
        made_up = [_sample(type_of(column, types), column) for column in self.inputs]
        lifted = _call("lift", self.lift, *made_up)
        shape = Shape.of(lifted, "lift")
        state = shape.pack(lifted)
        _check_state(state, "lift")
        half = _SAMPLE // 2
        left, right = (tuple(column[part] for column in state) for part in (slice(0, half), slice(half, None)))
        combined = _call("combine", self.combine, shape.unpack(left), shape.unpack(right))
        if Shape.of(combined, "combine") != shape:
            raise MuntinError(
                "combine of a custom aggregate must return the same state as lift: "
                f"lift gave {_describe(lifted)}, combine gave {_describe(combined)}."
            )
        for before, after in zip(state, shape.pack(combined), strict=True):
            if after.shape != (half,) or not np.can_cast(after.dtype, before.dtype, "same_kind"):
                raise MuntinError(
                    "combine of a custom aggregate must keep the shape and the type of the state: "
                    f"of {half} states of {before.dtype} it made {after.dtype} of shape {after.shape}."
                )
        lowered = _call("lower", self.lower, shape.unpack(left))
        _to_arrow(lowered, half, self.returns)
        dtypes = tuple(column.dtype.str for column in state)
        kept = CustomPartial(where, self.inputs, shape, dtypes, self.order_free, self.lift, self.combine)
        lower = partial(_lower_custom, self.lower, shape, self.returns)
        if self.estimate is not None:
            made_up_columns = dict(zip(map(shown, self.inputs), made_up, strict=True))
            _call("estimate", estimated, self.estimate, made_up_columns, 2 * _SAMPLE, 0.95)
        return Bound((kept,), self.returns, lower, aggregate=self.as_bound, where=where)


def estimated(
    estimate: Callable[..., Any], columns: Mapping[str, Array], size: int, confidence: float
) -> tuple[Any, float, float, float]:
    """What the user's own estimate says of one window: the value, its error, and between what the truth is."""
    answer = estimate(columns, size, confidence)
    if not isinstance(answer, tuple) or len(answer) not in (2, 4):
        raise MuntinError(
            f"estimate of a custom aggregate must return (value, error), or (value, error, low, high), got {answer!r}."
        )
    value, error, low, high = answer if len(answer) == 4 else (*answer, np.nan, np.nan)
    return value, float(error), float(low), float(high)


def _lower_custom(
    lower: Callable[[Any], Any], shape: Shape, kind: pa.DataType, states: Sequence[State], dictionaries: Dictionaries
) -> pa.Array:
    (state,) = states
    return _to_arrow(lower(shape.unpack(state)), len(state[0]), kind)


def _to_arrow(lowered: Any, length: int, kind: pa.DataType) -> pa.Array:
    try:
        array = lowered if isinstance(lowered, pa.Array) else pa.array(np.asarray(lowered))
        array = array if array.type == kind else array.cast(kind)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise MuntinError(
            f"lower of a custom aggregate returned {lowered!r}, which does not fit returns={spark_name(kind)!r}: "
            f"{error}"
        ) from error
    if len(array) != length:
        raise MuntinError(
            f"lower of a custom aggregate must return one value per state: {length} states gave {len(array)} values."
        )
    return array


def _sample(kind: pa.DataType, column: str) -> Array:
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return np.array(["a", "b", "c", "d"], dtype=object)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return np.array([b"a", b"b", b"c", b"d"], dtype=object)
    if not (values.is_fixed(kind) or pa.types.is_decimal(kind)):
        raise MuntinError(
            f"a custom aggregate cannot read column {shown(column)!r} of type {spark_name(kind)}; select a field "
            "of it, or cast it."
        )
    if pa.types.is_decimal(kind):
        return as_numpy(pa.array([Decimal(digit).scaleb(-kind.scale) for digit in (1, 2, 3, 4)], kind))
    return as_numpy(pa.array([1, 2, 3, 4]).cast(pa.int32() if pa.types.is_date32(kind) else pa.int64()).cast(kind))


def _call(what: str, function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except Exception as error:
        raise MuntinError(
            f"{what} of a custom aggregate raised {type(error).__name__} on a sample of {_SAMPLE} tuples: {error}"
        ) from error


def _check_state(state: State, what: str) -> None:
    for column in state:
        if column.shape != (_SAMPLE,):
            raise MuntinError(
                f"{what} of a custom aggregate must return arrays with one value per tuple: "
                f"{_SAMPLE} tuples gave an array of shape {column.shape}."
            )
        if column.dtype.kind not in "biufmM" or not _has_arrow_form(column):
            raise MuntinError(
                f"{what} of a custom aggregate returned an array of {column.dtype}; "
                "a state is made of numbers, booleans or times: encode other values first."
            )


def _has_arrow_form(column: Array) -> bool:
    try:
        pa.array(column)
    except pa.ArrowException:  # times in minutes, swapped bytes, long doubles
        return False
    return True


def _describe(state: Any) -> str:
    if isinstance(state, dict):
        return "a dict of " + ", ".join(map(repr, state))
    if isinstance(state, tuple | list):
        return f"{len(state)} arrays"
    return f"an array of shape {np.shape(state)}"


def _input_columns(lift: Callable[..., Any], columns: Any) -> Sequence[object]:
    """Those that are named, else the parameters of `lift`."""
    if isinstance(columns, str):
        return (columns,)
    try:
        return tuple(inspect.signature(lift).parameters if columns is None else columns)
    except (TypeError, ValueError):  # no iterable; or a function written in C, which has no names for its parameters
        problem = "lift does not tell the names of its parameters" if columns is None else f"got {columns!r}"
        raise MuntinError(f"columns must be the columns that lift gets, such as columns=['fare']; {problem}.") from None


def custom(
    lift: Callable[..., Any],
    combine: Callable[[Any, Any], Any],
    lower: Callable[[Any], Any],
    *,
    columns: ColumnLike | Sequence[ColumnLike] | None = None,
    returns: str | pa.DataType = "double",
    commutative: bool = False,
    estimate: Callable[..., Any] | None = None,
    where: Where = None,
) -> Aggregate:
    """Your own aggregate, in three vectorised functions.

    - `lift(*columns)` gets the columns of many tuples as NumPy arrays, without nulls, and returns their states: an
      array, a tuple of arrays or a dict of arrays, one value per tuple.
    - `combine(left, right)` merges states position by position. It must be associative; left is earlier than right.
    - `lower(state)` turns states into results.

    `columns` are the columns of `lift`; left out, they are the names of its parameters. `returns` is the result's
    type, as in Spark. Say `commutative=True` if the order of the tuples does not matter: then a pane keeps one state
    instead of one per tuple.

    `estimate(sample, size, confidence)`, if it is given, is what `.approximate()` asks before anything else. It gets
    the sampled tuples of one window as a dict of NumPy arrays by column, how many tuples the window has, and how sure
    to be; it returns `(value, error)` or `(value, error, low, high)`. The error is whatever the user's error means.
    """
    for name, function in (("lift", lift), ("combine", combine), ("lower", lower)):
        if not callable(function):
            raise MuntinError(f"{name} must be a function, got {function!r}.")
    inputs = tuple(check_given(column, "columns") for column in _input_columns(lift, columns))
    if not inputs:
        raise MuntinError("columns is empty: a custom aggregate reads at least one column.")
    if isinstance(returns, str):
        if returns.strip().lower() not in _RESULTS:
            raise MuntinError(f"returns is {returns!r}; give one of {', '.join(_RESULTS)}, or a pyarrow type.")
        returns = _RESULTS[returns.strip().lower()]
    if not isinstance(returns, pa.DataType):
        raise MuntinError(f"returns is {returns!r}; give one of {', '.join(_RESULTS)}, or a pyarrow type.")
    flag(commutative, "commutative")
    if estimate is not None and not callable(estimate):
        raise MuntinError(f"estimate must be a function, got {estimate!r}.")
    return CustomAggregate(where, lift, combine, lower, inputs, returns, commutative, estimate)
