"""The wavelet matrix: order statistics of any range of an array, for very many ranges at once.

Level by level, from the highest bit of the values to the lowest, the array is split in two: first all elements
whose bit is 0, then all whose bit is 1, each part in its old order. A range of the array is a range in both parts. The
number of its elements that went left determines which part has its k-th smallest. So a range is answered in one step
per bit, however long it is, and overlapping windows share all of the sorting: no window is sorted separately.
"""

from __future__ import annotations

import numpy as np

from muntin.arrays import Array, Int64Array


class WaveletMatrix:
    def __init__(self, values: Int64Array, limit: int) -> None:
        """`values` are integers in `range(limit)`."""
        narrow = next((kind for kind in (np.uint8, np.uint16, np.uint32) if limit <= 1 << 8 * kind().nbytes), np.uint64)
        current: Array = values.astype(narrow)
        # Positions of four bytes halve the memory that every step reads.
        position = np.int32 if len(values) < 1 << 31 else np.int64
        self._levels: list[tuple[int, Array]] = []
        for bit in reversed(range(max(limit - 1, 1).bit_length())):
            left = current & narrow(1 << bit) == 0
            went_left = np.zeros(len(current) + 1, dtype=position)
            np.cumsum(left, out=went_left[1:])
            self._levels.append((bit, went_left))
            # `compress` is several times as fast as indexing by the mask.
            current = np.concatenate([np.compress(left, current), np.compress(~left, current)])

    def kth(self, begin: Int64Array, end: Int64Array, k: Int64Array) -> Int64Array:
        """The k-th smallest element (from 0) of each range `[begin, end)`; `k` is within the range."""
        value = np.zeros_like(k)
        for bit, went_left in self._levels:
            left_begin, left_end = went_left[begin], went_left[end]
            lefts = left_end - left_begin
            right = k >= lefts
            k = np.where(right, k - lefts, k)
            begin = np.where(right, went_left[-1] + begin - left_begin, left_begin)
            end = np.where(right, went_left[-1] + end - left_end, left_end)
            value |= right.astype(np.int64) << bit
        return value

    def below(self, begin: Int64Array, end: Int64Array, limit: Int64Array) -> Int64Array:
        """The number of elements of each range that are below its limit."""
        beyond = limit >= 1 << len(self._levels)
        count = np.where(beyond, end - begin, 0)
        for bit, went_left in self._levels:
            left_begin, left_end = went_left[begin], went_left[end]
            right = (limit >> bit) & 1 == 1
            count += np.where(right & ~beyond, left_end - left_begin, 0)
            begin = np.where(right, went_left[-1] + begin - left_begin, left_begin)
            end = np.where(right, went_left[-1] + end - left_end, left_end)
        return count
