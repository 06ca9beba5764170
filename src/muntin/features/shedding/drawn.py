"""Rows that are shed right after they are decoded, where a task reads files itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from muntin.engine.features import KeptAtSource, Task
from muntin.features.shedding.strata import random_numbers


def drawn(batches: Iterable[pa.RecordBatch], kept: KeptAtSource, task: Task) -> Iterator[pa.RecordBatch]:
    """The rows that are kept: the same ones whenever a task reads the same batches."""
    for number, batch in enumerate(batches):
        random = random_numbers(kept.seed, task.batch or 0, task.number, number, batch.num_rows)
        yield batch.filter(pa.array(random.random(batch.num_rows) < kept.probability))
