"""The best and the worst possible place of each group, if answers have intervals.

A group is certainly behind another one whose worst value is better than its own best. It may be behind another one
whose best value is better than its own worst. Ties are decided by the keys, as in the ranking, so both places are the
rank itself if all values are exact.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrays import BoolArray, Int64Array, stable_order
from muntin.engine.estimates import EXACT, INCREMENTAL
from muntin.engine.plan import Plan
from muntin.features.ranking.order import Ordered, place_keys
from muntin.features.ranking.policy import Top
from muntin.partials import values

FIRST = np.iinfo(np.int64).min
"""Better than every value."""
LAST = np.iinfo(np.int64).max
"""The place of groups without a value: behind all others."""


def places(plan: Plan, top: Top, batch: pa.RecordBatch, groups: Ordered) -> tuple[Int64Array, Int64Array]:
    """The best and the worst place of each group among all groups of its window, in the order of the input rows."""
    best, worst = intervals(plan, top, batch, groups)
    window = groups.window
    surely_behind = _count_before(window, groups.tie, worst, best)
    # A group with an interval is not behind itself.
    maybe_behind = _count_before(window, groups.tie, best, worst) - (best < worst)
    return surely_behind + 1, maybe_behind + 1


def intervals(plan: Plan, top: Top, batch: pa.RecordBatch, groups: Ordered) -> tuple[Int64Array, Int64Array]:
    """The best and the worst possible value of each group, as integers that are smaller for better values."""
    column = batch.column(top.by)
    quality = dict(zip(batch.schema.field("quality").type.names, batch.column("quality").flatten(), strict=True))
    certain = np.asarray(pc.is_in(quality["mode"], value_set=pa.array([EXACT, INCREMENTAL])))
    certain = certain | plan.is_exact(top.by)
    if values.is_numeric(column.type):
        low, high = (_side(quality[side], top.by) for side in ("low", "high"))
        column = column.cast(pa.float64(), safe=False)
        sides = (high, low) if top.descending else (low, high)
    else:  # estimates without intervals may be anything
        sides = (pa.nulls(len(column), column.type),) * 2
    point, null = place_keys(column, top.descending)
    if pa.types.is_floating(batch.column(top.by).type):
        point = groups.value  # in which near ties are equal
    best = _bound(sides[0], point, certain, top.descending, FIRST)
    worst = _bound(sides[1], point, certain, top.descending, LAST - 1)
    # A null that is exact comes last; a null that is an estimate may be any value.
    return (
        np.where(null, np.where(certain, LAST, FIRST), np.minimum(best, point)),
        np.where(null, LAST, np.maximum(worst, point)),
    )


def _side(sides: pa.StructArray, name: str) -> pa.Array:
    return sides.flatten()[sides.type.get_field_index(name)]


def _bound(side: pa.Array, point: Int64Array, certain: BoolArray, descending: bool, unbounded: int) -> Int64Array:
    """One end of the intervals: `unbounded` where it is null, the answer itself where that is certain."""
    if side.null_count == len(side):
        bound = np.full(len(side), unbounded)
    else:
        keys, null = place_keys(side, descending)
        bound = np.where(null, unbounded, keys)
    return np.where(certain, point, bound)


def _count_before(window: Int64Array, tie: Int64Array, marks: Int64Array, targets: Int64Array) -> Int64Array:
    """For each row, how many rows of its window have a mark before the row's target; the keys decide ties.

    Marks and targets are sorted together, and marks are counted along this order.
    """
    count = len(window)
    is_mark = np.repeat([1, 0], count)  # a row's own mark, where it equals the target, is not before it
    along = stable_order(is_mark, np.tile(tie, 2), np.concatenate([marks, targets]), np.tile(window, 2))
    seen = np.cumsum(is_mark[along])
    at_target = along >= count
    before = np.empty(count, dtype=np.int64)
    before[along[at_target] - count] = seen[at_target]
    sizes = np.bincount(window)
    return np.asarray(before - (np.cumsum(sizes) - sizes)[window])
