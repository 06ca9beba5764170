"""Finding leaves by key and time."""

from __future__ import annotations

import numpy as np

from muntin.arrays import Int64Array, any_true


class LeafIndex:
    """Finds the leaves of a key between two times."""

    def __init__(self, key: Int64Array, time: Int64Array) -> None:
        """Both are sorted together, by key and then by time."""
        self._of_one_key = time if len(key) and key[0] == key[-1] == 0 else None
        if self._of_one_key is not None:
            return
        self._first, self._last = (int(time.min()), int(time.max())) if len(time) else (0, 0)
        span = self._last - self._first + 2
        keys = int(key.max()) + 1 if len(time) else 0
        # Key and time in one integer; where they do not fit, the time's rank does.
        self._times = None if (keys + 1) * span < 1 << 62 else np.unique(time)
        self._span = span if self._times is None else len(self._times) + 1
        self._order = self._composite(key, time)

    def ranges(self, key: Int64Array, start: Int64Array, end: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The leaves `[begin, end)` of each key with a time in `[start, end)`."""
        return self.first(key, start), self.first(key, end)

    def first(self, key: Int64Array, time: Int64Array) -> Int64Array:
        """The first leaf of each key that is not before a time; where there is none, the one behind the key's last."""
        if self._of_one_key is None:
            return np.searchsorted(self._order, self._composite(key, time))
        found = self._of_one_key.searchsorted(time)
        if any_true(key):
            found[key > 0] = len(self._of_one_key)
        return found

    def _composite(self, key: Int64Array, time: Int64Array) -> Int64Array:
        clipped = np.clip(time, self._first, self._last + 1)
        rank = clipped - self._first if self._times is None else np.searchsorted(self._times, clipped)
        return key * self._span + rank
