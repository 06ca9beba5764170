"""Where the panes of a query are made: by the host's own aggregation, or in the pane stage."""

from __future__ import annotations

from muntin.engine.native_panes import NativePanes
from muntin.engine.plan import Plan
from muntin.query.query import Query


def native_panes(query: Query, plan: Plan) -> NativePanes | str:
    """The panes that Spark makes, or the reason why the pane stage makes them."""
    if query.source.beside:
        return "a join sends the rows of both sides"
    if query.source.scan is not None and not query.computed_by_spark:
        return "the files are read where panes are made"
    if query.max_ahead is not None:
        return "max_ahead= looks at every row"
    if plan.over_time is not None and plan.grid.is_uneven:
        return "windows of a calendar have panes of uneven lengths"
    if query.option("parallel") is not None:
        return ".parallel() spreads windows where panes are made"
    return NativePanes.of(plan)


def explained(query: Query, plan: Plan) -> str | None:
    """The line of `explain()` about panes of a table; None where there is nothing to say."""
    if query.source.streaming or plan.over_time is None:
        return None
    panes = native_panes(query, plan)
    if isinstance(panes, str):
        return f"Panes are made in Python: {panes}."
    grouped = "(keys, pane)" if plan.keys else "(pane)"
    return f"Panes are made by Spark's own groupBy{grouped}; only panes are sent to Python."
