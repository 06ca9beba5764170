"""The groups of every window, best first.

Groups are compared by the value of one aggregate, in Spark's order: NaN is larger than all numbers. A group without a
value comes last in both directions. Ties are sorted by their keys, column by column and ascending, as Spark does (nulls
first). So the order depends neither on shards nor on arrival.

The last bits of a floating-point sum depend on the order in which panes are combined, which may differ in a replay by
another worker. So values that differ only by rounding are ties, and no replay swaps them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from muntin.arrays import BoolArray, Float64Array, Int64Array, positions_in_runs, run_numbers, run_starts, stable_order
from muntin.engine.plan import Plan
from muntin.engine.result_rows import bounds, models, tie_order
from muntin.features.ranking.policy import Top
from muntin.partials import values
from muntin.partials.least import Least

NEARLY_EQUAL = 2.0**-40
"""Sums with a smaller relative difference than this, about 1e-12, are ties. Rounding errors are far smaller."""
NEARLY_ZERO = 2.0**-48
"""So are those that differ by less than this share of the window's largest: cancellation may have left them."""


@dataclass(frozen=True)
class Ordered:
    """Results of windows, sorted."""

    rows: Int64Array
    """The rows in window order, and within each window the best first."""
    starts: Int64Array
    """Where each window starts in `rows`."""
    tie: Int64Array
    """For each input row: its rank by keys, which decides ties."""
    value: Int64Array
    """For each input row: an integer, smaller for better values, equal for ties."""

    @property
    def rank(self) -> Int64Array:
        """From 1, in the order of `rows`."""
        return positions_in_runs(self.starts, len(self.rows)) + 1

    @property
    def window(self) -> Int64Array:
        """The number of the window of each input row."""
        numbers = np.empty(len(self.rows), dtype=np.int64)
        numbers[self.rows] = run_numbers(self.starts, len(self.rows))
        return numbers


def ordered(plan: Plan, top: Top, batch: pa.RecordBatch) -> Ordered:
    start, end = bounds(batch)
    model = models(plan, batch)
    column = batch.column(top.by)
    value, null = place_keys(column, top.descending)
    window = (null.astype(np.int64), model, start, end)
    if pa.types.is_floating(column.type) and is_rounded(plan, top):
        value = without_near_ties(value, values.numbers(column), *window)
    tie = tie_order([batch.column(key) for key in plan.keys], batch.num_rows)
    rows = stable_order(tie, value, *window)
    return Ordered(rows, run_starts(end[rows], start[rows], model[rows]), tie, value)


def is_rounded(plan: Plan, top: Top) -> bool:
    """Whether groups are compared by a sum, which may be rounded, instead of a value of the data."""
    (bound,) = (output.bound for output in plan.outputs if output.name == top.by)
    if plan.schema.is_estimated:  # estimates are sums, too, except extremes
        return not any(isinstance(partial, Least) for partial in bound.partials) and bound.holistic is None
    return any(partial.rounds for partial in bound.partials)


def without_near_ties(keys: Int64Array, numbers: Float64Array, *window: Int64Array) -> Int64Array:
    """The order keys, where nearly equal neighbours within a window get the key of the first."""
    if not len(keys):
        return keys
    order = stable_order(keys, *window)
    is_finite = np.isfinite(numbers[order])
    finite = np.where(is_finite, numbers[order], 0.0)
    windows = run_starts(*(column[order] for column in window))
    largest = np.maximum.reduceat(np.abs(finite), windows).repeat(np.diff(windows, append=len(order)))
    allowed = NEARLY_EQUAL * np.maximum(np.abs(finite[:-1]), np.abs(finite[1:])) + NEARLY_ZERO * largest[1:]
    near = (np.abs(finite[1:] - finite[:-1]) <= allowed) & is_finite[1:] & is_finite[:-1]
    first = np.concatenate([[True], ~near])  # of neighbours that are nearly equal
    first[windows] = True
    starts = np.flatnonzero(first)
    merged = np.empty_like(keys)
    merged[order] = keys[order][starts][run_numbers(starts, len(keys))]
    return merged


def best(plan: Plan, top: Top, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The k best groups of each window: no other group of a shard can be among the k best of all shards.

    Only for exact answers: with estimates, all groups determine how certain a place is.
    """
    groups = ordered(plan, top, batch)
    return batch.take(pa.array(groups.rows[groups.rank <= top.k]))


def place_keys(column: pa.Array, descending: bool) -> tuple[Int64Array, BoolArray]:
    """Integers that are smaller for better values, and a mask of nulls."""
    order_keys = values.fixed_order_keys(column) if values.is_fixed(column.type) else values.ranked(column)[0]
    return (~order_keys if descending else order_keys), np.asarray(column.is_null())
