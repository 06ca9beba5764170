"""Queries and joins as the user wrote them: what their `repr` shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from muntin.durations import describe
from muntin.engine.features import Option
from muntin.engine.functions import AppliedFunction
from muntin.expressions import shown
from muntin.type_names import spark_name
from muntin.written import call, written

if TYPE_CHECKING:
    from muntin.joins.join import Join
    from muntin.query import Query
    from muntin.spark.source import Source


def query_shown(query: Query) -> str:
    keys = {"by": [shown(key) for key in query.by]} if query.by else {}
    start = _start("over", [_data(query.source)], query, time=shown(query.time), **_delay(query.watermark), **keys)
    return start + _aggregates({name: bound.written for name, bound in query.aggregates.items()}) + _policies(query)


def _join(join: Join) -> str:
    data = [_data(side.source) for side in join.sides]
    times = [shown(side.time.read) for side in join.sides]
    delays = [_delay(side.delay) for side in join.sides]
    both = delays[0] if delays[0] == delays[1] else {"watermark": [each.get("watermark") for each in delays]}
    time = times[0] if times[0] == times[1] else times
    start = _start("join", data, join.query, on=join.query.by, time=time, **both)
    return start + _aggregates({name: repr(each.aggregate) for name, each in join.aggregates.items()})


def join_shown(join: Join) -> str:
    return _join(join) + _policies(join.query)


def rows_shown(join: Join, columns: tuple[str, ...]) -> str:
    return _join(join) + call(".rows", columns) + _policies(join.query)


def _start(function: str, data: list[str], query: Query, **named: object) -> str:
    parts = [*data, *map(repr, query.windows), *(f"{name}={written(value)}" for name, value in named.items())]
    return f"{function}({', '.join(parts)})"


def _data(source: Source) -> str:
    count = len(source.types) + len(source.unreadable)
    return f"<{'stream' if source.streaming else 'table'}: {count} column{'s' * (count != 1)}>"


def _delay(delay: int | None) -> dict[str, object]:
    return {} if delay is None else {"watermark": describe(delay)}


def _aggregates(named: Mapping[str, str]) -> str:
    return f".agg({', '.join(f'{name}={each}' for name, each in named.items())})" if named else ""


def _policies(query: Query) -> str:
    parts = []
    if isinstance(query.function, AppliedFunction):
        schema = ", ".join(f"{field.name} {spark_name(field.type)}" for field in query.function.schema)
        parts.append(call(".apply", query.function.applied.function, schema))
    parts += [option.written for option in sorted(query.options, key=_call_order)]
    if query.late_policy != "drop":
        parts.append(call(".late", query.late_policy))
    return "".join(parts)


_CALLS = ("compress", "approximate", "shed", "top", "parallel")


def _call_order(option: Option) -> int:
    """The order in which the documentation has the calls."""
    return _CALLS.index(option.name) if option.name in _CALLS else len(_CALLS)
