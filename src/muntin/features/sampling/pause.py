"""When sampling is of no use, it stops for a while.

A query whose windows are all answered exactly, because they hold too little or differ too much, would pay for samples
that nobody reads. Two things tell that:

- The sizes of windows alone, as with a quantile for which the budget is too small. Then nothing is sampled until
  windows close that a sample could answer. For that, sizes are looked at again once windows have become smaller, and
  now and then. If a pane of what arrives first has more groups than the budget has tuples, nothing is sampled from the
  start.
- `PATIENCE` batches in a row in which no sample was good enough. Then nothing is sampled for as long as those took,
  then for twice as long, up to `LONGEST` times; in between, it is tried again.

In a pause the query does what it does without approximation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from muntin.arrays import Int64Array

PATIENCE = 8
LONGEST = 16
SMALLER = 7 / 8
"""Windows that hold so much of what others held may be answered where those were not."""
NOW_AND_THEN = 16
"""After so many batches, others may, too: groups of other sizes can be as many tuples."""
WHILE_SIZES_SAY_SO = 1 << 62
"""Behind all times."""


@dataclass(frozen=True)
class WindowSizes:
    """What windows hold, on average."""

    tuples: float = 0.0
    groups: float = 0.0

    def is_smaller_than(self, other: WindowSizes) -> bool:
        return self.tuples < SMALLER * other.tuples or self.groups < SMALLER * other.groups


@dataclass(frozen=True)
class Pause:
    failed: int = 0
    """Batches in a row in which windows closed and no sample was good enough for any of them."""
    tried_from: int | None = None
    """The time from which on samples have been tried, in microseconds."""
    until: int | None = None
    blind: int | None = None
    """The latest time of a tuple that came in a pause and was not sampled: windows over it have no sample."""
    looked_at: WindowSizes = field(default_factory=WindowSizes)
    """What windows held when sizes were last looked at."""
    overlooked: int = 0
    """Batches in a row since then in which windows closed."""

    @classmethod
    def decode(cls, looked_at: Mapping[str, float] | None = None, **others: Any) -> Pause:
        """From what a header says; one that was written by an earlier version says less."""
        return cls(looked_at=WindowSizes(**looked_at or {}), **others)

    @property
    def is_first(self) -> bool:
        """Whether nothing has been tried yet."""
        return self.tried_from is None

    def from_the_start(self, now: int, groups: int) -> Pause:
        """One before anything is tried, for a pane has so many groups."""
        return replace(self, tried_from=now, until=WHILE_SIZES_SAY_SO, looked_at=WindowSizes(groups=groups))

    def is_on(self, now: int) -> bool:
        return self.until is not None and now < self.until

    def with_unsampled(self, times: Int64Array) -> Pause:
        """The same, with tuples of these times that are not sampled."""
        if not len(times):
            return self
        latest = int(times.max())
        return replace(self, blind=latest if self.blind is None else max(self.blind, latest))

    def looks_at(self, held: WindowSizes) -> bool:
        """Whether it is worth a look if windows that hold so much could be answered from samples again."""
        if self.until != WHILE_SIZES_SAY_SO:
            return False
        return held.is_smaller_than(self.looked_at) or self.overlooked + 1 >= NOW_AND_THEN

    def after(
        self,
        now: int,
        helped: int,
        failed: int,
        feasible: int,
        closed: bool = False,
        looked_at: WindowSizes | None = None,
    ) -> Pause:
        """The next one, if samples helped some windows with this batch and others not.

        `feasible` are the windows without help that a sample within the budget may do for, as far as sizes tell; these
        were looked at if it is said what windows hold. `closed` if any windows have.
        """
        tried_from = now if self.tried_from is None else self.tried_from
        if helped or (feasible and self.until == WHILE_SIZES_SAY_SO):
            return Pause(0, now, blind=self.blind)
        if looked_at is None:
            seen = replace(self, overlooked=self.overlooked + closed)
        else:
            seen = replace(self, looked_at=looked_at, overlooked=0)
        if not failed:
            return replace(seen, tried_from=tried_from)
        times = self.failed + 1
        if not feasible:
            return replace(seen, failed=times, tried_from=tried_from, until=WHILE_SIZES_SAY_SO)
        if times < PATIENCE:
            return replace(seen, failed=times, tried_from=tried_from, until=None)
        until = now + min(2 ** (times - PATIENCE), LONGEST) * max(now - tried_from, 1)
        return replace(seen, failed=times, tried_from=until, until=until)
