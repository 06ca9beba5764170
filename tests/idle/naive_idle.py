"""The watermark of a stream that may be idle, from all of its batches so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from muntin.windows import CountWindow, PaneWindow, SessionWindow, SlideByTime, Window
from tests import naive


@dataclass(frozen=True)
class Batch:
    """A batch of a stream, as far as its watermark depends on it."""

    clock: int
    latest: dict[int, int | None]
    """The inputs that had data, with their latest event times; None where no row had one."""
    drains: bool = False


@dataclass
class Clock:
    """A stream of some inputs, each with its delay. Clock and event time have the same unit."""

    idle: int | None
    delays: Sequence[int]
    own: bool = False
    """Whether the inputs have watermarks of their own, of which only the slowest one's is known."""
    windows: Sequence[Window] = ()
    batches: list[Batch] = field(default_factory=list)

    def spark(self) -> int:
        """Spark's watermark of the next batch: that of the slowest input, from the batches before."""
        reached = [(self._latest(number) or 0) - delay for number, delay in enumerate(self.delays)]
        return max(0, min(0 if self._latest(i) is None else time for i, time in enumerate(reached)))

    def watermark(self, batch: Batch) -> int:
        """The watermark of the next batch."""
        reached, is_idle = [], False
        for number, delay in enumerate(self.delays):
            latest = self._latest(number)
            own = self.spark() if self.own or latest is None else latest - delay
            waited = self._waited(number, batch)
            if self.idle is not None and waited is not None and waited >= self.idle:
                own, is_idle = own + waited, True
            reached.append(own)
        found = max(self.spark(), min(reached)) if is_idle else self.spark()
        times = [latest for number in range(len(self.delays)) if (latest := self._latest(number)) is not None]
        if batch.drains and not batch.latest and times:
            found = max([found, *(_all_closed(window, max(times)) for window in self.windows)])
        self.batches.append(batch)
        return found

    def _waited(self, number: int, batch: Batch) -> int | None:
        """How long an input that has had rows has had nothing."""
        if number in batch.latest or self._latest(number) is None:
            return None
        return batch.clock - max(each.clock for each in self.batches if number in each.latest)

    def _latest(self, number: int) -> int | None:
        times = (each.latest.get(number) for each in self.batches)
        return max((time for time in times if time is not None), default=None)


def _all_closed(window: Window, latest: int) -> int:
    """The watermark at which nothing of a window is left to emit without new rows."""
    if isinstance(window, PaneWindow):
        return max([latest + 1, *(naive.end_of(window, i) for i in naive.windows_holding(window, latest))])
    if isinstance(window, SessionWindow):
        return latest + window.gap
    if isinstance(window, CountWindow) and window.max_wait is not None:
        return latest + window.max_wait
    if isinstance(window, SlideByTime):
        return next(end for end in range(latest - latest % window.every, 1 << 60, window.every) if end > latest)
    return latest + 1
