"""Which tuples some open window may still need, and so which chunks."""

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
"""Fewer than this are not worth writing chunks anew."""


class NeededTuples:
    """Windows over time need tuples by their time alone; the others, by key, those from their first leaf on."""

    def __init__(self, layout: Layout, operators: Sequence[WindowOperator], table: PaneTable, now: Watermarks) -> None:
        """`table` is without the leaves that no window needs."""
        self._layout = layout
        self._models = [window for each in operators if isinstance(each, TimeOperator) for window in each.models]
        self._table = table
        self._watermark = now.watermark
        self._from = np.full(table.keys.num_rows, NEVER_MORE, dtype=np.int64)
        self.by_key = 0
        """How many tuples some key needs."""
        for operator in operators:
            if isinstance(operator, TupleOperator):
                (leaves,) = operator.own(table)
                starts = run_starts(leaves.key)
                np.minimum.at(self._from, leaves.key[starts], leaves.state[FIRST_TIME][starts])
                self.by_key += int(leaves.state[ROW_COUNT_FIELD].sum())
        self._earliest = int(self._from.min(initial=NEVER_MORE))

    def by_time(self, times: Int64Array) -> BoolArray:
        """Whether a window over time is open that may hold a tuple at each time."""
        if not self._models:
            return np.zeros(len(times), dtype=bool)
        return last_ends(times, self._models) > self._watermark

    def of(self, part: PaneTable) -> BoolArray:
        """Which tuples of a table, with keys of its own, are needed."""
        assert part.tuples is not None
        keys, (ours, theirs) = merged_keys(self._layout, [self._table, part])
        needed_from = np.full(keys.num_rows, NEVER_MORE, dtype=np.int64)
        needed_from[ours] = self._from
        by_key = part.tuples.time >= needed_from[theirs][part.tuples.key]
        return by_key | self.by_time(part.tuples.time)

    def any_of(self, chunks: Sequence[Chunk]) -> BoolArray:
        """Of which chunks a tuple may be needed."""
        last = np.array([chunk.last for chunk in chunks], dtype=np.int64)
        return (last >= self._earliest) | self.in_time(chunks)

    def in_time(self, chunks: Sequence[Chunk]) -> BoolArray:
        """The same, for a window over time."""
        first, last = (
            np.array([getattr(chunk, edge) for chunk in chunks], dtype=np.int64) for edge in ("first", "last")
        )
        return self.by_time(first) | self.by_time(last)


def drop_useless(chunks: ChunkStore, needed: NeededTuples) -> None:
    """Drop the chunks that no window needs; write those anew that are kept for few tuples of rare keys."""
    chunks.drop(compress(chunks.chunks, ~needed.any_of(chunks.chunks)))
    rest = list(compress(chunks.chunks, ~needed.in_time(chunks.chunks)))
    if sum(chunk.tuples for chunk in rest) > 2 * needed.by_key + USELESS_TUPLES:
        chunks.rewrite(rest, tier=0, keep=needed.of)
