"""The (key, pane) pairs of a batch of tuples, numbered: the groups that its tuples are reduced by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muntin.arrays import Int64Array, Runs, count_true, numbered, run_starts
from muntin.panes.grid import PaneGrid
from muntin.partials.groups import sizes

DENSE_GROUPS = 1 << 16
"""All (key, pane) pairs are numbered up to this many, or up to one per tuple; else only those that occur."""
_ROWS_PER_PANE = 16
"""From this average on, the first tuple of each pane is searched in sorted times."""
_SAMPLE = 1024


class Panes:
    """The panes of a batch of tuples, and its (key, pane) pairs."""

    def __init__(self, grid: PaneGrid, times: Int64Array, codes: Int64Array, key_count: int) -> None:
        """`codes` are the keys of the tuples, in `range(key_count)`. They are not read if there is only one key."""
        self._grid = grid
        self._uneven: Int64Array | None = None
        """The starts of uneven panes."""
        if grid.is_uneven:
            self._uneven = grid.starts_of(times)
            self.pairs = self._pairs(times, codes, key_count, len(self._uneven))
            return
        least, greatest = int(times.min()), int(times.max())
        self._first, last = ((edge - grid.offset) // grid.length for edge in (least, greatest))
        self.pairs = self._pairs(times, codes, key_count, last - self._first + 1)

    def _pairs(self, times: Int64Array, codes: Int64Array, key_count: int, pane_count: int) -> Pairs:
        if pane_count == 1:
            only = np.zeros(1, dtype=np.int64)
            return Pairs(Runs.of(only, len(times)), 1, 1) if key_count == 1 else Pairs.of(codes, key_count, None, 1)
        if key_count == 1 and is_in_order(times):
            return self._in_order(times, pane_count)
        return Pairs.of(codes, key_count, self._index(times), pane_count)

    def _index(self, times: Int64Array) -> Int64Array:
        """The pane of each tuple, counted from the first one of the batch."""
        if self._uneven is not None:
            return np.searchsorted(self._uneven, times, side="right") - 1
        # Distances from the first pane are never negative and below 2**64, even between the least and greatest times.
        distance = times.view(np.uint64) - np.uint64((self._first * self._grid.length + self._grid.offset) % (1 << 64))
        distance //= np.uint64(self._grid.length)
        return distance.view(np.int64)

    def _in_order(self, times: Int64Array, pane_count: int) -> Pairs:
        """The pairs of sorted tuples of one key: each pane is a run."""
        if pane_count * _ROWS_PER_PANE > len(times):
            index = self._index(times)
            starts = run_starts(index)
            return Pairs(Runs.of(starts, len(times)), len(starts), pane_count, index[starts])
        edges = self._starts(np.arange(1, pane_count))
        starts = np.concatenate([[0], np.searchsorted(times, edges)])
        occurs = np.flatnonzero(np.diff(starts, append=len(times)))
        return Pairs(Runs.of(starts[occurs], len(times)), len(occurs), pane_count, occurs)

    def key_and_start(self, groups: Int64Array | None = None) -> tuple[Int64Array, Int64Array]:
        """The key of some pairs, or of all, and the start of the pane."""
        key, pane = self.pairs.key_and_pane(groups)
        return key, self._starts(pane)

    def _starts(self, panes: Int64Array) -> Int64Array:
        if self._uneven is not None:
            return self._uneven[panes]
        return (panes + self._first) * self._grid.length + self._grid.offset

    @property
    def of_groups(self) -> Int64Array:
        """The pane of each pair."""
        return self.pairs.key_and_pane()[1]


def is_in_order(times: Int64Array) -> bool:
    """Whether times never decrease. Most batches that do show it early."""
    first = times[:_SAMPLE]
    return bool((first[1:] >= first[:-1]).all() and (times[1:] >= times[:-1]).all())


@dataclass
class Pairs:
    """The (key, pane) pairs of a batch, numbered in their order: all of them if they are few, else those that occur."""

    members: Int64Array | Runs
    """The number of each tuple's pair, or the run of tuples of each pair."""
    count: int
    pane_count: int
    occurring: Int64Array | None = None
    """Which pairs occur, as `key * pane_count + pane`, if only those are numbered."""
    panes: Int64Array | None = None
    """Which panes occur, if only those are counted."""

    @classmethod
    def of(cls, codes: Int64Array, key_count: int, panes: Int64Array | None, pane_count: int) -> Pairs:
        """`panes` may be None if there is only one."""
        distinct = None
        if panes is not None and key_count * pane_count >= 1 << 62:  # panes are far apart: number only those that occur
            panes, distinct = numbered(panes, pane_count)
            pane_count = len(distinct)
        if panes is None or key_count == 1:
            pairs = codes if panes is None else panes
        else:
            pairs = np.multiply(codes, pane_count, dtype=np.int64)
            pairs += panes
        count = key_count * pane_count
        if count <= max(DENSE_GROUPS, len(pairs)):
            return cls(pairs, count, pane_count, None, distinct)
        pairs, occurring = numbered(pairs, count)
        return cls(pairs, len(occurring), pane_count, occurring, distinct)

    @property
    def groups(self) -> Int64Array:
        """The number of each tuple's pair."""
        return self.members.numbers if isinstance(self.members, Runs) else self.members

    def counted(self) -> Int64Array:
        """How many tuples each pair has. Pairs without tuples are removed first if they are many."""
        tuples = sizes(self.groups, self.count)
        if self.occurring is None and 4 * count_true(tuples) < 3 * self.count:
            occurs = np.flatnonzero(tuples)
            number = np.empty(self.count, dtype=np.int64)
            number[occurs] = np.arange(len(occurs))
            self.members, self.count, self.occurring = number[self.groups], len(occurs), occurs
            tuples = tuples[occurs]
        return tuples

    def key_and_pane(self, groups: Int64Array | None = None) -> tuple[Int64Array, Int64Array]:
        """The key and the pane of some pairs, or of all."""
        if groups is None:
            pairs = np.arange(self.count) if self.occurring is None else self.occurring
        else:
            pairs = groups if self.occurring is None else self.occurring[groups]
        if self.pane_count == 1:
            return pairs, np.zeros(len(pairs), dtype=np.int64)
        key = (pairs.view(np.uint64) // np.uint64(self.pane_count)).view(np.int64)  # much faster than a signed division
        pane = pairs - key * self.pane_count
        return key, pane if self.panes is None else self.panes[pane]
