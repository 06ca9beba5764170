"""The watermarks of a shard: the times up to which its windows and tuples are final."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from muntin.arrays import BoolArray, Int64Array
from muntin.panes.grid import last_ends
from muntin.windows import TupleWindow, Window


@dataclass(frozen=True)
class Watermarks:
    """The two watermarks of a shard, in microseconds.

    Time windows and sessions close with Spark's watermark, which reflects only the batches before this one. So they
    contain exactly the rows that Spark's own windows contain. Tuples are finalized earlier: as soon as this batch shows
    that they are further behind the latest time than the watermark allows. Otherwise they would all wait for one more
    batch.
    """

    watermark: int
    finalized: int
    """The time up to which tuples are finalized, in event-time order."""
    waits: bool = False
    """Whether tuples wait until their chunk is complete even in a query that writes tuples through."""

    @classmethod
    def at(cls, time: int) -> Watermarks:
        """Both watermarks at one time."""
        return cls(time, time)

    def too_late(self, times: Int64Array, windows: Sequence[Window]) -> BoolArray:
        """Which tuples are too late for all of `windows`."""
        tuple_windows = [window for window in windows if isinstance(window, TupleWindow)]
        time_windows = [window for window in windows if not isinstance(window, TupleWindow)]
        late = np.ones(len(times), dtype=bool)
        if time_windows:
            late &= last_ends(times, time_windows) <= self.watermark
        if tuple_windows:
            late &= last_ends(times, tuple_windows) <= self.finalized
        return late
