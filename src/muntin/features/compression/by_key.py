"""A_C's own unit: the tuples of a key are compressed when that key was not updated for D, however old they are.

A chunk has the tuples of all keys in one stretch of time. With this unit it is split: uncompressed chunks keep the
tuples of active keys, and those of idle keys move to compressed chunks of their own, each key with all its tuples side
by side. What is compressed stays so, since a new tuple of its key goes to a new chunk.

When a key was last updated is not stored: the latest tuple of an active key is uncompressed, and a key without
uncompressed tuples is idle. So nothing is lost by a restart, and the state has the same form with either unit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from muntin.arrays import BoolArray, Int64Array, run_starts
from muntin.engine.batch import ShardBatch
from muntin.engine.chunks import store
from muntin.engine.chunks.needed import NeededTuples
from muntin.engine.chunks.store import Chunk, ChunkStore
from muntin.engine.features import ShardFeature
from muntin.engine.operators.operator import ALWAYS
from muntin.features.compression.policy import Compression
from muntin.panes.table import Layout, PaneTable, compacted, merge, merged_keys

WORTHWHILE = 1 / 8
"""Chunks are split when at least this share of the uncompressed tuples is of idle keys, or a key was idle for 2 D."""
MOST_TUPLES = 1 << 20
"""The maximal number of tuples of a chunk of idle keys."""


class KeyAging(ShardFeature):
    """The chunks of one shard, in one batch."""

    def __init__(self, policy: Compression) -> None:
        self._policy = policy

    def prune(self, batch: ShardBatch) -> None:
        after = self._policy.after
        assert batch.left is not None
        if after is None:
            return
        chunks, layout = batch.chunks, batch.plan.layout
        finalized = batch.now.finalized
        uncompressed = Uncompressed(layout, chunks, _waiting(layout, batch.left, finalized))
        until = finalized - after
        if uncompressed.is_worthwhile(until, until - after):
            self._add(layout, chunks, uncompressed.split(until))
        self._fold(chunks)
        self._drop_useless(batch)

    def _add(self, layout: Layout, chunks: ChunkStore, parts: Sequence[PaneTable]) -> None:
        """Write the tuples of idle keys, compressed."""
        table = merge(layout, parts)
        assert table.tuples is not None
        tuples = table.tuples.in_order()
        for first in range(0, len(tuples), MOST_TUPLES):
            piece = np.arange(first, min(first + MOST_TUPLES, len(tuples)))
            chunks.put(PaneTable(table.keys, table.leaves, {}, tuples.take(piece)), self._policy.make_codec())

    def _fold(self, chunks: ChunkStore) -> None:
        """Fold compressed chunks of about the same size while there are `FANOUT` of them, so that they stay few."""
        while True:
            by_size: dict[int, list[Chunk]] = {}
            for chunk in chunks.chunks:
                if chunk.compressed and chunk.tier is None and chunk.tuples < store.LARGE:
                    by_size.setdefault(int(math.log(chunk.tuples, store.FANOUT)), []).append(chunk)
            full = next((alike for alike in by_size.values() if len(alike) >= store.FANOUT), None)
            if full is None:
                return
            chunks.rewrite(full, tier=None, codec=self._policy.make_codec())

    def _drop_useless(self, batch: ShardBatch) -> None:
        """Rewrite compressed chunks when no window needs the first half of their time.

        A chunk of idle keys is as long as their tuples go back. Rewriting it halves its time at least, so it is
        rewritten a logarithmic number of times.
        """
        chunks, length = batch.chunks, batch.plan.chunk_length
        long = [c for c in chunks.chunks if c.compressed and length is not None and c.last - c.first >= length]
        if not long:
            return
        assert batch.left is not None
        needed = NeededTuples(batch.plan.layout, batch.plan.operators, batch.left, batch.now)
        first = np.array([chunk.first for chunk in long])
        middle = np.array([chunk.first + (chunk.last - chunk.first) // 2 for chunk in long])
        for chunk, is_needed in zip(long, needed.at(first) | needed.at(middle), strict=True):
            if not is_needed:
                chunks.rewrite([chunk], chunk.tier, needed.of, self._policy.make_codec())


class Uncompressed:
    """The uncompressed chunks of a shard, and when each of their keys was last updated."""

    def __init__(self, layout: Layout, chunks: ChunkStore, waiting: PaneTable) -> None:
        """`waiting` has the finalized tuples that are not in chunks yet: they update their keys, too."""
        self._chunks = chunks
        self._own = chunks.uncompressed()
        self._tables = [chunks.open(chunk) for chunk in self._own]
        keys, (waiting_codes, *self._codes) = merged_keys(layout, [waiting, *self._tables])
        self._last = np.full(keys.num_rows, ALWAYS, dtype=np.int64)
        """The last update of every key."""
        self._has_chunk = np.zeros(keys.num_rows, dtype=bool)
        for table, codes in zip(self._tables, self._codes, strict=True):
            key, time = _last_of_keys(table)
            np.maximum.at(self._last, codes[key], time)
            self._has_chunk[codes[key]] = True
        assert waiting.tuples is not None
        np.maximum.at(self._last, waiting_codes[waiting.tuples.key], waiting.tuples.time)

    def is_worthwhile(self, until: int, long_ago: int) -> bool:
        """Whether to split chunks by the keys that were last updated at or before `until`.

        Splitting rewrites chunks. So a few idle keys wait for others, but not if a key was last updated `long_ago`:
        then the next key is at least D away from being that old.
        """
        last = self._last[self._has_chunk]
        if not len(last) or int(last.min()) > until:
            return False
        idle = sum(int(mask.sum()) for mask in self._idle(until))
        return bool(last.min() <= long_ago or idle >= WORTHWHILE * sum(chunk.tuples for chunk in self._own))

    def split(self, until: int) -> list[PaneTable]:
        """Take the tuples of keys that were last updated at or before `until` out of their chunks."""
        parts = []
        for chunk, table, is_idle in zip(self._own, self._tables, self._idle(until), strict=True):
            if is_idle.any():
                parts.append(table.only(is_idle))
                self._chunks.replace([chunk], table.only(~is_idle), chunk.tier)
        return parts

    def _idle(self, until: int) -> list[BoolArray]:
        """The tuples of such keys, chunk by chunk."""
        is_idle = self._last <= until
        return [
            is_idle[codes][table.tuples.key]
            for table, codes in zip(self._tables, self._codes, strict=True)
            if table.tuples is not None
        ]


def _waiting(layout: Layout, left: PaneTable, finalized: int) -> PaneTable:
    """The tuples that are finalized and wait for their chunk to be complete, and their keys alone."""
    assert left.tuples is not None
    no_leaves = tuple(leaf_set.empty() for leaf_set in layout.leaf_sets)
    tuples = left.tuples.take(left.tuples.time < finalized)
    return compacted(layout, PaneTable(left.keys, no_leaves, {}, tuples), slack=0)


def _last_of_keys(table: PaneTable) -> tuple[Int64Array, Int64Array]:
    """The keys of a chunk, and the time of the last tuple of each. Chunks are in order."""
    assert table.tuples is not None
    key, time = table.tuples.key, table.tuples.time
    last = np.append(run_starts(key)[1:], len(key)) - 1
    return key[last], time[last]
