"""The input of a query: a DataFrame, its types and its watermarks."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from muntin.errors import MuntinError
from muntin.query.scan import Scan
from muntin.spark.columns import case_sensitive, quietly, same, short_reason
from muntin.spark.kept_rows import identity_of_rows
from muntin.spark.types import schema_to_spark, to_arrow
from muntin.spark.watermark import own_watermarks


@dataclass(frozen=True)
class Beside:
    """A further input with the same columns and its own watermark, such as the second side of a join."""

    frame: DataFrame
    delay: int | None
    """In microseconds."""
    own_watermark: bool = False
    """Whether the time column already has its watermark."""


@dataclass(frozen=True)
class Source:
    frame: DataFrame
    types: dict[str, pa.DataType]
    """The columns that Muntin can read."""
    unreadable: dict[str, str]
    """The other columns, with their Spark type."""
    streaming: bool
    beside: tuple[Beside, ...] = ()
    watermarks: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """The columns that already have a watermark, with its delay in microseconds."""
    scan: Scan | None = None
    """The files that are read in place of the frame, which then has their columns and no rows."""

    @cached_property
    def tells_rows_apart(self) -> bool:
        """Whether every row can be kept or dropped by itself, and a replayed batch still has the same rows."""
        return not self.streaming or identity_of_rows(self.frame) is not None

    @classmethod
    def of(cls, data: Any, argument: str = "data") -> Source:
        if isinstance(data, Scan):
            columns = schema_to_spark(data.files.schema)
            source = cls.of(data.spark.createDataFrame([], columns), argument)
            return dataclasses.replace(source, scan=data, streaming=data.stream is not None)
        if not isinstance(data, DataFrame):
            raise MuntinError(
                f"{argument} must be a Spark DataFrame, streaming or not, or a muntin.scan, got {type(data).__name__}; "
                "make one with spark.createDataFrame or spark.read."
            )
        types: dict[str, pa.DataType] = {}
        unreadable: dict[str, str] = {}
        ambiguous = _ambiguous(data)
        for field in data.schema:
            kind = to_arrow(field.dataType)
            if field.name in ambiguous:
                unreadable[field.name] = "ambiguous: there are several columns of this name"
            elif kind is None:
                unreadable[field.name] = field.dataType.simpleString()
            else:
                types[field.name] = kind
        return cls(data, types, unreadable, data.isStreaming, watermarks=own_watermarks(data))

    def filter(self, where: Any) -> Column:
        """The filter as a column; an error if Spark cannot compute it, or it is not boolean."""
        if not isinstance(where, str | Column):
            raise MuntinError(f"where must be a SQL condition such as 'fare > 10' or a Spark column, got {where!r}.")
        try:
            with quietly():
                condition = F.expr(where) if isinstance(where, str) else where
                kind = self.frame.select(condition.alias("condition")).schema["condition"].dataType
        except PySparkException as error:
            raise MuntinError(
                f"where={where!r} is not a condition over these columns: {short_reason(error)}"
            ) from error
        if not isinstance(kind, T.BooleanType):
            raise MuntinError(f"where={where!r} is of type {kind.simpleString()}; it must be true or false.")
        return condition

    def text_of(self, where: Any) -> str:
        """The text of a filter, the same in every run.

        Spark's text of a column with a Python function has memory addresses.
        """
        text = str(where)
        if isinstance(where, str) or "Origin(" not in text:
            return text
        return self.frame.select(F.array(where)).columns[0]

    def same(self, first: Column, second: Column) -> bool:
        """Whether both have the same value in every row."""
        return same(self.frame, first, second)


def _ambiguous(data: DataFrame) -> set[str]:
    """The names that several columns share, by the session's rule for case."""
    names = data.columns
    folded = [name.lower() for name in names]
    if len(set(folded)) == len(names):
        return set()
    compared = names if case_sensitive(data) else folded
    return {name for name, key in zip(names, compared, strict=True) if compared.count(key) > 1}
