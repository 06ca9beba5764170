"""Mergeable bottom-k samples of the tuples of a shard, for all windows of an operator at once.

A tuple is dropped as soon as no open window can have it in its sample: once every open window that contains it also
contains k tuples with smaller priorities. Two rules find such tuples.

- *Panes*: every window over a pane contains the whole pane, so the k smallest of each pane are enough.
- *Later tuples* (Babcock, Datar and Motwani, 2002): a window that is still open contains all tuples from this one until
  now. On average k·(1 + ln(n/k)) of a window's n tuples are kept.

If groups share a budget, k changes as they grow and shrink. The sample of a window is limited by the smallest k with
which one of its tuples was dropped; `Cuts` stores these limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from muntin.arrays import (
    BoolArray,
    Int64Array,
    UInt64Array,
    all_true,
    any_true,
    expand,
    positions_in_runs,
    run_numbers,
    run_starts,
    stable_order,
)
from muntin.engine.operators.leaf_index import LeafIndex
from muntin.panes.tuples import Tuples, by_key_and_time
from muntin.partials.values import taken
from muntin.tree.wavelet import WaveletMatrix

EVERYTHING = 1 << 40
"""More tuples than any sample has."""


@dataclass(frozen=True)
class Cuts:
    """The limits of samples: per key, positions up to which tuples were dropped, and the k kept, ascending."""

    key: Int64Array
    position: Int64Array
    kept: Int64Array

    @classmethod
    def none(cls) -> Cuts:
        return cls(*(np.zeros(0, dtype=np.int64) for _ in range(3)))

    def __len__(self) -> int:
        return len(self.key)

    def plus(self, key: Int64Array, position: Int64Array, kept: Int64Array) -> Cuts:
        if not len(key):
            return self
        key, position, kept = (
            np.concatenate(parts) for parts in ((self.key, key), (self.position, position), (self.kept, kept))
        )
        order = np.lexsort((-kept, position, key))
        key, position, kept = key[order], position[order], kept[order]
        # A cut is redundant if another one of its key, at its position or after, kept no more.
        least_behind = _least_behind(key, kept)
        needed = kept < least_behind
        return Cuts(key[needed], position[needed], kept[needed])

    def take(self, selected: BoolArray) -> Cuts:
        return Cuts(self.key[selected], self.position[selected], self.kept[selected])

    def limits(self, key: Int64Array, begin: Int64Array) -> Int64Array:
        """The largest sample of each window that contains the tuples of its key from a position on."""
        if not len(self):
            return np.full(len(key), EVERYTHING)
        row = LeafIndex(self.key, self.position).first(key, begin)
        existing = np.minimum(row, len(self) - 1)
        return np.where((row < len(self)) & (self.key[existing] == key), self.kept[existing], EVERYTHING)


def _least_behind(key: Int64Array, kept: Int64Array) -> Int64Array:
    """For each cut, the least k of the cuts of its key after it."""
    starts = run_starts(key)
    # Earlier keys have the smaller stacked values, so a single sweep from the end serves all keys.
    distinct, rank = np.unique(kept, return_inverse=True)
    run = run_numbers(starts, len(key))
    stacked = run * (len(distinct) + 1) + rank
    least = np.minimum.accumulate(stacked[::-1])[::-1]
    least_after = np.append(least[1:], np.iinfo(np.int64).max)
    is_last = np.append(run[1:] != run[:-1], True)
    value = distinct[np.clip(least_after - run * (len(distinct) + 1), 0, len(distinct) - 1)]
    return np.where(is_last, EVERYTHING, value)


@dataclass(frozen=True)
class Samples:
    """Sampled tuples, sorted by key and position: the time of a tuple, or its number if tuples are numbered."""

    key: Int64Array
    position: Int64Array
    priority: UInt64Array
    columns: pa.RecordBatch
    cuts: Cuts
    distinct: bool = False
    """Whether the distinct values of a column are sampled; then a tuple represents its value."""

    @classmethod
    def none(cls, schema: pa.Schema, distinct: bool = False) -> Samples:
        empty = np.zeros(0, dtype=np.int64)
        columns = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
        return cls(empty, empty, empty.view(np.uint64), columns, Cuts.none(), distinct)

    def __len__(self) -> int:
        return len(self.key)

    @property
    def nbytes(self) -> int:
        cuts = self.cuts
        arrays = (self.key, self.position, self.priority, cuts.key, cuts.position, cuts.kept)
        return sum(array.nbytes for array in arrays) + int(self.columns.nbytes)

    def take(self, selected: Int64Array | BoolArray) -> Samples:
        indices: Int64Array = (
            np.flatnonzero(selected) if selected.dtype == bool else selected.astype(np.int64, copy=False)
        )
        columns = taken(self.columns, indices)
        return Samples(
            self.key[indices], self.position[indices], self.priority[indices], columns, self.cuts, self.distinct
        )

    def recoded(self, codes: Int64Array) -> Samples:
        """The same with `codes[key]` for every key; a code below 0 marks a removed key."""
        if np.array_equal(codes, np.arange(len(codes))):
            return self
        cuts = Cuts(codes[self.cuts.key], self.cuts.position, self.cuts.kept)
        moved = Samples(codes[self.key], self.position, self.priority, self.columns, cuts, self.distinct)
        order = np.lexsort((cuts.position, cuts.key))
        cuts = Cuts(cuts.key[order], cuts.position[order], cuts.kept[order])
        kept = moved.key >= 0
        moved = moved if all_true(kept) else moved.take(kept)
        return moved.with_cuts(cuts.take(cuts.key >= 0))._in_order()

    def plus(self, other: Samples) -> Samples:
        """The tuples of both, with the cuts of this one."""
        if not len(other):
            return self
        if not len(self):
            return other.with_cuts(self.cuts)
        columns = [pa.concat_arrays([a, b]) for a, b in zip(self.columns.columns, other.columns.columns, strict=True)]
        return Samples(
            np.concatenate([self.key, other.key]),
            np.concatenate([self.position, other.position]),
            np.concatenate([self.priority, other.priority]),
            pa.RecordBatch.from_arrays(columns, schema=self.columns.schema),
            self.cuts,
            self.distinct,
        )._in_order()

    def best_of_panes(self, pane: Int64Array, kept: Int64Array, touched: BoolArray | None = None) -> Samples:
        """The `kept[key]` tuples with the smallest priorities of every pane and key.

        `pane` has the pane of each tuple, ascending within a key. Only panes of `touched` tuples are examined.
        """
        starts = run_starts(self.key, pane)
        lengths = np.diff(starts, append=len(self))
        too_large = (lengths > kept[self.key[starts]]) | self.distinct
        if touched is not None and len(starts):
            too_large &= touched[starts]
        if not any_true(too_large):
            return self
        # Only panes with too many tuples are sorted; most were reduced before.
        order = np.flatnonzero(np.repeat(too_large, lengths))
        order = order[stable_order(self.priority[order], pane[order], self.key[order])]
        needed, dropped = np.ones(len(self), dtype=bool), np.zeros(len(self), dtype=bool)
        needed[order] = False
        if self.distinct:
            order = order[self._first_of_equals(order, self.key, pane)]
        place = positions_in_runs(run_starts(self.key[order], pane[order]), len(order))
        needed[order] = place < kept[self.key[order]]
        dropped[order] = ~needed[order]
        return self._without(needed, dropped, kept)

    def _first_of_equals(self, order: Int64Array, *runs: Int64Array) -> BoolArray:
        """Which tuples are the first of their run with their priority."""
        first = np.zeros(len(order), dtype=bool)
        first[run_starts(*(run[order] for run in runs), self.priority[order])] = True
        return first

    def best_of_later(self, before: int, kept: Int64Array) -> Samples:
        """Without the tuples that `kept[key]` smaller ones follow, before a position that all open windows include."""
        if not len(self):
            return self
        samples = self._latest_of_equals(before) if self.distinct else self
        row, end = np.arange(len(samples)), samples._end_of_key(before)
        smaller = samples._surely_smaller(end)
        uncounted = np.flatnonzero((smaller < kept[samples.key]) & (row + 1 < end))
        # The k smallest tuples after any other are never dropped, so counting among the remaining ones is exact.
        remaining = np.flatnonzero(smaller < kept[samples.key])
        rank = np.empty(len(remaining), dtype=np.int64)
        rank[np.argsort(samples.priority[remaining], kind="stable")] = np.arange(len(remaining))
        first, last = np.searchsorted(remaining, uncounted + 1), np.searchsorted(remaining, end[uncounted])
        if len(uncounted):
            smaller[uncounted] = WaveletMatrix(rank, len(remaining)).below(
                first, last, rank[np.searchsorted(remaining, uncounted)]
            )
        needed = smaller < kept[samples.key]
        return samples._without(needed, ~needed, kept)

    def _end_of_key(self, before: int) -> Int64Array:
        """For every tuple, the index after the last tuple of its key that lies before a position."""
        starts = run_starts(self.key)
        finalized = np.add.reduceat((self.position < before).astype(np.int64), starts)
        return np.repeat(starts + finalized, np.diff(starts, append=len(self)))

    def _surely_smaller(self, end: Int64Array) -> Int64Array:
        """For every tuple, a lower bound of the number of smaller priorities between it and `end`.

        A binary search counts the priorities below the largest power of two that is not above its own.
        """
        smaller = np.zeros(len(self), dtype=np.int64)
        level = _level_of(self.priority)
        for number in range(1, int(level.max(initial=0)) + 1):
            rows = np.flatnonzero(level == number)
            below = self._below(number)
            counts = np.searchsorted(below, end[rows]) - np.searchsorted(below, rows, side="right")
            smaller[rows] = np.maximum(counts, 0)
        return smaller

    def _below(self, level: int) -> Int64Array:
        """The tuples with a priority below 2^(64 - level): every level halves them."""
        return np.flatnonzero(self.priority >> np.uint64(64 - level) == 0) if level else np.arange(len(self))

    def _latest_of_equals(self, before: int) -> Samples:
        """The last of equal values (equal priorities) before a position, and all tuples after the position."""
        early = np.flatnonzero(self.position < before)
        order = early[stable_order(-self.position[early], self.priority[early], self.key[early])]
        needed = self.position >= before
        needed[order[self._first_of_equals(order, self.key)]] = True
        return self if all_true(needed) else self.take(needed)

    def without_panes(self, full: BoolArray) -> Samples:
        """Without these tuples. Their panes have more groups than the budget has tuples, so windows have no sample."""
        return self._without(~full, full, np.zeros(int(self.key.max(initial=-1)) + 1, dtype=np.int64))

    def given_up(self) -> Samples:
        """None of the tuples: windows that contain one are answered exactly."""
        key = np.concatenate([self.key, self.cuts.key])
        position = np.concatenate([self.position, self.cuts.position])
        cuts = Cuts.none().plus(key, position, np.zeros(len(key), dtype=np.int64))
        return self.take(np.zeros(len(self), dtype=bool)).with_cuts(cuts)

    def only(self, needed: BoolArray, cuts: BoolArray) -> Samples:
        """Only the tuples and the cuts that open windows may need."""
        samples = self if all_true(needed) else self.take(needed)
        return samples if all_true(cuts) else samples.with_cuts(self.cuts.take(cuts))

    def _without(self, needed: BoolArray, dropped: BoolArray, kept: Int64Array) -> Samples:
        if not any_true(dropped):
            return self if all_true(needed) else self.take(needed)
        key, position = self.key[dropped], self.position[dropped]
        last = np.append(run_starts(key)[1:], len(key)) - 1
        cuts = self.cuts.plus(key[last], position[last], kept[key[last]])
        return self.take(needed).with_cuts(cuts)

    def with_cuts(self, cuts: Cuts) -> Samples:
        return Samples(self.key, self.position, self.priority, self.columns, cuts, self.distinct)

    def _in_order(self) -> Samples:
        order = by_key_and_time(self.key, self.position)
        return self if np.all(order[1:] > order[:-1]) else self.take(order)

    def windows(self, key: Int64Array, begin: Int64Array, end: Int64Array, most: Int64Array) -> WindowSamples:
        """The sample of every window: up to `most` tuples of its key in `[begin, end)`.

        `most` must not exceed the limits of the cuts.
        """
        first, last = LeafIndex(self.key, self.position).ranges(key, begin, end)
        if len(key) == 1 and not self.distinct:
            rows = self._smallest_of_one(int(first[0]), int(last[0]), int(most[0]))
            return WindowSamples(self, rows, np.zeros(len(rows), dtype=np.int64), most)
        length = last - first
        large = np.flatnonzero(length > 4 * most + 64)
        if not len(large):
            return WindowSamples(self, *self._smallest(first, length, most), most)
        level = np.zeros(len(key), dtype=np.int64)
        level[large] = np.log2(length[large] / (2 * most[large] + 32)).astype(np.int64)
        parts: list[tuple[Int64Array, Int64Array]] = []
        # In large windows only tuples with small priorities are examined; if these are too few, the next level is.
        for number in range(int(level.max(initial=0)), -1, -1):
            current = np.flatnonzero(level == number)
            if not len(current):
                continue
            candidates = self._below(number)
            begin, end = np.searchsorted(candidates, first[current]), np.searchsorted(candidates, last[current])
            rows, window = self._smallest(begin, end - begin, most[current], candidates)
            window = current[window]
            counts = np.bincount(window, minlength=len(key))[current]
            retried = current[counts < most[current]] if number else current[:0]
            level[retried] = number - 1
            if len(retried):
                is_final = ~np.isin(window, retried)
                rows, window = rows[is_final], window[is_final]
            parts.append((rows, window))
        if len(parts) == 1:
            return WindowSamples(self, *parts[0], most)
        rows, window = (np.concatenate([part[i] for part in parts] or [np.zeros(0, dtype=np.int64)]) for i in (0, 1))
        order = np.argsort(window, kind="stable")
        return WindowSamples(self, rows[order], window[order], most)

    def _smallest_of_one(self, first: int, last: int, most: int) -> Int64Array:
        """The tuples of one window with the smallest priorities: a partition, which need not sort the others."""
        if last - first <= most:
            return np.arange(first, last)
        priority = self.priority[first:last]
        smallest = np.argpartition(priority, most)[:most]
        return np.asarray(first + smallest[stable_order(priority[smallest])])

    def _smallest(
        self, first: Int64Array, length: Int64Array, most: Int64Array, candidates: Int64Array | None = None
    ) -> tuple[Int64Array, Int64Array]:
        """The tuples of each window with the smallest priorities, and the window of each tuple.

        A window is a first index and a length, among all tuples or among the `candidates`.
        """
        position, window = expand(first, length)
        rows = position if candidates is None else candidates[position]
        is_complete = length <= most
        if not self.distinct and all_true(is_complete):
            return rows, window
        rank = position - first[window]  # stays valid, as each window is sorted on its own
        priority = self.priority[rows]
        # A complete sample stays in order whatever the other windows are, so that ties do not depend on them.
        rows = rows[
            stable_order(priority if self.distinct else np.where(is_complete[window], np.uint64(0), priority), window)
        ]
        if self.distinct:
            distinct = run_starts(window, self.priority[rows])
            rows, window = rows[distinct], window[distinct]
            rank = positions_in_runs(run_starts(window), len(window))
        selected = np.flatnonzero(rank < most[window])
        return rows[selected], window[selected]


def _level_of(priority: UInt64Array) -> Int64Array:
    """The least l for which 2^(64 - l) is not above the priority; 0 if there is none."""
    high = (priority >> np.uint64(32)).astype(np.int64)
    low = (priority & np.uint64(0xFFFFFFFF)).astype(np.int64)
    # Exact for integers below 2 to the power of 53.
    _, exponent = np.frexp(np.where(high > 0, high, low).astype(np.float64))
    return np.where(priority > 0, np.where(high > 0, 33 - exponent, 65 - exponent), 0)


@dataclass(frozen=True)
class WindowSamples:
    """Samples of windows, window by window."""

    samples: Samples
    rows: Int64Array
    """The sampled tuples; sorted by priority if some did not fit."""
    window: Int64Array
    """The window of each."""
    most: Int64Array
    """The sample size that was allowed for each window."""

    @cached_property
    def sizes(self) -> Int64Array:
        return np.bincount(self.window, minlength=len(self.most))

    def tuples(self) -> tuple[Tuples, Int64Array, Int64Array]:
        """The tuples, with windows as keys, and where each window begins and ends among them."""
        ends = self.sizes.cumsum()
        columns = taken(self.samples.columns, self.rows)
        return Tuples(self.window, self.samples.position[self.rows], columns), ends - self.sizes, ends

    def largest_priority(self) -> UInt64Array:
        """The largest priority in each window's sample; 0 if it is empty."""
        largest = np.zeros(len(self.most), dtype=np.uint64)
        np.maximum.at(largest, self.window, self.samples.priority[self.rows])
        return largest
