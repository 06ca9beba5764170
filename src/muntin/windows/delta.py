"""Delta windows (Mencagli 2018, formula 4): windows over an attribute δ that grows, such as an odometer.

Tuple t_0 of a key is its first trigger. Each next trigger is the first tuple with δ > δ(last trigger) + slide. With t_r
the w-th trigger,

    E(w) = { t | δ(t_r) - size <= δ(t) < δ(t_r) }

so window 0 is always empty. A tuple whose δ is null or smaller than an earlier one's is invalid: it is counted and set
aside, and gets no number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muntin.arrays import Array, Int64Array, search_behind
from muntin.checks import is_integer
from muntin.durations import Duration
from muntin.errors import MuntinError
from muntin.expressions import ColumnLike, Given, Opaque, check_given, shown
from muntin.windows.model import ForwardContext, Parameters, TupleWindow, check_name, checked_forgetting


@dataclass(frozen=True, repr=False)
class DeltaWindow(TupleWindow):
    """What `delta` returns: sizes are in units of the column."""

    column: Given
    size: int | float
    slide: int | float
    ends_at_tuple: ClassVar[bool] = True
    forward_context: ClassVar[ForwardContext] = "aware"
    extent_formula: ClassVar[str] = "E(w) = { t | δ(t_r) - size <= δ(t) < δ(t_r) }, t_r the w-th trigger"

    @property
    def parameters(self) -> tuple[str, Parameters]:
        return "delta", {"column": self.column, "size": self.size, "slide": self.slide, **self._forgetting}

    @property
    def label(self) -> str:
        return f"delta({shown(self.column)!r}, {self.size:,}, {self.slide:,}{self._forgetting_label})"

    def triggers(self, deltas: Array, begin: Int64Array, end: Int64Array, first: Int64Array) -> Int64Array:
        """The positions of all triggers, in order.

        Run r of `deltas`, the tuples of one key in order, is `[begin[r], end[r])`; its first trigger is at `first[r]`,
        if that is before its end. Each trigger determines the next one, but no loop over triggers is needed: the tuple
        that would be the next trigger after each tuple is computed for all tuples at once. The chain is then found by
        doubling: all triggers within 1, 2, 4, … steps of the first.
        """
        count = len(deltas)
        following = search_behind(deltas, reach_above(deltas, self.slide), begin)
        following = np.where(following < np.repeat(end, end - begin), following, count)
        following = np.append(following, count)  # the end follows itself
        reached = np.zeros(count + 1, dtype=bool)
        reached[first[first < end]] = True
        while True:
            further = following[np.flatnonzero(reached)]
            if np.all(further == count):
                break
            reached[further] = True
            reached[count] = False
            following = following[following]
        return np.flatnonzero(reached[:count])

    def extent(self, trigger: Int64Array, deltas: Array) -> tuple[Int64Array, Int64Array]:
        """The tuples `[first, end)` of the window that each trigger triggers; `deltas` are all tuples of a key."""
        reached = deltas[trigger]
        return np.searchsorted(deltas, reach_below(reached, self.size)), np.searchsorted(deltas, reached)

    def mapping(self, index: Int64Array, deltas: Array) -> tuple[Int64Array, Int64Array]:
        """The first and the last window of each tuple; the first is the larger if there is none."""
        single_run = np.array([0]), np.array([len(deltas)])
        triggers = deltas[self.triggers(deltas, *single_run, np.array([0]))]
        first = np.searchsorted(triggers, deltas[index], side="right")
        return first, np.searchsorted(reach_below(triggers, self.size), deltas[index], side="right") - 1


def reach_above(deltas: Array, amount: int | float) -> Array:
    """δ + amount; integers saturate at their largest value instead of wrapping around."""
    if deltas.dtype.kind != "i":
        return np.asarray(deltas + amount)
    largest = np.iinfo(np.int64).max
    amount = min(int(amount), largest)
    return np.where(deltas > largest - amount, largest, deltas + np.minimum(amount, largest - np.maximum(deltas, 0)))


def reach_below(deltas: Array, amount: int | float) -> Array:
    if deltas.dtype.kind != "i":
        return np.asarray(deltas - amount)
    return ~reach_above(~deltas, amount)


def delta(
    column: ColumnLike,
    size: int | float,
    slide: int | float,
    *,
    forget_after: Duration | None = None,
    name: str | None = None,
) -> DeltaWindow:
    """A window over the last `size` of `column`, triggered whenever it has grown by more than `slide`.

    With `forget_after`, a key that has had no valid tuple for this much event time is forgotten: its next tuple is its
    first, whatever its value.

    Examples
    --------
    >>> windows_of(W.delta("km", 20, 10))
    12:02 to 12:13: 3
    12:11 to 12:44: 3
    """
    check_given(column, "column")
    for argument, value in (("size", size), ("slide", slide)):
        is_number = is_integer(value) or isinstance(value, float | np.floating)
        if not is_number or not 0 < value < 1 << 63:
            raise MuntinError(
                f"{argument} must be a positive number below 2**63, an amount of {shown(column)!r}, got {value!r}."
            )
    given = column if isinstance(column, str) else Opaque(column)
    forgets = checked_forgetting(forget_after)
    return DeltaWindow(check_name(name), given, _plain(size), _plain(slide), forget_after=forgets)


def _plain(value: int | float) -> int | float:
    return int(value) if float(value).is_integer() else float(value)
