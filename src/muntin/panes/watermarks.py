"""Up to where a shard has got."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from muntin.arrays import BoolArray, Int64Array
from muntin.panes.grid import last_ends
from muntin.windows import TupleWindow, Window


@dataclass(frozen=True)
class Marks:
    """Two times up to which things are final, in microseconds, and whether tuples wait for more.

    Windows over time, and sessions, close with Spark's watermark, which knows the batches before this one: so they take
    exactly the rows that Spark's own windows take. Tuples are settled as soon as the batch itself shows that they are
    further behind the latest time than the watermark allows. Otherwise all of them would wait for one batch more.
    """

    watermark: int
    settled: int
    waits: bool = False
    """Whether tuples wait for their chunk to be complete in a query that samples, too: while it does not."""

    @classmethod
    def at(cls, time: int) -> Marks:
        """Both at one time."""
        return cls(time, time)

    def too_late(self, times: Int64Array, windows: Sequence[Window]) -> BoolArray:
        """Which tuples are too late for all of these windows."""
        numbered = [window for window in windows if isinstance(window, TupleWindow)]
        others = [window for window in windows if not isinstance(window, TupleWindow)]
        late = np.ones(len(times), dtype=bool)
        if others:
            late &= last_ends(times, others) <= self.watermark
        if numbered:
            late &= last_ends(times, numbered) <= self.settled
        return late
