"""Finding leaves by key and time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from muntin.arrays import Int64Array, Runs, all_true, any_true, are_one, run_starts

FEW = 64
"""Leaves of so few windows of keys are searched for one by one."""
SEARCHED = 8
"""One key among so many is searched for faster than all of them are noted."""


@dataclass(frozen=True)
class LeafRanges:
    """The leaves `[begin, end)` of windows of keys, of those that hold any."""

    at: Int64Array | None
    """Which windows those are, in order; None if all do."""
    begin: Int64Array
    end: Int64Array
    all_leaves: bool = False
    """Whether it is known that together they are all the leaves there are, in order."""

    @property
    def runs(self) -> Runs:
        return Runs(self.begin, self.end - self.begin, apart=not self.all_leaves)

    @classmethod
    def of_all(cls, begin: Int64Array, end: Int64Array) -> LeafRanges:
        """Of ranges that may be empty."""
        filled = begin < end
        if all_true(filled):
            return cls(None, begin, end)
        at = np.flatnonzero(filled)
        return cls(at, begin[at], end[at])

    def of(self, windows: Int64Array) -> LeafRanges:
        """Those of some windows, in order, all of which hold leaves."""
        if windows is self.at:
            return self
        place = windows if self.at is None else np.searchsorted(self.at, windows)
        return LeafRanges(windows, self.begin[place], self.end[place])


class LeafIndex:
    """Finds the leaves of a key between two times."""

    def __init__(self, key: Int64Array, time: Int64Array) -> None:
        """Both are sorted together, by key and then by time."""
        self._key, self._time = key, time
        self._of_one_key = time if len(key) and key[0] == key[-1] == 0 else None
        self._found: dict[tuple[int, int], _Within] = {}

    def of_window(self, key: Int64Array, start: int, end: int) -> LeafRanges:
        """The leaves with a time in `[start, end)`, by their keys, which are all among these: in order, each once."""
        return self._within(start, end).of_each(key)

    def held(self, key: Int64Array, start: Int64Array, end: Int64Array) -> LeafRanges:
        """The leaves of each key with a time in `[start, end)`, of those that have any."""
        found = self._of_one_window(key, start, end)
        return LeafRanges.of_all(self.first(key, start), self.first(key, end)) if found is None else found

    def ranges(self, key: Int64Array, start: Int64Array, end: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The leaves `[begin, end)` of each key with a time in `[start, end)`; or where they would be."""
        found = self._of_one_window(key, start, end)
        if found is not None and found.at is None:
            return found.begin, found.end
        return self.first(key, start), self.first(key, end)

    def _of_one_window(self, key: Int64Array, start: Int64Array, end: Int64Array) -> LeafRanges | None:
        """Where many keys ask for the same time."""
        if len(key) > FEW and len(self._key) and self._of_one_key is None and are_one(start) and are_one(end):
            return self._within(int(start[0]), int(end[0])).among(key)
        return None

    def keys_between(self, start: int, end: int) -> Int64Array:
        """Those that have any leaf with a time in `[start, end)`, in order."""
        if self._of_one_key is not None:
            first, behind = self._of_one_key.searchsorted([start, end])
            return np.zeros(int(first < behind), dtype=np.int64)
        return self._within(start, end).key

    def _within(self, start: int, end: int) -> _Within:
        """To look at each leaf takes less than to search for those of every key."""
        if (start, end) not in self._found:
            first, last = self._reach
            are_all = len(self._time) > 0 and start <= first and last < end
            self._found[start, end] = self._all if are_all else self._some(start, end)
        return self._found[start, end]

    @cached_property
    def _reach(self) -> tuple[int, int]:
        """The first and the last time of any leaf."""
        return (int(np.minimum.reduce(self._time)), int(np.maximum.reduce(self._time))) if len(self._time) else (0, 0)

    @cached_property
    def _all(self) -> _Within:
        """Those of all times, which often are within: what is before a window is gone when it closes."""
        begin = run_starts(self._key)
        return _Within(self._key.take(begin), begin, np.append(begin[1:], len(self._key)), all_leaves=True)

    def _some(self, start: int, end: int) -> _Within:
        first = self._time < end
        if self._reach[0] < start:
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
        """The first leaf of each key that is not before a time; where there is none, the one behind the key's last."""
        if self._of_one_key is None:
            return np.searchsorted(self._composites.leaves, self._composites.of(key, time))
        found = self._of_one_key.searchsorted(time)
        if any_true(key):
            found[key > 0] = len(self._of_one_key)
        return found

    @cached_property
    def _composites(self) -> _Composites:
        return _Composites(self._key, self._time)


@dataclass(frozen=True)
class _Within:
    """The leaves `[begin, end)` of all keys that have any between two times."""

    key: Int64Array
    begin: Int64Array
    end: Int64Array
    all_leaves: bool = False
    """Whether no leaf is at another time."""

    def among(self, key: Int64Array) -> LeafRanges:
        """Those of these keys."""
        if np.array_equal(key, self.key):
            return self._at(None)
        codes = int(max(self.key.max(initial=0), key.max())) + 1
        begin, end = np.zeros((2, codes), dtype=np.int64)
        begin[self.key], end[self.key] = self.begin, self.end
        return LeafRanges.of_all(begin[key], end[key])

    def of_each(self, key: Int64Array) -> LeafRanges:
        """All of them, where these keys are in order, each is there once, and none is missing."""
        if len(key) == len(self.key):
            return self._at(None)
        if key[-1] == len(key) - 1:  # every code there is
            return self._at(self.key)
        if SEARCHED * len(self.key) < len(key):
            return self._at(np.searchsorted(key, self.key))
        place = np.empty(int(key[-1]) + 1, dtype=np.int64)
        place[key] = np.arange(len(key))
        return self._at(place.take(self.key))

    def _at(self, windows: Int64Array | None) -> LeafRanges:
        return LeafRanges(windows, self.begin, self.end, self.all_leaves)


class _Composites:
    """Key and time in one integer; where they do not fit, the time's rank does."""

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
