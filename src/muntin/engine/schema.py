"""The columns that a query reads, and the schema of its results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from muntin.engine.estimates import QualityFields, quality_type
from muntin.engine.lateness import lateness_type
from muntin.windows import CountWindow, Window

LATENESS = "lateness"


@dataclass(frozen=True)
class Schema:
    """The columns of input and results."""

    time: str
    types: Mapping[str, pa.DataType]
    """The type of every column that the stages read; times are in UTC."""
    keys: tuple[str, ...]
    windows: tuple[Window, ...]
    aggregates: tuple[pa.Field, ...]
    function_columns: tuple[pa.Field, ...] = ()
    """The columns that a window function returns, instead of aggregates."""
    late_row: pa.DataType | None = None
    """The type of a full input row, if late rows are emitted."""
    is_estimated: bool = False
    """Whether answers may be estimates: then results have the column `quality`."""
    added: tuple[pa.Field, ...] = ()
    """Columns that features add."""
    size_is_estimated: bool = False
    """Whether the numbers of tuples in windows may be estimates, too."""

    @cached_property
    def columns(self) -> tuple[pa.Field, ...]:
        """The computed columns of each window."""
        return (*self.aggregates, *self.function_columns)

    @cached_property
    def has_partial(self) -> bool:
        """Whether results may be of incomplete windows."""
        return any(isinstance(window, CountWindow) and window.max_wait is not None for window in self.windows)

    @cached_property
    def titles(self) -> pa.Array:
        return pa.array([window.title for window in self.windows])

    @cached_property
    def window_fields(self) -> tuple[pa.Field, ...]:
        """The fields of the column `window`."""
        return tuple(self.results.field("window").type)

    @cached_property
    def quality_type(self) -> pa.StructType | None:
        """The type of the column `quality`, if there is one."""
        if not self.is_estimated:
            return None
        return quality_type({field.name: field.type for field in self.aggregates}, self.size_is_estimated)

    @cached_property
    def quality_fields(self) -> QualityFields | None:
        return None if self.quality_type is None else QualityFields.of(self.quality_type)

    @cached_property
    def results(self) -> pa.Schema:
        time = self.types[self.time]
        fields = [
            pa.field("window", pa.struct([("start", time), ("end", time)])),
            pa.field("window_id", pa.int64()),
        ]
        if len(self.windows) > 1:
            fields.append(pa.field("window_name", pa.string()))
        if self.has_partial:
            fields.append(pa.field("partial", pa.bool_()))
        fields += [pa.field(key, self.types[key]) for key in self.keys]
        fields += self.columns
        if self.quality_type is not None:
            fields.append(pa.field("quality", self.quality_type))
        fields += self.added
        return pa.schema([*fields, *self.late_fields])

    @cached_property
    def late_fields(self) -> tuple[pa.Field, ...]:
        """The columns of late rows, if they are emitted."""
        if self.late_row is None:
            return ()
        return late_fields(self.late_row, self.types[self.time], len(self.windows) > 1)


def late_fields(row: pa.DataType, time: pa.DataType, several: bool) -> tuple[pa.Field, ...]:
    """The columns of late rows: the whole row, and how late it was."""
    return pa.field("late", row), pa.field(LATENESS, lateness_type(time, several))
