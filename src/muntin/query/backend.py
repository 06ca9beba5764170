"""What queries ask of Spark.

Queries are checked while they are built, and only Spark can resolve columns. These protocols are what queries need;
`muntin.spark` implements them. It is loaded by name for the first DataFrame, so that no layer below imports Spark.
`muntin.testing` implements them without Spark, for rows in plain Python.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

import pyarrow as pa

from muntin.query.scan import Scan

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from muntin.query.query import Query


class Source(Protocol):
    """A DataFrame, and what is known of it before anything runs."""

    @property
    def frame(self) -> DataFrame: ...

    @property
    def types(self) -> dict[str, pa.DataType]:
        """The columns that Muntin can read."""
        ...

    @property
    def unreadable(self) -> dict[str, str]:
        """The other columns, with their Spark type."""
        ...

    @property
    def streaming(self) -> bool: ...

    @property
    def beside(self) -> tuple[Any, ...]:
        """Further inputs with the same columns, each with a watermark of its own."""
        ...

    @property
    def watermarks(self) -> Mapping[str, int]:
        """The columns that already have a watermark, with its delay in microseconds."""
        ...

    @property
    def tells_rows_apart(self) -> bool:
        """Whether every row can be kept or dropped by itself, and a replayed batch still has the same rows."""
        ...

    @property
    def scan(self) -> Scan | None:
        """The files that are read in place of the frame."""
        ...

    def filter(self, where: Any) -> Column:
        """The condition as a column; an error if it is none."""
        ...

    def text_of(self, where: Any) -> str:
        """The text of a condition, the same in every run."""
        ...

    def same(self, first: Column, second: Column) -> bool:
        """Whether both have the same value in every row."""
        ...


class Resolved(Protocol):
    """A column that the user gave, resolved against the data."""

    @property
    def name(self) -> str:
        """The name in results, which is Spark's name for it."""
        ...

    @property
    def read(self) -> str:
        """The name that the stages read."""
        ...

    @property
    def kind(self) -> pa.DataType: ...

    @property
    def computed(self) -> Column | None:
        """The expression; None for a column of the data."""
        ...


class Backend(Protocol):
    """The functions of `muntin.spark.backend`."""

    def source_of(self, data: Any, argument: str = "data") -> Source: ...

    def frame_of(self, data: Any) -> Any:
        """A scan as a DataFrame of its rows; anything else as it is."""
        ...

    def resolved(self, source: Source, given: object, what: str, whose: str = "the data") -> Resolved: ...

    def case_sensitive(self, frame: DataFrame) -> bool: ...

    def result_fields(self, schema: Any) -> pa.Schema: ...

    def most_workers(self, frame: DataFrame) -> int: ...

    def to_df(self, query: Query) -> DataFrame: ...


def backend_of(data: object) -> Backend:
    """The implementation for an input, or for a source: on Spark, unless its class names the module of another.

    It is looked up in the class: a DataFrame of Connect would ask its server whether it is a column.
    """
    name: str = getattr(type(data), "muntin_backend", "muntin.spark.backend")
    return cast("Backend", importlib.import_module(name))


def spark() -> Backend:
    """The implementation on Spark, imported on first use."""
    return backend_of(None)
