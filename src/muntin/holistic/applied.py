"""`.apply()`: a user-defined window function, which gets the tuples of one window in time order and returns rows.

This is the non-incremental query of the papers. Nothing is known about the function, so overlapping windows share only
the tuples.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from inspect import signature
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa

from muntin.arrays import Int64Array
from muntin.errors import MuntinError
from muntin.type_names import spark_name

Form = Literal["arrow", "pandas"]


@dataclass(frozen=True)
class WindowOfKey:
    """The window that a function gets the tuples of, as its second argument."""

    id: int
    """The column `window_id`."""
    start: datetime
    end: datetime
    key: tuple[Any, ...]
    """The values of the key columns, in the order of `by`."""
    name: str
    """The column `window_name`."""


@dataclass(frozen=True)
class Applied:
    function: Callable[..., Any]
    schema: pa.Schema
    """The schema of the rows that the function returns."""
    columns: tuple[str, ...]
    """The columns that the function gets."""
    form: Form
    names: tuple[str, ...] | None = None
    """The names of these columns inside the function, where they differ from the names in the stages."""
    gets_window: bool = False
    """Whether the function also gets the window."""

    def rows(self, table: pa.Table, window: Callable[[], str], of: Callable[[], WindowOfKey] | None = None) -> pa.Table:
        """The result rows of one window. `window` describes the window in error messages."""
        arguments = [table if self.form == "arrow" else table.to_pandas()]
        if self.gets_window:
            assert of is not None
            arguments.append(of())
        try:
            result = self.function(*arguments)
        except Exception as error:
            raise MuntinError(
                f"The function {self._name} failed on {window()}: {type(error).__name__}: {error}"
            ) from error
        return self._checked(result, window)

    def _checked(self, result: object, window: Callable[[], str]) -> pa.Table:
        if isinstance(result, pa.RecordBatch):
            result = pa.Table.from_batches([result])
        if isinstance(result, pa.Table) and result.schema.equals(self.schema):
            return result
        wanted = ", ".join(f"{field.name} {spark_name(field.type)}" for field in self.schema)
        if isinstance(result, pd.DataFrame):
            result = self._from_pandas(result, window, wanted)
        if not isinstance(result, pa.Table):
            raise MuntinError(
                f"The function {self._name} returned {type(result).__name__} for {window()}; it must return an Arrow "
                f"table or a pandas frame with the columns {wanted}."
            )
        if sorted(result.column_names) != sorted(self.schema.names):
            raise MuntinError(
                f"The function {self._name} returned the columns {result.column_names} for {window()}; the schema "
                f"says {wanted}."
            )
        types = ", ".join(f"{field.name} {spark_name(field.type)}" for field in result.schema)
        returned = f"The function {self._name} returned {types} for {window()}; the schema says {wanted}"
        if not all(_fits(result.schema.field(field.name).type, field.type) for field in self.schema):
            raise MuntinError(f"{returned}.")
        try:
            return result.select(self.schema.names).cast(self.schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise MuntinError(f"{returned}: {error}") from error

    def _from_pandas(self, frame: pd.DataFrame, window: Callable[[], str], wanted: str) -> pa.Table:
        try:
            return pa.Table.from_pandas(frame, preserve_index=False)
        except (ValueError, TypeError) as error:  # Arrow's own errors are subclasses of these
            raise MuntinError(
                f"The function {self._name} returned a frame for {window()} that is not a table; the schema says "
                f"{wanted}: {error}"
            ) from error

    @property
    def _name(self) -> str:
        return getattr(self.function, "__name__", repr(self.function))

    def over(
        self,
        tuples: pa.Table,
        begin: Int64Array,
        end: Int64Array,
        window: Callable[[int], str],
        of: Callable[[int], WindowOfKey] | None = None,
    ) -> tuple[Int64Array, list[pa.Table]]:
        """The number of result rows of each window, and the rows."""
        results = [
            self.rows(
                tuples.slice(start, stop - start), partial(window, number), None if of is None else partial(of, number)
            )
            for number, (start, stop) in enumerate(zip(begin.tolist(), end.tolist(), strict=True))
        ]
        return np.array([rows.num_rows for rows in results], dtype=np.int64), results


def _fits(actual: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of one type can stand for the other. Arrow would also parse text as numbers, or drop fields."""
    types = pa.types
    if actual == wanted or types.is_null(actual):
        return True
    if types.is_dictionary(actual):
        return _fits(actual.value_type, wanted)
    if types.is_struct(actual) and types.is_struct(wanted):
        names = [[field.name for field in struct] for struct in (actual, wanted)]
        return names[0] == names[1] and all(_fits(a.type, b.type) for a, b in zip(actual, wanted, strict=True))
    if _is_list(actual) and _is_list(wanted):
        return _fits(actual.value_type, wanted.value_type)
    if types.is_map(actual) and types.is_map(wanted):
        return _fits(actual.key_type, wanted.key_type) and _fits(actual.item_type, wanted.item_type)
    return any(test(actual) and test(wanted) for test in _ALIKE)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


_ALIKE: tuple[Callable[[pa.DataType], bool], ...] = (
    lambda kind: pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind),
    lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind),
    lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind),
    pa.types.is_timestamp,
    pa.types.is_duration,
    pa.types.is_date,
)
"""A cast within one of these groups keeps the value; Arrow rejects values that do not fit."""


def form_of(function: Callable[..., Any]) -> Form:
    """Pandas if the first argument is annotated as `pandas.DataFrame`, otherwise an Arrow table."""
    if not callable(function):
        raise MuntinError(f"apply() needs a function of a window's tuples, got {function!r}.")
    try:
        parameters: Sequence[str] = list(signature(function).parameters)
        hints = typing.get_type_hints(function)
    except (TypeError, ValueError, NameError):
        return "arrow"
    kind = hints.get(parameters[0]) if parameters else None
    return "pandas" if kind is pd.DataFrame else "arrow"


def gets_window(function: Callable[..., Any]) -> bool:
    """Whether a function needs a second argument: the window. One that takes none, or needs more, is an error."""
    try:
        parameters = signature(function).parameters.values()
    except (TypeError, ValueError):
        return False  # built into Python, and without a signature
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    takes_any = any(each.kind is each.VAR_POSITIONAL for each in parameters)
    required = [each for each in positional if each.default is each.empty]
    named = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY and each.default is each.empty]
    if (positional or takes_any) and len(required) <= 2 and not named:
        return len(required) == 2
    raise MuntinError(
        f"apply() calls its function with the rows of a window, or with the rows and the window, and "
        f"{getattr(function, '__name__', repr(function))} has the arguments {signature(function)}; write "
        "def function(rows): or def function(rows, window):, and give others a default."
    )
