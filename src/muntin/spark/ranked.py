"""The last step of `.top()` on Spark: a map over the packed results of all shards, in one partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from muntin.features.ranking.merged import merged
from muntin.plan import Plan
from muntin.spark.window_stage import MOST_ROWS, unpacked


def ranked(plan: Plan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The k best groups of every window, out of the packed rows."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in merged(plan, unpacked(plan.result_schema)(batches)):
            for begin in range(0, batch.num_rows, MOST_ROWS):
                yield batch.slice(begin, MOST_ROWS)

    return run
