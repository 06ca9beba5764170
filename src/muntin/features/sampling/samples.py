"""Mergeable bottom-k samples of the tuples of a shard, for all windows of a operator at once.

A tuple is given up as soon as no open window can have it in its sample: that is, once k tuples with smaller priorities
are in every open window that the tuple is in. Two rules find them.

- *Panes*: all windows over a pane hold all of it, so of each pane the k smallest are enough.
- *Later tuples* (Babcock, Datar and Motwani, 2002): a window that is still open when time has come this far holds
  everything between the tuple and now. In the long run k·(1 + ln(n/k)) of a window's n tuples are kept.

Where groups share a budget, k changes as they grow and shrink. A window's sample can be no larger than the smallest k
by which one of its tuples was given up: `Cuts` remembers that.
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
)
from muntin.engine.operators.leaf_index import LeafIndex
from muntin.panes.tuples import Tuples, by_key_and_time
from muntin.partials.values import taken
from muntin.tree.wavelet import WaveletMatrix

EVERYTHING = 1 << 40
"""More than any sample has."""


@dataclass(frozen=True)
class Cuts:
    """Per key, up to where tuples were given up and what was kept then; later ones kept more, key by key."""

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
        # One is of no account if another of its key, at the same place or behind it, kept no more.
        least_behind = _least_behind(key, kept)
        needed = kept < least_behind
        return Cuts(key[needed], position[needed], kept[needed])

    def take(self, chosen: BoolArray) -> Cuts:
        return Cuts(self.key[chosen], self.position[chosen], self.kept[chosen])

    def limits(self, key: Int64Array, begin: Int64Array) -> Int64Array:
        """How large a sample of each window can be that holds the tuples of its key from a position on."""
        if not len(self):
            return np.full(len(key), EVERYTHING)
        at = LeafIndex(self.key, self.position).first(key, begin)
        found = np.minimum(at, len(self) - 1)
        return np.where((at < len(self)) & (self.key[found] == key), self.kept[found], EVERYTHING)


def _least_behind(key: Int64Array, kept: Int64Array) -> Int64Array:
    """For each, the least that is kept by those of its key behind it."""
    starts = run_starts(key)
    # Keys that come first get the larger values when read from the end, so that one sweep serves all keys.
    distinct, rank = np.unique(kept, return_inverse=True)
    run = run_numbers(starts, len(key))
    stacked = run * (len(distinct) + 1) + rank
    least = np.minimum.accumulate(stacked[::-1])[::-1]
    behind = np.append(least[1:], np.iinfo(np.int64).max)
    last = np.append(run[1:] != run[:-1], True)
    value = distinct[np.clip(behind - run * (len(distinct) + 1), 0, len(distinct) - 1)]
    return np.where(last, EVERYTHING, value)


@dataclass(frozen=True)
class Samples:
    """Sorted by key and position: the time of a tuple, or its number where tuples are numbered."""

    key: Int64Array
    position: Int64Array
    priority: UInt64Array
    columns: pa.RecordBatch
    cuts: Cuts
    distinct: bool = False
    """Whether it samples the distinct values of a column, and a tuple stands for its value."""

    @classmethod
    def none(cls, schema: pa.Schema, distinct: bool = False) -> Samples:
        nothing = np.zeros(0, dtype=np.int64)
        columns = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
        return cls(nothing, nothing, nothing.view(np.uint64), columns, Cuts.none(), distinct)

    def __len__(self) -> int:
        return len(self.key)

    @property
    def nbytes(self) -> int:
        cuts = self.cuts
        held = (self.key, self.position, self.priority, cuts.key, cuts.position, cuts.kept)
        return sum(each.nbytes for each in held) + int(self.columns.nbytes)

    def take(self, chosen: Int64Array | BoolArray) -> Samples:
        indices: Int64Array = np.flatnonzero(chosen) if chosen.dtype == bool else chosen.astype(np.int64, copy=False)
        columns = taken(self.columns, indices)
        return Samples(
            self.key[indices], self.position[indices], self.priority[indices], columns, self.cuts, self.distinct
        )

    def recoded(self, codes: Int64Array) -> Samples:
        """The same, with `codes[key]` for every key; codes below 0 are of keys that are gone."""
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
        """Both together, with the cuts of this one."""
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
        """Of every pane of a key the tuples with the smallest priorities, `kept[key]` of them.

        `pane` says which pane each tuple is in; it grows along the tuples of a key. Only the panes of tuples that are
        `touched` are looked at.
        """
        starts = run_starts(self.key, pane)
        lengths = np.diff(starts, append=len(self))
        asked = (lengths > kept[self.key[starts]]) | self.distinct
        if touched is not None and len(starts):
            asked &= touched[starts]
        if not any_true(asked):
            return self
        # Only panes that have too many tuples need sorting; most have been through this before.
        order = np.flatnonzero(np.repeat(asked, lengths))
        order = order[np.lexsort((self.priority[order], pane[order], self.key[order]))]
        needed, dropped = np.ones(len(self), dtype=bool), np.zeros(len(self), dtype=bool)
        needed[order] = False
        if self.distinct:
            order = order[self._first_of_equals(order, self.key, pane)]
        place = positions_in_runs(run_starts(self.key[order], pane[order]), len(order))
        needed[order] = place < kept[self.key[order]]
        dropped[order] = ~needed[order]
        return self._without(needed, dropped, kept)

    def _first_of_equals(self, order: Int64Array, *runs: Int64Array) -> BoolArray:
        """Of tuples with the same priority in a run, the first."""
        first = np.zeros(len(order), dtype=bool)
        first[run_starts(*(each[order] for each in runs), self.priority[order])] = True
        return first

    def best_of_later(self, before: int, kept: Int64Array) -> Samples:
        """Without tuples that have `kept[key]` smaller ones behind them, before what all open windows reach to."""
        if not len(self):
            return self
        samples = self._latest_of_equals(before) if self.distinct else self
        at, end = np.arange(len(samples)), samples._end_of_key(before)
        smaller = samples._surely_smaller(end)
        asked = np.flatnonzero((smaller < kept[samples.key]) & (at + 1 < end))
        # The k smallest tuples behind any other are never given up: to count among what is left is to count them all.
        left = np.flatnonzero(smaller < kept[samples.key])
        rank = np.empty(len(left), dtype=np.int64)
        rank[np.argsort(samples.priority[left], kind="stable")] = np.arange(len(left))
        first, last = np.searchsorted(left, asked + 1), np.searchsorted(left, end[asked])
        if len(asked):
            smaller[asked] = WaveletMatrix(rank, len(left)).below(first, last, rank[np.searchsorted(left, asked)])
        needed = smaller < kept[samples.key]
        return samples._without(needed, ~needed, kept)

    def _end_of_key(self, before: int) -> Int64Array:
        """For every tuple, the index behind the last one of its key before a position."""
        starts = run_starts(self.key)
        finalized = np.add.reduceat((self.position < before).astype(np.int64), starts)
        return np.repeat(starts + finalized, np.diff(starts, append=len(self)))

    def _surely_smaller(self, end: Int64Array) -> Int64Array:
        """For every tuple, at least how many behind it, before `end`, have smaller priorities.

        Of those with a priority below the power of two that its own is not below, a binary search tells how many.
        """
        found = np.zeros(len(self), dtype=np.int64)
        level = _level_of(self.priority)
        for number in range(1, int(level.max(initial=0)) + 1):
            asked = np.flatnonzero(level == number)
            below = self._below(number)
            counts = np.searchsorted(below, end[asked]) - np.searchsorted(below, asked, side="right")
            found[asked] = np.maximum(counts, 0)
        return found

    def _below(self, level: int) -> Int64Array:
        """The tuples with a priority below 2 to the power of 64 less the level: half as many at each."""
        return np.flatnonzero(self.priority >> np.uint64(64 - level) == 0) if level else np.arange(len(self))

    def _latest_of_equals(self, before: int) -> Samples:
        """Of equal values, which have equal priorities, the last one before a position, and all behind that."""
        old = np.flatnonzero(self.position < before)
        order = old[np.lexsort((-self.position[old], self.priority[old], self.key[old]))]
        needed = self.position >= before
        needed[order[self._first_of_equals(order, self.key)]] = True
        return self if all_true(needed) else self.take(needed)

    def without_panes(self, full: BoolArray) -> Samples:
        """Without these tuples, whose panes have more groups than the budget: their windows have no sample."""
        return self._without(~full, full, np.zeros(int(self.key.max(initial=-1)) + 1, dtype=np.int64))

    def only(self, needed: BoolArray, cuts: BoolArray) -> Samples:
        """These tuples and these cuts: those that some open window may hold."""
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
        """The sample of every window: of the tuples of its key in `[begin, end)`, up to `most` of them.

        That is no more than the limit by which tuples were given up.
        """
        first, last = LeafIndex(self.key, self.position).ranges(key, begin, end)
        if len(key) == 1 and not self.distinct:
            at = self._smallest_of_one(int(first[0]), int(last[0]), int(most[0]))
            return WindowSamples(self, at, np.zeros(len(at), dtype=np.int64), most)
        length = last - first
        many = np.flatnonzero(length > 4 * most + 64)
        if not len(many):
            return WindowSamples(self, *self._smallest(first, length, most), most)
        level = np.zeros(len(key), dtype=np.int64)
        level[many] = np.log2(length[many] / (2 * most[many] + 32)).astype(np.int64)
        found: list[tuple[Int64Array, Int64Array]] = []
        # Of many tuples only those with small priorities are looked at, and all of them where that turns out too few.
        for number in range(int(level.max(initial=0)), -1, -1):
            asked = np.flatnonzero(level == number)
            if not len(asked):
                continue
            among = self._below(number)
            begin, end = np.searchsorted(among, first[asked]), np.searchsorted(among, last[asked])
            at, window = self._smallest(begin, end - begin, most[asked], among)
            window = asked[window]
            counts = np.bincount(window, minlength=len(key))[asked]
            few = asked[counts < most[asked]] if number else asked[:0]
            level[few] = number - 1
            if len(few):
                right = ~np.isin(window, few)
                at, window = at[right], window[right]
            found.append((at, window))
        if len(found) == 1:
            return WindowSamples(self, *found[0], most)
        at, window = (np.concatenate([each[i] for each in found] or [np.zeros(0, dtype=np.int64)]) for i in (0, 1))
        order = np.argsort(window, kind="stable")
        return WindowSamples(self, at[order], window[order], most)

    def _smallest_of_one(self, first: int, last: int, most: int) -> Int64Array:
        """Of one window the tuples with the smallest priorities: what is left out need not be in order."""
        if last - first <= most:
            return np.arange(first, last)
        priority = self.priority[first:last]
        chosen = np.argpartition(priority, most)[:most]
        return np.asarray(first + chosen[np.lexsort((priority[chosen],))])

    def _smallest(
        self, first: Int64Array, length: Int64Array, most: Int64Array, among: Int64Array | None = None
    ) -> tuple[Int64Array, Int64Array]:
        """Of each of some windows the tuples with the smallest priorities, and the window of each.

        A window is so many tuples from its first on, of all or `among` some of them.
        """
        place, window = expand(first, length)
        at = place if among is None else among[place]
        whole = length <= most
        if not self.distinct and all_true(whole):
            return at, window
        rank = place - first[window]  # which stays as it is, for each window is sorted for itself
        priority = self.priority[at]
        # A sample that is all there is stays in order, whatever other windows there are: so are equal values.
        at = at[np.lexsort((priority if self.distinct else np.where(whole[window], 0, priority), window))]
        if self.distinct:
            fresh = run_starts(window, self.priority[at])
            at, window = at[fresh], window[fresh]
            rank = positions_in_runs(run_starts(window), len(window))
        chosen = np.flatnonzero(rank < most[window])
        return at[chosen], window[chosen]


def _level_of(priority: UInt64Array) -> Int64Array:
    """The least number l for which 2 to the power of 64 - l is not above the priority; 0 if there is none."""
    high = (priority >> np.uint64(32)).astype(np.int64)
    low = (priority & np.uint64(0xFFFFFFFF)).astype(np.int64)
    # Exact for integers below 2 to the power of 53.
    _, exponent = np.frexp(np.where(high > 0, high, low).astype(np.float64))
    return np.where(priority > 0, np.where(high > 0, 33 - exponent, 65 - exponent), 0)


@dataclass(frozen=True)
class WindowSamples:
    """Samples of windows, window by window."""

    samples: Samples
    at: Int64Array
    """The sampled tuples; where there were more than fit, from the smallest priority to the largest."""
    window: Int64Array
    """The window of each."""
    most: Int64Array
    """How large the sample of each window could have been."""

    @cached_property
    def sizes(self) -> Int64Array:
        return np.bincount(self.window, minlength=len(self.most))

    def tuples(self) -> tuple[Tuples, Int64Array, Int64Array]:
        """The tuples, with windows for keys, and where those of each window begin and end."""
        ends = self.sizes.cumsum()
        columns = taken(self.samples.columns, self.at)
        return Tuples(self.window, self.samples.position[self.at], columns), ends - self.sizes, ends

    def largest_priority(self) -> UInt64Array:
        """Of each window's sample; 0 if it is empty."""
        found = np.zeros(len(self.most), dtype=np.uint64)
        np.maximum.at(found, self.window, self.samples.priority[self.at])
        return found
