"""Pauses of sampling, while it is of no use.

If all windows are answered exactly, because they are too small or vary too much, samples are a waste. There are two
reasons for a pause:

- *Sizes*: the sizes of windows show that no sample can be good enough, as for a quantile with too small a budget. The
  pause ends when windows close that a sample could answer. Sizes are checked again when windows become smaller, and
  every `NOW_AND_THEN` batches. If a pane of the first batch has more groups than the budget has tuples, sampling starts
  with a pause.
- *Failures*: in `PATIENCE` batches in a row no sample was good enough. The first pause is as long as these batches
  took. Then sampling is tried again, and each further pause is twice as long, up to `LONGEST` times.

During a pause the query runs as without approximation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from muntin.arrays import Int64Array

PATIENCE = 8
LONGEST = 16
SMALLER = 7 / 8
"""Windows below this share of the size of others are worth a check."""
NOW_AND_THEN = 16
"""After this many batches, sizes are checked anyway: groups of other sizes may have as many tuples."""
WHILE_SIZES_SAY_SO = 1 << 62
"""The end of a pause by sizes: after all times."""


@dataclass(frozen=True)
class WindowSizes:
    """The average contents of a window."""

    tuples: float = 0.0
    groups: float = 0.0

    def is_smaller_than(self, other: WindowSizes) -> bool:
        return self.tuples < SMALLER * other.tuples or self.groups < SMALLER * other.groups


@dataclass(frozen=True)
class Pause:
    """The state of pauses. Its field names are those of the stored JSON."""

    failed: int = 0
    """Batches in a row in which windows closed and no sample was good enough for any of them."""
    tried_from: int | None = None
    """The time since which samples have been tried, in microseconds."""
    until: int | None = None
    blind: int | None = None
    """The latest time of an unsampled tuple, ingested in a pause: windows that contain it have no sample."""
    looked_at: WindowSizes = field(default_factory=WindowSizes)
    """The contents of windows when sizes were last checked."""
    overlooked: int = 0
    """Batches since then in which windows closed."""

    @classmethod
    def decode(cls, looked_at: Mapping[str, float] | None = None, **others: Any) -> Pause:
        """From a header; earlier versions stored fewer fields."""
        return cls(looked_at=WindowSizes(**looked_at or {}), **others)

    @property
    def is_first(self) -> bool:
        """Whether samples have never been tried."""
        return self.tried_from is None

    def from_the_start(self, now: int, groups: int) -> Pause:
        """A pause before the first sample, because a pane has this many groups."""
        return replace(self, tried_from=now, until=WHILE_SIZES_SAY_SO, looked_at=WindowSizes(groups=groups))

    def is_on(self, now: int) -> bool:
        return self.until is not None and now < self.until

    def with_unsampled(self, times: Int64Array) -> Pause:
        """The same after unsampled tuples with these times."""
        if not len(times):
            return self
        latest = int(times.max())
        return replace(self, blind=latest if self.blind is None else max(self.blind, latest))

    def looks_at(self, contents: WindowSizes) -> bool:
        """Whether to check if samples could answer windows with these contents."""
        if self.until != WHILE_SIZES_SAY_SO:
            return False
        return contents.is_smaller_than(self.looked_at) or self.overlooked + 1 >= NOW_AND_THEN

    def after(
        self,
        now: int,
        helped: int,
        failed: int,
        feasible: int,
        closed: bool = False,
        looked_at: WindowSizes | None = None,
    ) -> Pause:
        """The pause after a batch in which samples answered `helped` windows and failed for `failed` ones.

        `feasible` counts the windows not helped that, by their sizes, a sample within the budget might answer.
        `looked_at` is given if sizes were checked, and `closed` says whether any windows closed.
        """
        tried_from = now if self.tried_from is None else self.tried_from
        if helped or (feasible and self.until == WHILE_SIZES_SAY_SO):
            return Pause(0, now, blind=self.blind)
        if looked_at is None:
            observed = replace(self, overlooked=self.overlooked + closed)
        else:
            observed = replace(self, looked_at=looked_at, overlooked=0)
        if not failed:
            return replace(observed, tried_from=tried_from)
        times = self.failed + 1
        if not feasible:
            return replace(observed, failed=times, tried_from=tried_from, until=WHILE_SIZES_SAY_SO)
        if times < PATIENCE:
            return replace(observed, failed=times, tried_from=tried_from, until=None)
        until = now + min(2 ** (times - PATIENCE), LONGEST) * max(now - tried_from, 1)
        return replace(observed, failed=times, tried_from=until, until=until)
