"""The two sides of a join, and the aggregates over it as far as they are known when they are named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin.aggregates.aggregate import Aggregate
from muntin.joins.names import Which

if TYPE_CHECKING:
    from muntin.spark.columns import Resolved
    from muntin.spark.source import Source


@dataclass(frozen=True)
class Side:
    which: Which
    source: Source
    time: Resolved
    """Its time column."""
    delay: int | None
    """Of its watermark, in microseconds."""
    names: Mapping[str, str]
    """Its columns other than the keys: the name in the joined rows, and its own."""
    keys: Mapping[str, Resolved]
    """What is equal in a pair, by its name in the joined rows."""

    @property
    def types(self) -> dict[str, pa.DataType]:
        """Of the columns other than the keys that Muntin can read, by their names in the joined rows."""
        known = self.source.types
        return {joined: known[own] for joined, own in self.names.items() if own in known}

    @property
    def unreadable(self) -> dict[str, str]:
        unknown = self.source.unreadable
        return {joined: unknown[own] for joined, own in self.names.items() if own in unknown}


@dataclass(frozen=True)
class Condition:
    """A `where=`, which Spark computes: on one side's rows, or on the pairs if it needs both."""

    where: Any
    side: Which | None


@dataclass(frozen=True)
class JoinedAggregate:
    aggregate: Aggregate
    side: Which
    """Whose tuples it is of, if it needs no pairs."""
    condition: str | None
    """The column with its condition, if it has one."""
    why_pairs: str | None
    """Why it needs the pairs; None if it does not."""
