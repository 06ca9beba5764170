"""Count windows (Mencagli 2018, formula 1, definition 2): tuples of a key by their number i in event-time order.

    E(w) = { t_i | w·slide <= i < w·slide + size }

The mapping of tuple i is the windows `w` with `⌈(i - size + 1) / slide⌉ <= w <= ⌊i / slide⌋` and `w >= 0`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muntin.arrays import Int64Array
from muntin.durations import Duration, describe, positive_microseconds
from muntin.windows.model import (
    ForwardContext,
    Parameters,
    TupleWindow,
    check_name,
    checked_forgetting,
    positive_count,
)


@dataclass(frozen=True, repr=False)
class CountWindow(TupleWindow):
    """What `count` returns: sizes are numbers of tuples, times are in microseconds."""

    size: int
    slide: int
    max_wait: int | None
    """How long a window waits for its next tuple before it is emitted incomplete, in microseconds."""
    ends_at_tuple: ClassVar[bool] = True
    forward_context: ClassVar[ForwardContext] = "free"
    extent_formula: ClassVar[str] = "E(w) = { t_i | w·slide <= i < w·slide + size }"

    @property
    def parameters(self) -> tuple[str, Parameters]:
        slide = {"slide": self.slide} if self.slide != self.size else {}
        wait = {"max_wait": describe(self.max_wait)} if self.max_wait is not None else {}
        return "count", {"size": self.size, **slide, **wait, **self._forgetting}

    @property
    def label(self) -> str:
        slide = f", {self.slide:,}" if self.slide != self.size else ""
        wait = f", max_wait={describe(self.max_wait)}" if self.max_wait is not None else ""
        return f"count({self.size:,}{slide}{wait}{self._forgetting_label})"

    def extent(self, window_id: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The tuples `[first, end)` of each window."""
        first = window_id * self.slide
        return first, first + self.size

    def mapping(self, index: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The first and the last window of each tuple; the first is the larger if there is none (slide > size)."""
        first = -np.floor_divide(self.size - 1 - index, self.slide)
        return np.maximum(first, 0), np.floor_divide(index, self.slide)

    def closed_at(self, time: int) -> int:
        return time + (1 if self.max_wait is None else self.max_wait)

    def complete(self, tuples: Int64Array) -> Int64Array:
        """The number of complete windows of keys that have this many tuples."""
        return np.asarray(np.maximum(np.floor_divide(tuples - self.size, self.slide) + 1, 0))


def count(
    size: int,
    slide: int | None = None,
    max_wait: Duration | None = None,
    *,
    forget_after: Duration | None = None,
    name: str | None = None,
) -> CountWindow:
    """The last `size` tuples of a key, every `slide` tuples; `slide` defaults to `size`.

    With `max_wait`, a window that gets no tuple for this much event time is emitted incomplete, with `partial` true.
    It keeps its tuples: when the missing ones arrive, it is emitted again, complete.

    With `forget_after`, a key that has had no tuple for this much event time is forgotten: its next tuple is its first.

    Examples
    --------
    >>> windows_of(W.count(3, 2))
    12:02 to 12:11: 3
    12:11 to 12:26: 3
    12:26 to 12:58: 3
    >>> windows_of(W.count(3, max_wait="10 minutes"))
    12:02 to 12:11: False 3
    12:13 to 12:13: True 1
    12:13 to 12:26: True 2
    12:13 to 12:44: False 3
    """
    size = positive_count(size, "size")
    step = size if slide is None else positive_count(slide, "slide")
    wait = None if max_wait is None else positive_microseconds(max_wait, "max_wait")
    forgets = checked_forgetting(forget_after, wait, "max_wait")
    return CountWindow(check_name(name), size, step, wait, forget_after=forgets)
