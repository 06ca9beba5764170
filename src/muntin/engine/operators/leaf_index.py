"""Finding leaves by key and time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from muntin.arrays import Int64Array, Runs, all_true, any_true, are_one, is_sorted, run_starts

FEW = 64
"""Up to this many windows of keys, leaves are searched for one by one."""
MANY = 1 << 14
"""From this many windows of keys on, they are searched for in order."""
SEARCHED = 8
"""Where fewer than one key in this many has leaves, searching for each is faster than a table of all keys."""


@dataclass(frozen=True)
class LeafRanges:
    """The leaves `[begin, end)` of the non-empty windows of keys."""

    windows: Int64Array | None
    """The positions of these windows, in order; None if no window is empty."""
    begin: Int64Array
    end: Int64Array
    all_leaves: bool = False
    """Whether it is known that together they are all leaves, in order."""
    order: Int64Array | None = None
    """Where the range of each window is among these; None if they are in the order of the windows."""
    among: Int64Array | None = None
    """The leaves that are counted; None for all of the table."""

    @property
    def runs(self) -> Runs:
        return Runs(self.begin, self.end - self.begin, apart=not self.all_leaves)

    @classmethod
    def of_all(cls, begin: Int64Array, end: Int64Array) -> LeafRanges:
        """The non-empty ones of these ranges."""
        filled = begin < end
        if all_true(filled):
            return cls(None, begin, end)
        windows = np.flatnonzero(filled)
        return cls(windows, begin[windows], end[windows])

    def of(self, windows: Int64Array) -> LeafRanges:
        """The ranges of some windows, in order; none of them is empty."""
        if windows is self.windows:
            return self
        positions = windows if self.windows is None else np.searchsorted(self.windows, windows)
        if self.order is not None:
            positions = self.order[positions]
        return LeafRanges(windows, self.begin[positions], self.end[positions], among=self.among)


class LeafIndex:
    """Finds the leaves of a key between two times."""

    def __init__(self, key: Int64Array, time: Int64Array) -> None:
        """Both are sorted together, by key and then by time."""
        self._key, self._time = key, time
        self._times_of_single_key = time if len(key) and key[0] == key[-1] == 0 else None
        self._cache: dict[tuple[int, int], _Within] = {}

    def of_window(self, key: Int64Array, start: int, end: int) -> LeafRanges:
        """The leaves with a time in `[start, end)`. `key` has every key with such leaves, in order, each once."""
        return self._within(start, end).of_ordered(key)

    def filled_ranges(self, key: Int64Array, start: Int64Array, end: Int64Array) -> LeafRanges:
        """The leaves of each key with a time in `[start, end)`, without empty ranges."""
        ranges = self._of_one_window(key, start, end)
        return LeafRanges.of_all(self.first(key, start), self.first(key, end)) if ranges is None else ranges

    def ranges(self, key: Int64Array, start: Int64Array, end: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The leaves `[begin, end)` of each key with a time in `[start, end)`. Ranges may be empty."""
        ranges = self._of_one_window(key, start, end)
        if ranges is not None and ranges.windows is None:
            return ranges.begin, ranges.end
        return self.first(key, start), self.first(key, end)

    def _of_one_window(self, key: Int64Array, start: Int64Array, end: Int64Array) -> LeafRanges | None:
        """The ranges, if many keys share one start and end; else None."""
        if len(key) > FEW and len(self._key) and self._times_of_single_key is None and are_one(start) and are_one(end):
            return self._within(int(start[0]), int(end[0])).among(key)
        return None

    def keys_between(self, start: int, end: int) -> Int64Array:
        """The keys with a leaf in `[start, end)`, in order."""
        if self._times_of_single_key is not None:
            first, last = self._times_of_single_key.searchsorted([start, end])
            return np.zeros(int(first < last), dtype=np.int64)
        return self._within(start, end).key

    def _within(self, start: int, end: int) -> _Within:
        """The leaves of all keys between two times. One scan of all leaves is faster than a search per key."""
        if (start, end) not in self._cache:
            first, last = self._time_range
            are_all = len(self._time) > 0 and start <= first and last < end
            self._cache[start, end] = self._all if are_all else self._some(start, end)
        return self._cache[start, end]

    @cached_property
    def _time_range(self) -> tuple[int, int]:
        """The first and the last time of any leaf."""
        return (int(np.minimum.reduce(self._time)), int(np.maximum.reduce(self._time))) if len(self._time) else (0, 0)

    @cached_property
    def _all(self) -> _Within:
        """The leaves of all times: a common case, as leaves before a window are pruned when it closes."""
        begin = run_starts(self._key)
        return _Within(self._key.take(begin), begin, np.append(begin[1:], len(self._key)), all_leaves=True)

    def _some(self, start: int, end: int) -> _Within:
        first = self._time < end
        if self._time_range[0] < start:
            first &= self._time >= start
        last = first.copy()
        apart = self._key[1:] == self._key[:-1]
        apart &= first[1:]
        apart &= first[:-1]
        np.logical_not(apart, out=apart)
        first[1:] &= apart
        last[:-1] &= apart
        begin = np.flatnonzero(first)
        return _Within(self._key.take(begin), begin, np.flatnonzero(last) + 1)

    def first(self, key: Int64Array, time: Int64Array) -> Int64Array:
        """The first leaf of each key at or after a time; where there is none, the position after the key's last."""
        if self._times_of_single_key is None:
            return _places(self._composites.leaves, self._composites.of(key, time))
        positions = self._times_of_single_key.searchsorted(time)
        if any_true(key):
            positions[key > 0] = len(self._times_of_single_key)
        return positions

    @cached_property
    def _composites(self) -> _Composites:
        return _Composites(self._key, self._time)


@dataclass(frozen=True)
class _Within:
    """The leaves `[begin, end)` between two times, for all keys that have any."""

    key: Int64Array
    begin: Int64Array
    end: Int64Array
    all_leaves: bool = False
    """Whether they are all leaves of the table."""

    def among(self, key: Int64Array) -> LeafRanges:
        """The leaves of these keys."""
        if np.array_equal(key, self.key):
            return self._of_windows(None)
        codes = int(max(self.key.max(initial=0), key.max())) + 1
        begin, end = np.zeros((2, codes), dtype=np.int64)
        begin[self.key], end[self.key] = self.begin, self.end
        return LeafRanges.of_all(begin[key], end[key])

    def of_ordered(self, key: Int64Array) -> LeafRanges:
        """All of them. `key` has all of their keys, in order, each once."""
        if len(key) == len(self.key):
            return self._of_windows(None)
        if key[-1] == len(key) - 1:  # every code from 0 on
            return self._of_windows(self.key)
        if SEARCHED * len(self.key) < len(key):
            return self._of_windows(np.searchsorted(key, self.key))
        position_of_key = np.empty(int(key[-1]) + 1, dtype=np.int64)
        position_of_key[key] = np.arange(len(key))
        return self._of_windows(position_of_key.take(self.key))

    def _of_windows(self, windows: Int64Array | None) -> LeafRanges:
        return LeafRanges(windows, self.begin, self.end, self.all_leaves)


def _places(leaves: Int64Array, targets: Int64Array) -> Int64Array:
    """`np.searchsorted`. Very many targets are sorted first: neighbouring ones are found without cache misses."""
    if len(targets) < MANY or is_sorted(targets):
        return np.searchsorted(leaves, targets)
    order = np.argsort(targets)
    places = np.empty(len(targets), dtype=np.int64)
    places[order] = np.searchsorted(leaves, targets[order])
    return places


class _Composites:
    """Key and time in one integer; where they do not fit, the time is replaced by its rank."""

    def __init__(self, key: Int64Array, time: Int64Array) -> None:
        self._first, self._last = (int(time.min()), int(time.max())) if len(time) else (0, 0)
        span = self._last - self._first + 2
        keys = int(key.max()) + 1 if len(time) else 0
        self._times = None if (keys + 1) * span < 1 << 62 else np.unique(time)
        self._span = span if self._times is None else len(self._times) + 1
        self.leaves = self.of(key, time)

    def of(self, key: Int64Array, time: Int64Array) -> Int64Array:
        clipped = np.clip(time, self._first, self._last + 1)
        rank = clipped - self._first if self._times is None else np.searchsorted(self._times, clipped)
        return key * self._span + rank
