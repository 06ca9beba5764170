"""The collector: the results of all workers in window order (algorithm 3 of the paper).

Within a Spark batch all results exist before the first is emitted, so the priority queue is a sort.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from muntin.arrays import stable_order
from muntin.engine.plan import Plan
from muntin.engine.result_rows import bounds, models, tie_order


def in_window_order(plan: Plan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The results sorted by the window's end, its start, its model and the key, after late rows, which have no window.

    Rows that a function returned for one window keep their order.
    """
    result_batches = []
    for batch in batches:
        if batch.num_rows and batch.column("window").null_count:
            yield batch
        elif batch.num_rows:
            result_batches.append(batch)
    if not result_batches:
        return
    (batch,) = pa.Table.from_batches(result_batches).combine_chunks().to_batches()
    start, end = bounds(batch)
    ids = np.asarray(batch.column("window_id"))
    tie = tie_order([batch.column(key) for key in plan.keys], batch.num_rows)
    order = stable_order(tie, ids, models(plan, batch), start, end)
    yield batch.take(pa.array(order))
