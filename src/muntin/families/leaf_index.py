"""Finding leaves by key and time."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from muntin.arrays import Int64Array, all_true, any_true, are_one, run_starts

FEW = 64
"""Leaves of so few windows of keys are searched for one by one."""


class LeafIndex:
    """Finds the leaves of a key between two times."""

    def __init__(self, key: Int64Array, time: Int64Array) -> None:
        """Both are sorted together, by key and then by time."""
        self._key, self._time = key, time
        self._of_one_key = time if len(key) and key[0] == key[-1] == 0 else None
        self._within: dict[tuple[int, int], tuple[Int64Array, Int64Array]] = {}

    def ranges(self, key: Int64Array, start: Int64Array, end: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The leaves `[begin, end)` of each key with a time in `[start, end)`; or where they would be."""
        if len(key) > FEW and len(self._key) and self._of_one_key is None and are_one(start) and are_one(end):
            begin, behind = self._of_all_keys(int(start[0]), int(end[0]))
            known = np.minimum(key, len(begin) - 1)
            begin, behind = begin[known], behind[known]
            if all_true(begin < behind):
                return begin, behind
        return self.first(key, start), self.first(key, end)

    def _of_all_keys(self, start: int, end: int) -> tuple[Int64Array, Int64Array]:
        """Those of all keys in one window, where they have any: to look at each leaf takes less than to search."""
        if (start, end) not in self._within:
            at = np.flatnonzero((self._time >= start) & (self._time < end))
            of_key = self._key[at]
            runs = run_starts(of_key)
            begin, behind = np.zeros((2, int(self._key[-1]) + 2), dtype=np.int64)
            begin[of_key[runs]] = at[runs]
            behind[of_key[runs]] = at[runs] + np.diff(runs, append=len(at))
            self._within[start, end] = begin, behind
        return self._within[start, end]

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
