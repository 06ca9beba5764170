"""The two hybrids (Mencagli 2018): windows of time that slide by tuples, and windows of tuples that slide by time.

**Slide by tuple** (formula 3, definition 3). Every `every`-th tuple of a key triggers a window over the last `size` of
time: with r = (w + 1)·every - 1,

    E(w) = { t | τ(t_r) - size < τ(t) <= τ(t_r) }

Tuple i is in the windows from the first trigger at or behind it to the last trigger less than `size` later. If the
first trigger is `size` or more later, the tuple is in no window: its windows depend on later tuples.

**Slide by time** (section 2.3), its dual. Every `every` of time, a window over the last `last` tuples of a key:

    E(w) = the last `last` tuples with τ(t) < (w + 1)·every

from the first tuple of the key to the first trigger behind its latest tuple. A trigger without new tuples repeats the
window before it. The repeated window is emitted with the next tuple of the key, because only then is it known that the
key continues. After `MOST_REPEATS` repeats the key pauses until its next tuple, so that a long silence costs no more
than a short one.
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

MOST_REPEATS = 1_000
"""How often a key repeats its last window before it pauses."""


@dataclass(frozen=True, repr=False)
class SlideByTuple(TupleWindow):
    """What `slide_by_tuple` returns: the size is in microseconds."""

    size: int
    every: int
    ends_at_tuple: ClassVar[bool] = True
    forward_context: ClassVar[ForwardContext] = "aware"
    extent_formula: ClassVar[str] = "E(w) = { t | τ(t_r) - size < τ(t) <= τ(t_r) }, r = (w + 1)·every - 1"

    @property
    def parameters(self) -> tuple[str, Parameters]:
        return "slide_by_tuple", {"size": describe(self.size), "every": self.every, **self._forgetting}

    @property
    def label(self) -> str:
        return f"slide_by_tuple({describe(self.size)}, {self.every:,}{self._forgetting_label})"

    def trigger(self, window_id: Int64Array) -> Int64Array:
        """The tuple that triggers each window."""
        return (window_id + 1) * self.every - 1

    def triggered(self, index: Int64Array) -> Int64Array:
        """The window that each triggering tuple triggers."""
        return np.floor_divide(index + 1, self.every) - 1

    def extent(self, window_id: Int64Array, times: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The tuples `[first, end)` of each window; `times` are all tuples of a key, in order."""
        triggers = times[self.trigger(window_id)]
        return (
            np.searchsorted(times, triggers - self.size, side="right"),
            np.searchsorted(times, triggers, side="right"),
        )

    def mapping(self, index: Int64Array, times: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The first and the last window of each tuple; the first is the larger if there is none.

        Tuples behind a trigger that have the same time as it are in its window, too: formula 3 compares times.
        """
        triggers = times[self.every - 1 :: self.every]
        first = np.searchsorted(triggers, times[index], side="left")
        return first, np.searchsorted(triggers, times[index] + self.size, side="left") - 1


@dataclass(frozen=True, repr=False)
class SlideByTime(TupleWindow):
    """What `slide_by_time` returns: the time between triggers is in microseconds."""

    last: int
    every: int
    forward_context: ClassVar[ForwardContext] = "aware"
    extent_formula: ClassVar[str] = "E(w) = the last `last` tuples with τ(t) < (w + 1)·every"

    @property
    def parameters(self) -> tuple[str, Parameters]:
        return "slide_by_time", {"last": self.last, "every": describe(self.every), **self._forgetting}

    @property
    def label(self) -> str:
        return f"slide_by_time({self.last:,}, {describe(self.every)}{self._forgetting_label})"

    def end(self, window_id: Int64Array) -> Int64Array:
        return (window_id + 1) * self.every

    def closed_at(self, time: int) -> int:
        return (time // self.every + 1) * self.every

    def triggered(self, times: Int64Array) -> Int64Array:
        """The first window that can contain a tuple at each time."""
        return np.floor_divide(times, self.every)

    def extent(self, window_id: Int64Array, times: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The tuples `[first, end)` of each window; `times` are all tuples of a key, in order."""
        end = np.searchsorted(times, self.end(window_id), side="left")
        return np.maximum(end - self.last, 0), end

    def mapping(self, index: Int64Array, times: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The first and the last window of each tuple: until `last` more tuples, or the last trigger of the key."""
        first = self.triggered(times[index])
        displaced = np.append(times, times[-1] + 1)[np.minimum(index + self.last, len(times))]
        behind = np.where(index + self.last < len(times), self.triggered(displaced), self.triggered(times[-1:])[0] + 1)
        return first, behind - 1


def slide_by_tuple(
    size: Duration, every: int, *, forget_after: Duration | None = None, name: str | None = None
) -> SlideByTuple:
    """A window over the last `size` of time, triggered by every `every`-th tuple of a key.

    With `forget_after`, a key that has had no tuple for this much event time is forgotten: its next tuple is its first.

    Examples
    --------
    >>> windows_of(W.slide_by_tuple("10 minutes", 2))
    11:57 to 12:07: 2
    12:03 to 12:13: 3
    12:34 to 12:44: 1
    """
    length = positive_microseconds(size, "size")
    forgets = checked_forgetting(forget_after, length, "size")
    return SlideByTuple(check_name(name), length, positive_count(every, "every"), forget_after=forgets)


def slide_by_time(
    last: int, every: Duration, *, forget_after: Duration | None = None, name: str | None = None
) -> SlideByTime:
    """A window over the last `last` tuples of a key, every `every` of time.

    With `forget_after`, a key that has had no tuple for this much event time is forgotten: its next tuple is its first.

    Examples
    --------
    >>> windows_of(W.slide_by_time(2, "20 minutes"))
    12:11 to 12:20: 2
    12:13 to 12:40: 2
    12:44 to 13:00: 2
    """
    count, pace = positive_count(last, "last"), positive_microseconds(every, "every")
    forgets = checked_forgetting(forget_after, pace, "every")
    return SlideByTime(check_name(name), count, pace, forget_after=forgets)
