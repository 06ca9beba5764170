"""`explain()`: how a query will run, in words."""

from __future__ import annotations

from muntin.durations import describe
from muntin.query import Query

_FEW_MICROSECONDS = 1_000


def explanation(query: Query) -> str:
    plan = query.plan(shards=[0])
    grid = plan.grid
    lines = [
        f"Muntin: {'stream' if query.source.streaming else 'table'}, windows over {query.time!r}"
        + (f" per {', '.join(map(repr, query.by))}" if query.by else ", one group"),
        "",
        f"Panes of {describe(grid.length)}, shared by all windows:",
    ]
    for window in plan.windows:
        panes = window.size // grid.length
        lines.append(
            f"  {window.title}: {panes:,} pane{'s' * (panes != 1)} per window, forward-context-{window.forward_context}"
        )
    fields = plan.layout.leaf_sets[0].fields
    widest = max(window.size for window in plan.windows)
    kept = (widest + (query.watermark or 0)) // grid.length + 1
    leaf = 16 + sum(_width(field.dtype) for field in fields)
    lines += [
        "",
        "Tree: flat, one array for all keys of a shard, leaves sorted by (key, pane); "
        f"{max(1, (widest // grid.length - 1).bit_length())} levels answer every window.",
        f"State: a key with data in every pane keeps {kept:,} panes of {leaf} bytes, "
        f"about {_bytes(kept * leaf)}; keys with less data keep less.",
    ]
    for leaf_set in plan.layout.leaf_sets[1:]:
        if leaf_set.per_tuple:
            lines.append(
                "       A custom aggregate that is not commutative also keeps each tuple's lifted state until its "
                "last window has closed; say commutative=True if the order does not matter."
            )
            break
    lines += [
        "Workers: keyed; every key belongs to one shard, because decomposable aggregates over panes leave so little "
        "work per window that spreading windows would cost more than it gains.",
    ]
    copies = sum(window.copies for window in plan.windows)
    lines += [
        "",
        f"Plain Spark would copy every row {copies:,} time{'s' * (copies != 1)}"
        + (f", in {len(plan.windows)} queries" if len(plan.windows) > 1 else "")
        + "; Muntin touches it once.",
    ]
    if query.source.streaming:
        lines.append(
            f"Watermark: {describe(query.watermark or 0)} behind the latest row; a row is late only for the windows "
            f"that have closed. Rows too late for all of them are {_LATE[query.late_policy]}."
        )
    if grid.length < _FEW_MICROSECONDS:
        lines.append(
            f"Careful: panes of {describe(grid.length)} are very short. They are the greatest common divisor of all "
            "sizes, slides and differences of offsets; rounder numbers make longer panes and less state."
        )
    return "\n".join(lines)


_LATE = {"drop": "counted and dropped", "emit": "counted and emitted in the column 'late'"}


def _width(dtype: str) -> int:
    return 1 if dtype in ("uint8", "|b1") else 8


def _bytes(size: int) -> str:
    amount = float(size)
    for unit in ("bytes", "KB", "MB"):
        if amount < 1000:
            return f"{amount:,.0f} {unit}"
        amount /= 1000
    return f"{amount:,.1f} GB"
