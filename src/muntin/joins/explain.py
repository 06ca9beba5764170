"""The text of a join's `explain()`: how it will run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muntin.durations import describe
from muntin.engine.hidden import PREFIX
from muntin.engine.plan import Plan
from muntin.expressions import shown
from muntin.joins.multiplied import how
from muntin.joins.product import MOST_PAIRS
from muntin.query import Query
from muntin.query.explain import compression, late_rows, over_time, watermark
from muntin.query.volume import Volume, state_warnings

if TYPE_CHECKING:
    from muntin.joins.join import Join, Prepared


def explanation(join: Join, prepared: Prepared) -> str:
    query = prepared.query
    plan = query.plan(shards=[0])
    operator = plan.over_time
    assert operator is not None, "joins have time windows"
    kind = "streams" if query.source.streaming else "tables"
    slowest = max((side.delay or 0) for side in join.sides)
    panes = operator.grid.most_in(join.window.longest)
    lines = [
        f"Muntin: join of two {kind} on {', '.join(map(repr, query.by))}, within {join.window.title}; time is "
        f"{shown(join.left.time.read)!r} on the left and {shown(join.right.time.read)!r} on the right",
        "",
        *over_time(operator, slowest),
        f"  {join.window.title}: {panes:,} pane{'s' * (panes != 1)} per window, {join.window.extent_formula}",
        "",
        "Workers: keyed; both sides of a key are in one shard, in the same panes and chunks. Keys that are null match "
        "nothing and are left out at the source.",
        "",
        *_pairs(join),
    ]
    if plan.keeps_chunks:
        lines += ["", *_chunks(query, plan)]
    shedding = query.option("shed")
    if shedding is not None:
        lines += ["", f"{' '.join(shedding.explained(plan))} Each side sheds for itself, by its own groups."]
    idle = query.option("idle")
    lines += ["", *idle.explained(plan)] if idle is not None and query.source.streaming else []
    copies = join.window.copies
    volume = Volume.of(plan.windows)
    assert volume is not None, "joins have time windows"
    lines += [
        "",
        volume.text if join.aggregates else f"Results: a pair is in up to {copies:,} window{'s' * (copies != 1)}.",
        f"Plain Spark would copy every row of both sides {copies:,} time{'s' * (copies != 1)}, and join the copies; "
        "Muntin processes it once"
        + (" before pairs are made." if plan.function is not None else " and makes no pair."),
    ]
    if query.source.streaming:
        lines.append(f"Watermark: {_watermarks(join)}; the one further behind is used for both; {late_rows(query)}")
    warnings = volume.warnings(plan.windows)
    warnings += state_warnings(operator, slowest, keyed=True, keeps_rows=plan.keeps_chunks)
    return "\n".join([*lines, *([""] if warnings else []), *warnings])


def _watermarks(join: Join) -> str:
    if all(side.watermark.column is None for side in join.sides):
        left, right = (describe(side.delay or 0) for side in join.sides)
        return f"{left} behind the latest row on the left, {right} on the right"
    columns = [None if side.watermark.column is None else side.followed for side in join.sides]
    left, right = (watermark(side.delay, column) for side, column in zip(join.sides, columns, strict=True))
    return f"on the left, {left}; on the right, {right}"


def _pairs(join: Join) -> list[str]:
    if not join.aggregates:
        return [_made("they are the result")]
    if all(joined.why_pairs is None for joined in join.aggregates.values()):
        lines = ["Pairs: not made. All aggregates follow from one side and the number of rows of the other."]
        for name, joined in join.aggregates.items():
            lines.append(f"  {name}: multiplied; {how(joined.aggregate)} ({joined.side})")
        return lines
    lines = [_made("some aggregates need them")]
    for name, joined in join.aggregates.items():
        if joined.why_pairs is not None:
            lines.append(f"  {name}: over the pairs, because {joined.why_pairs}")
        else:
            lines.append(f"  {name}: over the pairs, since they are made anyway; alone it would be multiplied")
    return lines


def _made(why: str) -> str:
    return f"Pairs: made in the worker as windows close, at most {MOST_PAIRS:,} at a time, because {why}."


def _chunks(query: Query, plan: Plan) -> list[str]:
    assert plan.layout.tuples is not None
    assert plan.chunk_length is not None
    names = [name for name in plan.layout.tuples.names if not name.startswith(PREFIX)]
    return [
        f"Chunks: the rows of both sides are kept, {describe(plan.chunk_length)} in each chunk, sorted by (key, "
        f"time), with {', '.join(map(repr, names)) or 'no column'} beside key and time, until the last window over "
        "them has closed.",
        *compression(query, plan),
    ]
