"""What Spark computes of every row before the stages read it: expressions that are columns, and filters.

Each is a column whose name has a digest of it: equal ones are computed once, and another one is another column, so that
state made under the old one is not taken for state of the new.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin.errors import MuntinError
from muntin.expressions import ColumnLike, SparkColumn

if TYPE_CHECKING:
    from pyspark.sql import Column

    from muntin.spark.columns import Resolved
    from muntin.spark.source import Source


@dataclass(frozen=True)
class Computed:
    """The expressions among the columns of a query, by the name that the stages read them by."""

    columns: Mapping[str, Column] = field(default_factory=dict)
    types: Mapping[str, pa.DataType] = field(default_factory=dict)

    def add(self, found: Resolved, source: Source) -> tuple[Computed, str]:
        """What is computed with this column, and the name that it is read by."""
        if found.computed is None:
            return self, found.read
        name = free_name(found.read, found.computed, self.columns, source)
        return Computed({**self.columns, name: found.computed}, {**self.types, name: found.kind}), name


@dataclass(frozen=True)
class Filters:
    """The `where=` conditions of a query by the name of the boolean column that Spark computes for each."""

    columns: Mapping[str, Column] = field(default_factory=dict)

    def add(self, where: Any, source: Source) -> tuple[Filters, str | None]:
        """The filters with this one, and the name of its column."""
        if where is None:
            return self, None
        condition = source.filter(where)
        digest = hashlib.sha256(source.text_of(where).encode()).hexdigest()[:16]
        name = free_name(f"__muntin_where_{digest}", condition, self.columns, source)
        return Filters({**self.columns, name: condition}), name


def free_name(name: str, column: Column, taken: Mapping[str, Column], source: Source) -> str:
    """The name, or another if it stands for something else already: two functions may be called the same."""
    number, free = 1, name
    while free in taken and not source.same(taken[free], column):
        number += 1
        free = f"{name} ({number})"
    return free


def column_names(given: ColumnLike | Iterable[ColumnLike], argument: str) -> tuple[ColumnLike, ...]:
    """One column, or several of them."""
    if isinstance(given, str | SparkColumn):
        return (given,)
    try:
        return tuple(given)
    except TypeError:
        raise MuntinError(f"{argument} must be a column or a list of columns, got {given!r}.") from None
