"""Session windows: runs of tuples of a key without a gap longer than `gap`.

    E(w) = the tuples of a longest run in which τ(next) - τ(t) <= gap

A session is `[τ(first), τ(last) + gap)`, like Spark's `session_window`. A tuple within the gap of two sessions merges
them. Once a session has closed, its tuples are known from the past alone, so Mencagli 2018 counts the model among the
forward-context-free ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muntin.arrays import Int64Array
from muntin.durations import Duration, describe, positive_microseconds
from muntin.windows.model import ForwardContext, Parameters, Window, check_name


@dataclass(frozen=True, repr=False)
class SessionWindow(Window):
    """What `session` returns: the gap is in microseconds."""

    gap: int
    forward_context: ClassVar[ForwardContext] = "free"
    extent_formula: ClassVar[str] = "E(w) = a longest run of tuples with τ(next) - τ(t) <= gap"

    @property
    def parameters(self) -> tuple[str, Parameters]:
        return "session", {"gap": describe(self.gap)}

    @property
    def label(self) -> str:
        return f"session({describe(self.gap)})"

    def mapping(self, index: Int64Array, times: Int64Array) -> Int64Array:
        """The number of each tuple's session; `times` are all tuples of a key, in order."""
        return np.asarray(np.cumsum(np.append(False, np.diff(times) > self.gap)[: len(times)])[index])

    def extent(self, session: Int64Array, times: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The tuples `[first, end)` of each session."""
        starts = np.flatnonzero(np.append(True, np.diff(times) > self.gap))
        return starts[session], np.append(starts[1:], len(times))[session]

    def last_ends(self, times: Int64Array) -> Int64Array:
        return times + self.gap


def session(gap: Duration, *, name: str | None = None) -> SessionWindow:
    """One window per burst of activity of a key; it ends when `gap` has passed without a tuple.

    Examples
    --------
    >>> windows_of(W.session("10 minutes"))
    12:02 to 12:23: 4
    12:26 to 12:36: 1
    12:44 to 12:54: 1
    """
    return SessionWindow(check_name(name), positive_microseconds(gap, "gap"))
