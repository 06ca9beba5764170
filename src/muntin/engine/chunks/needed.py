"""The tuples that open windows may still need, and the chunks that contain them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

import numpy as np

from muntin.arrays import BoolArray, Int64Array, run_starts
from muntin.engine.chunks.store import Chunk, ChunkStore
from muntin.engine.operators.operator import NEVER_MORE, TupleOperator, WindowOperator
from muntin.engine.operators.partials import FIRST_TIME, ROW_COUNT_FIELD
from muntin.engine.operators.time import TimeOperator
from muntin.panes.grid import last_ends
from muntin.panes.table import Layout, PaneTable, merged_keys
from muntin.panes.watermarks import Watermarks

USELESS_TUPLES = 1 << 16
"""Chunks are not rewritten to drop fewer tuples than this."""


class NeededTuples:
    """Time windows need tuples by time alone; other windows need, by key, all tuples from their first leaf on."""

    def __init__(self, layout: Layout, operators: Sequence[WindowOperator], table: PaneTable, now: Watermarks) -> None:
        """`table` is pruned: it only has leaves that some window needs."""
        self._layout = layout
        self._models = [
            window for operator in operators if isinstance(operator, TimeOperator) for window in operator.models
        ]
        self._table = table
        self._watermark = now.watermark
        self._from = np.full(table.keys.num_rows, NEVER_MORE, dtype=np.int64)
        self.by_key = 0
        """How many tuples are needed by key."""
        for operator in operators:
            if isinstance(operator, TupleOperator):
                (leaves,) = operator.own(table)
                starts = run_starts(leaves.key)
                np.minimum.at(self._from, leaves.key[starts], leaves.state[FIRST_TIME][starts])
                self.by_key += int(leaves.state[ROW_COUNT_FIELD].sum())
        self._earliest = int(self._from.min(initial=NEVER_MORE))

    def by_time(self, times: Int64Array) -> BoolArray:
        """For each time, whether an open time window may contain it."""
        if not self._models:
            return np.zeros(len(times), dtype=bool)
        return last_ends(times, self._models) > self._watermark

    def of(self, part: PaneTable) -> BoolArray:
        """Which tuples of a table are needed. The table may have other keys."""
        assert part.tuples is not None
        keys, (own_codes, part_codes) = merged_keys(self._layout, [self._table, part])
        needed_from = np.full(keys.num_rows, NEVER_MORE, dtype=np.int64)
        needed_from[own_codes] = self._from
        by_key = part.tuples.time >= needed_from[part_codes][part.tuples.key]
        return by_key | self.by_time(part.tuples.time)

    def at(self, times: Int64Array) -> BoolArray:
        """For each time, whether a tuple with this time may be needed."""
        return (times >= self._earliest) | self.by_time(times)

    def any_of(self, chunks: Sequence[Chunk]) -> BoolArray:
        """Which chunks may contain needed tuples."""
        last = np.array([chunk.last for chunk in chunks], dtype=np.int64)
        return (last >= self._earliest) | self.in_time(chunks)

    def in_time(self, chunks: Sequence[Chunk]) -> BoolArray:
        """Which chunks may contain tuples that time windows need."""
        first, last = (
            np.array([getattr(chunk, edge) for chunk in chunks], dtype=np.int64) for edge in ("first", "last")
        )
        return self.by_time(first) | self.by_time(last)


def drop_useless(chunks: ChunkStore, needed: NeededTuples) -> None:
    """Drop chunks that no window needs; rewrite those that are only kept for few tuples of rare keys."""
    chunks.drop(compress(chunks.chunks, ~needed.any_of(chunks.chunks)))
    kept_by_key = list(compress(chunks.chunks, ~needed.in_time(chunks.chunks)))
    if sum(chunk.tuples for chunk in kept_by_key) > 2 * needed.by_key + USELESS_TUPLES:
        chunks.rewrite(kept_by_key, tier=0, keep=needed.of)
