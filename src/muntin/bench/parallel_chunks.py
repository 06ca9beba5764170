"""Chunks of another length than Muntin's own choice, which only a benchmark wants.

The plan travels to the workers with its class, so that a plan which says otherwise is all that it takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from muntin.engine.plan import Plan
from muntin.query import Query


@dataclass(frozen=True)
class StaticPlan(Plan):
    """A plan with chunks of a fixed length, which need not go into windows a whole number of times."""

    static_length: int = 0

    @property
    def chunk_length(self) -> int | None:
        return self.static_length


@dataclass(frozen=True)
class StaticQuery(Query):
    static_length: int = 0

    def plan(self, shards: Sequence[int]) -> Plan:
        return static_plan(super().plan(shards), self.static_length)


def static_plan(plan: Plan, length: int) -> Plan:
    return StaticPlan(**_fields(plan), static_length=length)


def with_static_chunks(query: Query, length: int) -> Query:
    """The same query with chunks of so many microseconds."""
    return StaticQuery(**_fields(query), static_length=length)


def _fields(of: Plan | Query) -> dict[str, Any]:
    return {each.name: getattr(of, each.name) for each in fields(of)}
