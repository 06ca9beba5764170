"""`.apply()`: a function of the user's that gets a window's tuples, in time order, and returns rows.

The non-incremental query of the papers: nothing is known of the function, so nothing can be shared between windows but
the tuples themselves.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
class Applied:
    function: Callable[[Any], Any]
    schema: pa.Schema
    """Of the rows that the function returns."""
    columns: tuple[str, ...]
    """What the function gets."""
    form: Form
    names: tuple[str, ...] | None = None
    """What the function knows them by, if not by the names that they are read by."""

    def rows(self, table: pa.Table, window: Callable[[], str]) -> pa.Table:
        """What the function makes of one window's tuples; `window` tells which window it is, for errors."""
        try:
            found = self.function(table if self.form == "arrow" else table.to_pandas())
        except Exception as error:
            raise MuntinError(
                f"The function {self._name} failed on {window()}: {type(error).__name__}: {error}"
            ) from error
        return self._checked(found, window)

    def _checked(self, found: object, window: Callable[[], str]) -> pa.Table:
        if isinstance(found, pa.RecordBatch):
            found = pa.Table.from_batches([found])
        if isinstance(found, pa.Table) and found.schema.equals(self.schema):
            return found
        wanted = ", ".join(f"{field.name} {spark_name(field.type)}" for field in self.schema)
        if isinstance(found, pd.DataFrame):
            found = self._from_pandas(found, window, wanted)
        if not isinstance(found, pa.Table):
            raise MuntinError(
                f"The function {self._name} returned {type(found).__name__} for {window()}; it must return an Arrow "
                f"table or a pandas frame with the columns {wanted}."
            )
        if sorted(found.column_names) != sorted(self.schema.names):
            raise MuntinError(
                f"The function {self._name} returned the columns {found.column_names} for {window()}; the schema "
                f"says {wanted}."
            )
        kinds = ", ".join(f"{field.name} {spark_name(field.type)}" for field in found.schema)
        returned = f"The function {self._name} returned {kinds} for {window()}; the schema says {wanted}"
        if not all(_fits(found.schema.field(field.name).type, field.type) for field in self.schema):
            raise MuntinError(f"{returned}.")
        try:
            return found.select(self.schema.names).cast(self.schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise MuntinError(f"{returned}: {error}") from error

    def _from_pandas(self, frame: pd.DataFrame, window: Callable[[], str], wanted: str) -> pa.Table:
        try:
            return pa.Table.from_pandas(frame, preserve_index=False)
        except (ValueError, TypeError) as error:  # Arrow's own are such, too
            raise MuntinError(
                f"The function {self._name} returned a frame for {window()} that is not a table; the schema says "
                f"{wanted}: {error}"
            ) from error

    @property
    def _name(self) -> str:
        return getattr(self.function, "__name__", repr(self.function))

    def over(
        self, tuples: pa.Table, begin: Int64Array, end: Int64Array, window: Callable[[int], str]
    ) -> tuple[Int64Array, list[pa.Table]]:
        """How many rows each window gave, and the rows."""
        found = [
            self.rows(tuples.slice(first, behind - first), partial(window, i))
            for i, (first, behind) in enumerate(zip(begin.tolist(), end.tolist(), strict=True))
        ]
        return np.array([each.num_rows for each in found], dtype=np.int64), found


def _fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of one type are meant as the other: Arrow would also turn text into numbers, or drop fields."""
    kinds = pa.types
    if found == wanted or kinds.is_null(found):
        return True
    if kinds.is_dictionary(found):
        return _fits(found.value_type, wanted)
    if kinds.is_struct(found) and kinds.is_struct(wanted):
        names = [[field.name for field in kind] for kind in (found, wanted)]
        return names[0] == names[1] and all(_fits(a.type, b.type) for a, b in zip(found, wanted, strict=True))
    if _is_list(found) and _is_list(wanted):
        return _fits(found.value_type, wanted.value_type)
    if kinds.is_map(found) and kinds.is_map(wanted):
        return _fits(found.key_type, wanted.key_type) and _fits(found.item_type, wanted.item_type)
    return any(test(found) and test(wanted) for test in _ALIKE)


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
"""Types between which a value stays what it is; Arrow refuses those that do not fit."""


def form_of(function: Callable[[Any], Any]) -> Form:
    """By the annotation of its argument: a `pandas.DataFrame` gets one, everything else an Arrow table."""
    if not callable(function):
        raise MuntinError(f"apply() needs a function of a window's tuples, got {function!r}.")
    try:
        parameters: Sequence[str] = list(signature(function).parameters)
        hints = typing.get_type_hints(function)
    except (TypeError, ValueError, NameError):
        return "arrow"
    kind = hints.get(parameters[0]) if parameters else None
    return "pandas" if kind is pd.DataFrame else "arrow"
