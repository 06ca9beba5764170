"""Queries and joins as the user wrote them: what their `repr` shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from muntin.durations import describe
from muntin.expressions import shown
from muntin.features.compression.policy import NEVER_COMPRESSED, Compression
from muntin.features.sampling.policy import AUTO, Approximation
from muntin.features.shedding.policy import Shedding
from muntin.features.workers.policy import Parallel
from muntin.holistic.applied import Applied
from muntin.sizes import describe_size
from muntin.type_names import spark_name
from muntin.written import call, unlike, written

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
    if isinstance(query.applied, Applied):
        schema = ", ".join(f"{field.name} {spark_name(field.type)}" for field in query.applied.schema)
        parts.append(call(".apply", query.applied.function, schema))
    if query.compression is not NEVER_COMPRESSED:
        parts.append(compress_shown(query.compression))
    if query.approximation is not None:
        parts.append(approximate_shown(query.approximation))
    if query.shedding is not None:
        parts.append(shed_shown(query.shedding))
    if query.ranking is not None:
        top = query.ranking
        parts.append(call(".top", top.k, by=top.by, **unlike({"descending": top.descending}, {"descending": True})))
    if query.parallelism is not None:
        parts.append(_parallel(query.parallelism))
    if query.late_policy != "drop":
        parts.append(call(".late", query.late_policy))
    return "".join(parts)


def compress_shown(policy: Compression) -> str:
    of = {"memory": describe_size(policy.memory)} if policy.memory is not None else {"after": _time(policy.after)}
    return call(".compress", **of, **unlike({"codec": policy.codec, "level": policy.level}, _defaults(Compression)))


def approximate_shown(policy: Approximation) -> str:
    size = AUTO if policy.budget_bytes is None else describe_size(policy.budget_bytes)
    given: dict[str, object] = {"error": policy.error, "confidence": policy.confidence, "groups": policy.groups}
    given |= {"combine": policy.combine, "incremental": policy.incremental, "seed": policy.seed}
    budget = size if policy.budget is None else policy.budget
    return call(".approximate", budget=budget, **unlike(given, {**_defaults(Approximation), "confidence": 0.95}))


def shed_shown(policy: Shedding) -> str:
    given: dict[str, object] = {"rate": policy.rate, "target_latency": _time(policy.target_latency)}
    given |= {"method": policy.method, "seed": policy.seed, "confidence": policy.confidence}
    return call(".shed", **unlike(given, {**_defaults(Shedding), "rate": None, "target_latency": None}))


def _parallel(policy: Parallel) -> str:
    given = {field.name: getattr(policy, field.name) for field in fields(policy) if field.name != "model"}
    return call(".parallel", policy.model, **{name: each for name, each in given.items() if each})


def _defaults(policy: type[Any]) -> dict[str, object]:
    return {field.name: field.default for field in fields(policy)}


def _time(length: int | None) -> str | None:
    return None if length is None else describe(length)
