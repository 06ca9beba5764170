"""When sampling is of no use, it stops for a while.

A query whose windows are all answered exactly, because they hold too little or differ too much, would pay for samples
that nobody reads. After `PATIENCE` batches in a row in which no sample was good enough, nothing is sampled for as long
as those took, then for twice as long, up to `LONGEST` times; in between, it is tried again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

PATIENCE = 8
LONGEST = 16


@dataclass(frozen=True)
class Pause:
    failed: int = 0
    """Batches in a row in which windows closed and no sample was good enough for any of them."""
    tried_from: int | None = None
    """The time from which on samples have been tried, in microseconds."""
    until: int | None = None

    def is_on(self, now: int) -> bool:
        return self.until is not None and now < self.until

    def after(self, now: int, helped: int, failed: int) -> Pause:
        """The next one, if samples helped some windows with this batch and others not."""
        tried_from = now if self.tried_from is None else self.tried_from
        if helped:
            return Pause(0, now)
        if not failed:
            return replace(self, tried_from=tried_from)
        times = self.failed + 1
        if times < PATIENCE:
            return Pause(times, tried_from)
        until = now + min(2 ** (times - PATIENCE), LONGEST) * max(now - tried_from, 1)
        return Pause(times, until, until)
