"""Queries and joins as the user wrote them: what their `repr` shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from muntin.durations import describe
from muntin.engine.features import Option
from muntin.engine.functions import AppliedFunction
from muntin.expressions import shown
from muntin.query.backend import Source
from muntin.type_names import spark_name
from muntin.written import call, written

if TYPE_CHECKING:
    from muntin.query.query import Query


def query_shown(query: Query) -> str:
    keys = {"by": [shown(key) for key in query.by]} if query.by else {}
    named = {**watermark(query), **keys, **idle(query)}
    head = start("over", [data(query.source)], query, time=shown(query.time), **named)
    return head + aggregates({name: bound.written for name, bound in query.aggregates.items()}) + policies(query)


def start(function: str, data: list[str], query: Query, **named: object) -> str:
    named |= {} if query.name is None else {"name": query.name}
    parts = [*data, *map(repr, query.windows), *(f"{name}={written(value)}" for name, value in named.items())]
    return f"{function}({', '.join(parts)})"


def data(source: Source) -> str:
    count = len(source.types) + len(source.unreadable)
    return f"<{'stream' if source.streaming else 'table'}: {count} column{'s' * (count != 1)}>"


def watermark(query: Query) -> dict[str, object]:
    return delay(query.watermark, query.watermark_column)


def delay(delay: int | None, column: str | None = None) -> dict[str, object]:
    if column is not None:
        return {"watermark": shown(column)}
    return {} if delay is None else {"watermark": describe(delay)}


def idle(query: Query) -> dict[str, object]:
    after = getattr(query.option("idle"), "after", None)
    return {} if after is None else {"idle": describe(after)}


def aggregates(named: Mapping[str, str]) -> str:
    return f".agg({', '.join(f'{name}={aggregate}' for name, aggregate in named.items())})" if named else ""


def policies(query: Query) -> str:
    parts = []
    if isinstance(query.function, AppliedFunction):
        schema = ", ".join(f"{field.name} {spark_name(field.type)}" for field in query.function.schema)
        parts.append(call(".apply", query.function.applied.function, schema))
    parts += [option.written for option in sorted(query.options, key=_call_order)]
    if query.late_policy == "emit":
        parts.append(call(".late", query.late_policy))
    return "".join(parts)


_CALLS = ("compress", "approximate", "shed", "top", "parallel", "updates", "wide", "idle", "device")


def _call_order(option: Option) -> int:
    """The place of an option among the calls, in the order of the documentation."""
    return _CALLS.index(option.name) if option.name in _CALLS else len(_CALLS)
