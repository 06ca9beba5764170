"""When sampling is of no use, it stops for a while.

A query whose windows are all answered exactly, because they hold too little or differ too much, would pay for samples
that nobody reads. Two things tell that:

- The sizes of windows alone, in `CERTAIN` batches in a row, as with a quantile for which the budget is too small. Then
  nothing is sampled until windows close that a sample could answer.
- `PATIENCE` batches in a row in which no sample was good enough. Then nothing is sampled for as long as those took,
  then for twice as long, up to `LONGEST` times; in between, it is tried again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

PATIENCE = 8
CERTAIN = 2
LONGEST = 16
WHILE_SIZES_SAY_SO = 1 << 62
"""Behind all times."""


@dataclass(frozen=True)
class Pause:
    failed: int = 0
    """Batches in a row in which windows closed and no sample was good enough for any of them."""
    tried_from: int | None = None
    """The time from which on samples have been tried, in microseconds."""
    until: int | None = None

    def is_on(self, now: int) -> bool:
        return self.until is not None and now < self.until

    def after(self, now: int, helped: int, failed: int, hopeful: int) -> Pause:
        """The next one, if samples helped some windows with this batch and others not.

        `hopeful` are the windows without help that a sample within the budget may do for, as far as sizes tell.
        """
        tried_from = now if self.tried_from is None else self.tried_from
        if helped or (hopeful and self.until == WHILE_SIZES_SAY_SO):
            return Pause(0, now)
        if not failed:
            return replace(self, tried_from=tried_from)
        times = self.failed + 1
        if times >= CERTAIN and not hopeful:
            return Pause(times, tried_from, WHILE_SIZES_SAY_SO)
        if times < PATIENCE:
            return Pause(times, tried_from)
        until = now + min(2 ** (times - PATIENCE), LONGEST) * max(now - tried_from, 1)
        return Pause(times, until, until)
