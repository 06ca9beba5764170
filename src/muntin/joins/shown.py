"""Joins as the user wrote them: what their `repr` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muntin.expressions import shown
from muntin.query.shown import aggregates, data, delay, policies, start
from muntin.written import call

if TYPE_CHECKING:
    from muntin.joins.join import Join


def _join(join: Join) -> str:
    inputs = [data(side.source) for side in join.sides]
    times = [shown(side.time.read) for side in join.sides]
    delays = [delay(side.delay) for side in join.sides]
    both = delays[0] if delays[0] == delays[1] else {"watermark": [each.get("watermark") for each in delays]}
    time = times[0] if times[0] == times[1] else times
    head = start("join", inputs, join.query, on=join.query.by, time=time, **both)
    return head + aggregates({name: repr(each.aggregate) for name, each in join.aggregates.items()})


def join_shown(join: Join) -> str:
    return _join(join) + policies(join.query)


def rows_shown(join: Join, columns: tuple[str, ...]) -> str:
    return _join(join) + call(".rows", columns) + policies(join.query)
