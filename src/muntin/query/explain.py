"""The text of `explain()`: how a query will run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from muntin.durations import describe
from muntin.engine.operators.delta import DeltaOperator
from muntin.engine.operators.operator import WindowOperator
from muntin.engine.operators.ordered import OrderedOperator
from muntin.engine.operators.session import SessionOperator
from muntin.engine.operators.time import TimeOperator
from muntin.engine.plan import Plan
from muntin.expressions import shown
from muntin.panes.tuples import MEMBERSHIP, WEIGHT
from muntin.query.backend import backend_of
from muntin.query.panes import explained as panes_explained
from muntin.query.query import Query
from muntin.query.scan import Scan
from muntin.query.volume import Volume, kept_panes, leaf_bytes, state_warnings
from muntin.sizes import describe_size
from muntin.windows import CountWindow, PaneWindow, TupleWindow, Window
from muntin.windows.calendar import zone_column_of


def explanation(query: Query) -> str:
    plan = query.plan(shards=[0])
    lines = [
        f"Muntin: {'stream' if query.source.streaming else 'table'}, windows over {shown(query.time)!r}"
        + (f" per {', '.join(map(repr, query.named_keys))}" if query.by else ", one group"),
    ]
    if query.source.scan is not None:
        lines.append(_files(query, query.source.scan))
    panes = panes_explained(query, plan)
    lines += [] if panes is None else [panes]
    for operator in plan.operators:
        lines += ["", *_DESCRIBED[type(operator)](operator, query)]
        for _, window in operator.windows:
            context = f"forward-context-{window.forward_context}"
            lines.append(f"  {window.title}: {_share(window, operator)}{context}; {window.extent_formula}")
    lines += [
        "",
        "Tree: flat, one array for all keys of a shard, leaves sorted by (key, pane); a window is a range of leaves.",
        *_workers(query, plan),
    ]
    if plan.keeps_chunks:
        lines += ["", *_chunks(query, plan)]
    for option in sorted(query.options, key=lambda option: _PLACES.get(option.name, 9)):
        explained = option.explained(plan) if option.name not in ("parallel", "compress") else []
        lines += ["", *explained] if explained else []
    if any(feature.name == "drift" for feature in plan.features):
        lines += ["", "Drift: muntin.progress(query) reports the overlap and the distance of neighbouring windows."]
    volume = Volume.of(plan.windows)
    lines += ["", *([] if volume is None else [volume.text]), *_spark(plan)]
    if query.source.streaming:
        lines.append(f"Watermark: {watermark(query.watermark, query.watermark_column)}; {late_rows(query)}")
    warnings = [] if volume is None else volume.warnings(plan.windows)
    if plan.over_time is not None:
        delay = query.watermark or 0
        warnings += state_warnings(plan.over_time, delay, keyed=bool(plan.keys), keeps_rows=plan.keeps_chunks)
    return "\n".join([*lines, *([""] if warnings else []), *warnings])


def _files(query: Query, scan: Scan) -> str:
    files = scan.files
    where = f"Files: {files.format.name} at {', '.join(map(repr, files.given))}, read by tasks with Arrow"
    if not query.computed_by_spark:
        return f"{where}. Panes are made there: no row enters Spark's JVM."
    computed = [shown(name) for name in query.computed.columns]
    computed += ["where="] * bool(query.filters.columns) + ["max_ahead="] * (query.max_ahead is not None)
    return f"{where}. Rows go through Spark's JVM, which computes {', '.join(computed)}."


_PLACES = {"approximate": 1, "shed": 2, "top": 3, "updates": 4, "idle": 5, "device": 6}
"""The order in which options are explained."""


def _workers(query: Query, plan: Plan) -> list[str]:
    parallel = query.option("parallel")
    if parallel is None:
        advice = "" if plan.keys else ", and there is only one; .parallel() spreads windows over all cores"
        return [f"Workers: keyed; every key belongs to one shard{advice}."]
    resolved = parallel.resolved(plan, lambda: backend_of(query.source).most_workers(query.source.frame))
    return resolved.explained(plan)


def watermark(delay: int | None, column: str | None) -> str:
    """What the watermark of an input follows."""
    if column is None:
        return f"{describe(delay or 0)} behind the latest row"
    return f"the largest {shown(column)!r} that a row has carried"


def late_rows(query: Query) -> str:
    ahead = ""
    if query.max_ahead is not None:
        ahead = (
            f" So are rows more than {describe(query.max_ahead)} ahead of the clock, which do not move the watermark."
        )
    return (
        "a row is late only for the windows that have closed. Rows too late for all of them are "
        f"{_LATE[query.late_policy]}.{ahead}"
    )


def _chunks(query: Query, plan: Plan) -> list[str]:
    assert plan.layout.tuples is not None
    names = [shown(name) for name in plan.layout.tuples.names if name not in (MEMBERSHIP, WEIGHT)]
    length = plan.chunk_length
    stretch = "many rows" if length is None else describe(length)
    needed = [output.name for output in plan.outputs if output.bound.holistic is not None]
    why = "the applied function" if plan.function is not None else ", ".join(map(repr, needed))
    return [
        f"Holistic: {why} needs the rows themselves. They are kept in chunks of {stretch}, sorted by (key, time), with "
        f"{', '.join(map(repr, names)) or 'no column'} beside key and time, until the last window over them has closed."
        + ("" if plan.function is not None else " All other aggregates use the tree."),
        *compression(query, plan),
    ]


def compression(query: Query, plan: Plan) -> list[str]:
    option = query.option("compress")
    if option is None:
        return ["Compression: none; .compress(after=...) or .compress(memory=...) trades time for memory."]
    return option.explained(plan)


def _over_time(operator: TimeOperator, query: Query) -> list[str]:
    return over_time(operator, query.watermark or 0)


def over_time(operator: TimeOperator, delay: int) -> list[str]:
    """The length of the panes, and how many of them a key keeps."""
    length = operator.grid.shortest
    widest = max(window.longest for window in operator.models)
    kept, leaf = kept_panes(operator, delay), leaf_bytes(operator)
    lines = [
        f"Panes of {describe(length)}, shared by all windows over time: a key with data in every pane keeps {kept:,} "
        f"panes of {leaf} bytes, about {describe_size(kept * leaf)}; keys with less data keep less. "
        f"{max(1, (operator.grid.most_in(widest) - 1).bit_length())} levels of the tree answer every window."
    ]
    column = zone_column_of(operator.models)
    if column is not None:
        lines.append(
            f"Zones: every value of {shown(column)!r} has panes and state of its own, and its windows close at their "
            "ends in that zone. Rows whose zone is null or unknown are invalid."
        )
    if any(leaf_set.per_tuple for leaf_set in operator.leaf_sets):
        lines.append(
            "A custom aggregate that is not commutative also keeps each row's lifted state until its last window "
            "has closed; give commutative=True if the order does not matter."
        )
    return lines


def _over_sessions(operator: SessionOperator, query: Query) -> list[str]:
    state = (
        "each row of an open session, as an aggregate needs their order"
        if operator.leaf_set.per_tuple
        else f"{leaf_bytes(operator)} bytes for each open session"
    )
    return [f"Sessions: a key keeps {state}. Rows go to the window stage unaggregated."]


def _over_numbered(operator: OrderedOperator, query: Query) -> list[str]:
    panes = f"panes of {operator.pane:,} rows" if operator.pane > 1 else "a leaf for each row"
    return [
        f"Rows in event-time order, {panes} of {leaf_bytes(operator)} bytes: rows go to the window stage unaggregated "
        "and wait there until they are finalized; then their order is final, with equal times in the order of their "
        f"values. {_last_leaf(operator.forget_after)}"
    ]


def _over_delta(operator: DeltaOperator, query: Query) -> list[str]:
    return [
        f"Rows in event-time order whose {operator.window.column!r} has not decreased, a leaf of "
        f"{leaf_bytes(operator)} bytes for each; the others are counted as invalid rows and excluded. "
        f"{_last_leaf(operator.window.forget_after)}"
    ]


def _last_leaf(forget_after: int | None) -> str:
    if forget_after is None:
        return "The last leaf of every key is kept forever; forget_after= drops that of keys that never come back."
    return f"A key is forgotten once it has had no such row for {describe(forget_after)}: its next row is its first."


_DESCRIBED: dict[type[WindowOperator], Callable[[Any, Query], list[str]]] = {
    TimeOperator: _over_time,
    SessionOperator: _over_sessions,
    OrderedOperator: _over_numbered,
    DeltaOperator: _over_delta,
}


def _share(window: Window, operator: WindowOperator) -> str:
    """How many panes a window is answered from, if that is fixed."""
    if isinstance(window, PaneWindow) and isinstance(operator, TimeOperator):
        panes = operator.grid.most_in(window.longest)
    elif isinstance(window, CountWindow) and isinstance(operator, OrderedOperator):
        panes = window.size // operator.pane
    else:
        return ""
    return f"{panes:,} pane{'s' * (panes != 1)} per window, "


def _spark(plan: Plan) -> list[str]:
    """What plain Spark would have done."""
    lines = []
    over_time = plan.over_time
    if over_time is not None:
        copies = sum(window.copies for window in over_time.models)
        queries = len(over_time.models)
        lines.append(
            f"Plain Spark would copy every row {copies:,} time{'s' * (copies != 1)}"
            + (f", in {queries} queries" if queries > 1 else "")
            + "; Muntin processes it once."
        )
    if any(isinstance(window, TupleWindow) for window in plan.windows):
        lines.append("Plain Spark has no windows over rows of a stream.")
    return lines


_LATE = {
    "drop": "counted and dropped",
    "emit": "counted and emitted in the column 'late'",
    "update": "counted and dropped once the windows can no longer be corrected",
}
