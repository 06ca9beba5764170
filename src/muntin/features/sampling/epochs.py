"""Epochs: which random hash of values a window's sample of distinct values has.

Equal values need equal priorities within a window, so the priorities of a window come from one hash of the values. If
all windows had the same one, a hash that misleads in one window would mislead in all windows of similar values. So
every stretch as long as the longest window has a hash of its own.

Sliding windows reach across two such epochs. There are two samples then, in two *turns*: in the first, epochs 0 and 1
share a hash, 2 and 3, and so on; in the second 1 and 2, 3 and 4. A window is answered from the sample in which the
epoch that it begins in and the next one share a hash.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muntin.arrays import Int64Array, UInt64Array
from muntin.engine.operators.operator import WindowOperator
from muntin.engine.operators.ordered import OrderedOperator
from muntin.engine.operators.time import TimeOperator
from muntin.features.sampling.priority import epoch_salt
from muntin.windows import CountWindow
from muntin.windows.cumulative import CumulativeWindow
from muntin.windows.time import TimeWindow

TURNS = 2
"""The most samples of distinct values."""


@dataclass(frozen=True)
class Epochs:
    """The epochs of an operator's positions."""

    length: int
    """No window is longer. 0 if windows may have any length: then there is one epoch."""
    offset: int = 0
    turns: int = 1
    """The number of samples: one if no window reaches across epochs."""

    @classmethod
    def of(cls, operator: WindowOperator) -> Epochs:
        if isinstance(operator, TimeOperator):
            windows = operator.models
            if len(windows) == 1 and isinstance(windows[0], TimeWindow) and windows[0].slide >= windows[0].size:
                return cls(windows[0].slide, windows[0].offset)
            if len(windows) == 1 and isinstance(windows[0], CumulativeWindow):
                return cls(windows[0].size, windows[0].offset)
            if operator.grid.is_uneven:  # no epoch has whole panes only
                return cls(0)
            # Whole panes, because tuples are dropped pane by pane.
            pane = operator.grid.length
            longest = max(window.longest for window in windows)
            return cls(-(-longest // pane) * pane, operator.grid.offset, TURNS)
        counts = [window for _, window in operator.windows if isinstance(window, CountWindow)]
        if isinstance(operator, OrderedOperator) and len(counts) == len(operator.windows):
            if len(counts) == 1 and counts[0].slide >= counts[0].size:
                return cls(counts[0].slide)
            return cls(-(-max(window.size for window in counts) // operator.pane) * operator.pane, turns=TURNS)
        return cls(0)

    def salts(self, position: Int64Array, turn: int) -> UInt64Array:
        """The salt of the hash at each position, in the sample of a turn."""
        return epoch_salt((self._epoch(position) + turn) // self.turns, turn)

    def turn_of(self, begin: Int64Array) -> Int64Array:
        """The turn of the windows that begin at these positions."""
        return self._epoch(begin) % self.turns

    def _epoch(self, position: Int64Array) -> Int64Array:
        return (position - self.offset) // self.length if self.length else np.zeros(len(position), dtype=np.int64)
