"""The collector: the results of all workers in window order (algorithm 3 of the paper).

Within a batch of Spark all results are there before the first is told, so that the priority queue is a sort.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from muntin.arrays import stable_order
from muntin.engine.plan import Plan
from muntin.engine.result_rows import bounds, models, tie_order


def in_window_order(plan: Plan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """By the window's end, its start, its model and the key; what came too late, and has no window, comes first.

    The rows that a function made of one window stay as they are.
    """
    held = []
    for batch in batches:
        if batch.num_rows and batch.column("window").null_count:
            yield batch
        elif batch.num_rows:
            held.append(batch)
    if not held:
        return
    (batch,) = pa.Table.from_batches(held).combine_chunks().to_batches()
    start, end = bounds(batch)
    ids = np.asarray(batch.column("window_id"))
    tie = tie_order([batch.column(key) for key in plan.keys], batch.num_rows)
    order = stable_order(tie, ids, models(plan, batch), start, end)
    yield batch.take(pa.array(order))
