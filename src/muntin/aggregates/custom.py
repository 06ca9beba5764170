"""Custom aggregates: user-defined `lift`, `combine` and `lower`, vectorised over NumPy arrays."""

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
from muntin.arrays import Array, State
from muntin.checks import flag
from muntin.errors import MuntinError
from muntin.expressions import ColumnLike, Given, check_given, shown
from muntin.partials import values
from muntin.partials.custom import CustomPartial, Shape, as_numpy
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
        arguments = {"lift": self.lift, "combine": self.combine, "lower": self.lower, "columns": self.inputs}
        return "custom", {**arguments, "returns": str(self.returns), "estimate": self.estimate}

    @property
    def columns(self) -> tuple[Given, ...]:
        return self.inputs

    def reading(self, names: Sequence[str]) -> Aggregate:
        return replace(self, inputs=tuple(names))

    def bind(self, types: Types, where: str | None, time: pa.DataType) -> Bound:
        """Try the functions on a few made-up tuples, so that a wrong shape is an error before the query starts."""
        made_up = [_sample(type_of(column, types), column) for column in self.inputs]
        lifted = _call("lift", self.lift, *made_up)
        shape = Shape.of(lifted, "lift")
        state = shape.pack(lifted)
        _check_state(state, "lift")
        half = _SAMPLE // 2
        left, right = (tuple(column[rows] for column in state) for rows in (slice(0, half), slice(half, None)))
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
        custom = CustomPartial(where, self.inputs, shape, dtypes, self.order_free, self.lift, self.combine)
        lower = partial(_lower_custom, self.lower, shape, self.returns)
        if self.estimate is not None:
            made_up_columns = dict(zip(map(shown, self.inputs), made_up, strict=True))
            _call("estimate", estimated, self.estimate, made_up_columns, 2 * _SAMPLE, 0.95)
        return Bound((custom,), self.returns, lower, aggregate=self.as_bound, where=where)


def estimated(
    estimate: Callable[..., Any], columns: Mapping[str, Array], size: int, confidence: float
) -> tuple[Any, float, float, float]:
    """The user's estimate for one window: the value, its error, and the bounds of the true value."""
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
    """The given columns, otherwise the parameters of `lift`."""
    if isinstance(columns, str):
        return (columns,)
    try:
        return tuple(inspect.signature(lift).parameters if columns is None else columns)
    except (TypeError, ValueError):  # not iterable, or a C function without parameter names
        problem = "the names of the parameters of lift are unknown" if columns is None else f"got {columns!r}"
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
      array, a tuple of arrays or a dict of arrays, with one value per tuple.
    - `combine(left, right)` merges states element by element. It must be associative; left is earlier than right.
    - `lower(state)` turns states into results.

    `columns` are the inputs of `lift`; the default is the names of its parameters. `returns` is the Spark type of the
    result. Set `commutative=True` if the order of the tuples does not matter: then a pane keeps one state instead of
    one per tuple.

    `.approximate()` calls `estimate(sample, size, confidence)` first, if it is given. It gets the sampled tuples of one
    window as a dict of NumPy arrays by column, the number of tuples in the window, and the confidence. It returns
    `(value, error)` or `(value, error, low, high)`. You define what the error measures; it is compared
    with the `error=` of `.approximate()`.

    Examples
    --------
    >>> import numpy as np
    >>> product = A.custom(lambda fare: np.log(fare), np.add, np.exp, commutative=True)
    >>> round(of_hour(product))
    128440
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
