"""Finding leaves by key and time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from muntin.arrays import Int64Array, all_true, any_true, are_one

FEW = 64
"""Leaves of so few windows of keys are searched for one by one."""


class LeafIndex:
    """Finds the leaves of a key between two times."""

    def __init__(self, key: Int64Array, time: Int64Array) -> None:
        """Both are sorted together, by key and then by time."""
        self._key, self._time = key, time
        self._of_one_key = time if len(key) and key[0] == key[-1] == 0 else None
        self._found: dict[tuple[int, int], _Within] = {}

    def ranges(self, key: Int64Array, start: Int64Array, end: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The leaves `[begin, end)` of each key with a time in `[start, end)`; or where they would be."""
        if len(key) > FEW and len(self._key) and self._of_one_key is None and are_one(start) and are_one(end):
            within = self._within(int(start[0]), int(end[0]))
            if np.array_equal(key, within.key):
                return within.begin, within.end
            begin, behind = within.of(key)
            if all_true(begin < behind):
                return begin, behind
        return self.first(key, start), self.first(key, end)

    def keys_between(self, start: int, end: int) -> Int64Array:
        """Those that have any leaf with a time in `[start, end)`, in order."""
        if self._of_one_key is not None:
            first, behind = self._of_one_key.searchsorted([start, end])
            return np.zeros(int(first < behind), dtype=np.int64)
        return self._within(start, end).key

    def _within(self, start: int, end: int) -> _Within:
        """To look at each leaf takes less than to search for those of every key."""
        if (start, end) not in self._found:
            first = (self._time >= start) & (self._time < end)
            last = first.copy()
            follows = first[1:] & first[:-1] & (self._key[1:] == self._key[:-1])
            first[1:] &= ~follows
            last[:-1] &= ~follows
            begin = np.flatnonzero(first)
            self._found[start, end] = _Within(self._key[begin], begin, np.flatnonzero(last) + 1)
        return self._found[start, end]

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

    def of(self, key: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Those of these keys; of one that has none, an empty range."""
        begin, end = np.zeros((2, int(max(self.key.max(initial=0), key.max())) + 1), dtype=np.int64)
        begin[self.key], end[self.key] = self.begin, self.end
        return begin[key], end[key]


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
