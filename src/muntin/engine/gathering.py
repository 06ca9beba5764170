"""Small Arrow batches as larger ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

ENOUGH = 2
"""Copying a batch costs more than it saves if it has one in so many of the rows."""


def gathered(batches: Iterable[pa.RecordBatch], rows: int, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """The same tuples in batches of about this many rows or bytes. Large batches are not copied."""
    waiting: list[pa.RecordBatch] = []
    waiting_rows = waiting_bytes = 0
    for batch in batches:
        if batch.num_rows * ENOUGH >= rows:
            yield from _together(waiting)
            waiting_rows = waiting_bytes = 0
            yield batch
            continue
        waiting.append(batch)
        waiting_rows, waiting_bytes = waiting_rows + batch.num_rows, waiting_bytes + batch.nbytes
        if waiting_rows >= rows or waiting_bytes >= most_bytes:
            yield from _together(waiting)
            waiting_rows = waiting_bytes = 0
    yield from _together(waiting)


def _together(waiting: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All of them as one, unless that would be too large for Arrow. They are forgotten before they are processed."""
    batches = waiting if len(waiting) < 2 else pa.Table.from_batches(waiting).combine_chunks().to_batches()
    batches = list(batches)
    waiting.clear()
    while batches:
        yield batches.pop(0)
