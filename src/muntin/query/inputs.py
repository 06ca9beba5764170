"""The columns that Spark computes before the stages read the rows: expressions and filters.

The name of such a column includes a digest of its expression. Equal expressions are computed once, and a changed
expression gets another name, so it never reads the state of the old one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin.errors import MuntinError
from muntin.expressions import ColumnLike, SparkColumn
from muntin.files.conditions import Condition
from muntin.query.backend import Resolved, Source

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True)
class Computed:
    """The expressions among the columns of a query, by their names in the stages."""

    columns: Mapping[str, Column] = field(default_factory=dict)
    types: Mapping[str, pa.DataType] = field(default_factory=dict)

    def add(self, column: Resolved, source: Source) -> tuple[Computed, str]:
        """The expressions with this column added, and its name in the stages."""
        if column.computed is None:
            return self, column.read
        name = free_name(column.read, column.computed, self.columns, source)
        return Computed({**self.columns, name: column.computed}, {**self.types, name: column.kind}), name


@dataclass(frozen=True)
class Filters:
    """The `where=` conditions of a query, by the names of their boolean columns."""

    columns: Mapping[str, Column] = field(default_factory=dict)
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    """Those that a scan computes while it reads."""

    def add(self, where: Any, source: Source) -> tuple[Filters, str | None]:
        """The filters with this one added, and the name of its column."""
        if where is None:
            return self, None
        condition = source.filter(where)
        digest = hashlib.sha256(source.text_of(where).encode()).hexdigest()[:16]
        name = free_name(f"__muntin_where_{digest}", condition, self.columns, source)
        read = None if source.scan is None or not isinstance(where, str) else source.scan.files.condition(where)
        conditions = self.conditions if read is None else {**self.conditions, name: read}
        return Filters({**self.columns, name: condition}, conditions), name


def free_name(name: str, column: Column, used: Mapping[str, Column], source: Source) -> str:
    """The name, with a number if another expression has it: two functions may have the same name."""
    number, free = 1, name
    while free in used and not source.same(used[free], column):
        number += 1
        free = f"{name} ({number})"
    return free


def column_names(given: ColumnLike | Iterable[ColumnLike], argument: str) -> tuple[ColumnLike, ...]:
    """The given columns as a tuple; a single column is allowed."""
    if isinstance(given, str | SparkColumn):
        return (given,)
    try:
        return tuple(given)
    except TypeError:
        raise MuntinError(f"{argument} must be a column or a list of columns, got {given!r}.") from None
