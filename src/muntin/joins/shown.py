"""Joins as the user wrote them: what their `repr` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muntin.expressions import shown
from muntin.query import shown as query_shown
from muntin.written import call

if TYPE_CHECKING:
    from muntin.joins.join import Join


def _join(join: Join) -> str:
    data = [query_shown.data(side.source) for side in join.sides]
    times = [shown(side.time.read) for side in join.sides]
    columns = [None if side.watermark.column is None else side.followed for side in join.sides]
    delays = [query_shown.delay(side.delay, column) for side, column in zip(join.sides, columns, strict=True)]
    both = delays[0] if delays[0] == delays[1] else {"watermark": [delay.get("watermark") for delay in delays]}
    time = times[0] if times[0] == times[1] else times
    named = {**both, **query_shown.idle(join.query)}
    head = query_shown.start("join", data, join.query, on=join.query.by, time=time, **named)
    return head + query_shown.aggregates({name: repr(joined.aggregate) for name, joined in join.aggregates.items()})


def join_shown(join: Join) -> str:
    return _join(join) + query_shown.policies(join.query)


def rows_shown(join: Join, columns: tuple[str, ...]) -> str:
    return _join(join) + call(".rows", columns) + query_shown.policies(join.query)
