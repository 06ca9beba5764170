"""Cumulative windows: from the start of each `size`, growing by `step` (Flink's CUMULATE).

With `n = size / step` windows per size,

    E(w) = { t | offset + floor(w / n)·size <= τ(t) < offset + (w + 1)·step }

The mapping of a tuple at time τ is the windows `w` with

    floor((τ - offset) / step) <= w <= floor((τ - offset) / size)·n + n - 1
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muntin.arrays import Int64Array
from muntin.durations import Duration, describe, microseconds, positive_microseconds
from muntin.errors import MuntinError
from muntin.windows.model import ForwardContext, Ids, PaneWindow, Parameters, check_name


@dataclass(frozen=True, repr=False)
class CumulativeWindow(PaneWindow):
    """What `cumulative` returns, in microseconds."""

    size: int
    step: int
    forward_context: ClassVar[ForwardContext] = "free"
    extent_formula: ClassVar[str] = "E(w) = { t | ⌊w / n⌋·size <= τ(t) < (w + 1)·step }, n = size / step"

    @property
    def parameters(self) -> tuple[str, Parameters]:
        shift = {"offset": describe(self.offset)} if self.offset else {}
        return "cumulative", {"size": describe(self.size), "step": describe(self.step), **shift}

    @property
    def label(self) -> str:
        shift = f", offset={describe(self.offset)}" if self.offset else ""
        return f"cumulative({describe(self.size)}, {describe(self.step)}{shift})"

    @property
    def steps(self) -> int:
        return self.size // self.step

    @property
    def lengths(self) -> tuple[int, ...]:
        return (self.step,)

    @property
    def longest(self) -> int:
        return self.size

    @property
    def copies(self) -> int:
        return self.steps

    def start(self, window_id: Ids) -> Ids:
        return self.offset + window_id // self.steps * self.size

    def end(self, window_id: Ids) -> Ids:
        return self.offset + (window_id + 1) * self.step

    def first_containing(self, times: Int64Array) -> Int64Array:
        return np.floor_divide(times - self.offset, self.step)

    def last_containing(self, times: Int64Array) -> Int64Array:
        return np.floor_divide(times - self.offset, self.size) * self.steps + (self.steps - 1)

    def last_ended(self, time: int) -> int:
        return (time - self.offset) // self.step - 1


def cumulative(
    size: Duration, step: Duration, *, offset: Duration = "0 seconds", name: str | None = None
) -> CumulativeWindow:
    """Windows that begin with each `size` and grow by `step` until they fill it: "today so far", every hour.

    Examples
    --------
    >>> windows_of(W.cumulative("30 minutes", "10 minutes"))
    12:00 to 12:10: 2
    12:00 to 12:20: 4
    12:00 to 12:30: 5
    12:30 to 12:50: 1
    12:30 to 13:00: 2
    """
    size_us = positive_microseconds(size, "size")
    step_us = positive_microseconds(step, "step")
    if size_us % step_us:
        raise MuntinError(f"size must be a whole number of steps, got size={size!r} and step={step!r}.")
    return CumulativeWindow(check_name(name), microseconds(offset, "offset") % size_us, size_us, step_us)
