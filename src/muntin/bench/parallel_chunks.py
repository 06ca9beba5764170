"""Chunks of a fixed length instead of Muntin's choice, for benchmarks only.

The plan is pickled with its class, so a subclass of the plan is enough to change the length on the workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from muntin.engine.plan import Plan
from muntin.query import Query


@dataclass(frozen=True)
class StaticPlan(Plan):
    """A plan with chunks of a fixed length, which need not divide the windows evenly."""

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
    """The query with chunks of `length` microseconds."""
    return StaticQuery(**_fields(query), static_length=length)


def _fields(of: Plan | Query) -> dict[str, Any]:
    return {each.name: getattr(of, each.name) for each in fields(of)}
