"""The groups of every window, best first.

Groups are compared by the value of one aggregate, in Spark's order: NaN is larger than all numbers. A group without a
value comes last, whichever direction is asked for. Groups that are equal go by their keys, column by column and
ascending, as Spark sorts them (nulls first): so the order depends on neither shards nor arrival.

The last bits of a floating sum depend on the order in which panes are combined, and that may differ when a batch is
replayed by another worker. So values that rounding alone could have set apart count as equal, and no replay swaps them.
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
"""Sums whose relative difference is smaller than this, about 1e-12, are ties. Rounding stays far below it."""
NEARLY_ZERO = 2.0**-48
"""So are those that differ by less than this share of the window's largest: they may be what cancelling left."""


@dataclass(frozen=True)
class Ordered:
    """Results of any windows, put in order."""

    rows: Int64Array
    """The rows in the order of windows, and within each the best first."""
    starts: Int64Array
    """Where each window begins in that."""
    tie: Int64Array
    """Of each row, as it was given: its place in the order of keys."""
    value: Int64Array
    """Of each row, as it was given: an integer that is smaller the better its value is, equal for ties."""

    @property
    def rank(self) -> Int64Array:
        """From 1, in the order of `rows`."""
        return positions_in_runs(self.starts, len(self.rows)) + 1

    @property
    def window(self) -> Int64Array:
        """The number of the window of each row, as it was given."""
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
    """Whether groups are compared by a value that was added up, rather than one of the data."""
    (bound,) = (output.bound for output in plan.outputs if output.name == top.by)
    if plan.schema.is_estimated:  # estimates are added up, too, but for extremes
        return not any(isinstance(partial, Least) for partial in bound.partials) and bound.holistic is None
    return any(partial.rounds for partial in bound.partials)


def without_near_ties(keys: Int64Array, numbers: Float64Array, *window: Int64Array) -> Int64Array:
    """Order keys in which nearly equal neighbours within a window have the key of the first of them."""
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

    That holds for answers that are exact. Where they are not, every group counts for how certain a place is.
    """
    found = ordered(plan, top, batch)
    return batch.take(pa.array(found.rows[found.rank <= top.k]))


def place_keys(column: pa.Array, descending: bool) -> tuple[Int64Array, BoolArray]:
    """Integers that are smaller the better a value is, and where there is no value."""
    found = values.fixed_order_keys(column) if values.is_fixed(column.type) else values.ranked(column)[0]
    return (~found if descending else found), np.asarray(column.is_null())
