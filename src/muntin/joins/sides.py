"""The two sides of a join, and its aggregates and conditions before they are bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from muntin.aggregates.aggregate import Aggregate
from muntin.joins.names import SideName
from muntin.query.backend import Resolved, Source
from muntin.query.watermarks import Watermark


@dataclass(frozen=True)
class Side:
    which: SideName
    source: Source
    time: Resolved
    """The time column."""
    watermark: Watermark
    names: Mapping[str, str]
    """The non-key columns: from the name in the joined rows to the name in this side."""
    keys: Mapping[str, Resolved]
    """The key columns, by their names in the joined rows."""

    @property
    def delay(self) -> int | None:
        """The watermark delay in microseconds."""
        return self.watermark.delay

    @property
    def followed(self) -> str:
        """The column that the watermark follows."""
        return self.watermark.followed(self.time.read)

    @property
    def has_own_watermark(self) -> bool:
        """Whether the watermark comes with the input."""
        return self.followed in self.source.watermarks

    @property
    def types(self) -> dict[str, pa.DataType]:
        """The types of the readable non-key columns, by their names in the joined rows."""
        known = self.source.types
        return {joined: known[name] for joined, name in self.names.items() if name in known}

    @property
    def unreadable(self) -> dict[str, str]:
        unknown = self.source.unreadable
        return {joined: unknown[name] for joined, name in self.names.items() if name in unknown}


@dataclass(frozen=True)
class Condition:
    """A `where=` filter, which Spark computes: on the rows of one side, or on the pairs if it needs both."""

    where: Any
    side: SideName | None


@dataclass(frozen=True)
class JoinedAggregate:
    aggregate: Aggregate
    side: SideName
    """The side of its tuples, if it needs no pairs."""
    condition: str | None
    """The boolean column of its condition, if it has one."""
    why_pairs: str | None
    """The reason why it needs the pairs; None if it does not."""
