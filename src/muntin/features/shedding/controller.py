"""The controller of the shedding rate, which the paper leaves to an expert: the rate of the next batch from past ones.

The cost of a batch depends on its kept tuples and on those of earlier batches whose windows close now.

- *Too slow*: the kept share drops at once, by the ratio of the target latency to the measured one. It does not drop
  again until the cut has taken effect.
- *A burst*: if rows arrive faster than they are processed, the next batch will be longer than the last. Its expected
  latency counts, so the cut comes before the long batch.
- *Too fast*: the kept share rises in small steps, because their cost shows late. It stays while the latency is about
  right.
- *Falling behind*: if a source limits its batches, they stay short while the backlog grows. Then the share drops, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

TOO_LONG, TOO_SHORT, VERY_SHORT, AIM = 0.9, 0.6, 0.35, 0.75
"""Shares of the target: above the first, more is shed; below the others, less and much less. Cuts aim at `AIM`."""
FASTEST_DOWN, UP, FASTER_UP = 0.2, 1.05, 1.2
"""Factors of the kept share from one batch to the next."""
FORESEEN = 1.5
"""An expected latency above this multiple of the target is acted upon before the batch runs."""
RECENT = 3
"""Batches from which the input rate is measured."""
FALLING = 0.9
"""If a batch took less than this share of the one before, the last cut is taking effect."""
BEHIND = 0.7
"""The factor of the kept share while the backlog grows."""
FEWEST = 0.001
"""The smallest kept share: a batch that is still slow is not slow because of its tuples."""
BETWEEN = 0.5
"""The most seconds that Spark needs between two batches. After a longer pause, the stream had nothing to do."""
FALLING_BEHIND = 0.5
"""The backlog grows if event time is slower than the clock by this share while no batch waits."""
ENOUGH = 4
"""The fewest batches from which this is judged."""


@dataclass(frozen=True)
class Batch:
    """A batch as a host observed it; times are in seconds."""

    started: float
    finished: float
    latest: float | None
    """The latest event time."""
    rate: float
    rows: int | None = None
    """Rows received, kept or not; None if the tasks have not reported them."""


def next_rate(target: float, batches: Sequence[Batch], now: float) -> float:
    """The share to shed in the batch that starts now; `batches` are the ones before it, in order."""
    if not batches:
        return 0.0
    starts = [batch.started for batch in batches] + [now]
    durations = [_duration(batch, starts[i + 1]) for i, batch in enumerate(batches)]
    last, rate = durations[-1], batches[-1].rate
    is_working = rate > 0 and len(durations) > 1 and last < FALLING * durations[-2]
    kept = 1 - rate
    foreseen = last * _growth(batches, starts)
    if foreseen > FORESEEN * target and not is_working:
        kept *= max(AIM * target / foreseen, FASTEST_DOWN)
    elif last > TOO_LONG * target:
        kept *= 1.0 if is_working else max(AIM * target / last, FASTEST_DOWN)
    elif _falls_behind(batches, starts):
        kept *= BEHIND
    elif last < TOO_SHORT * target:
        kept *= FASTER_UP if last < VERY_SHORT * target else UP
    return min(max(1 - kept, 0.0), 1 - FEWEST)


def _duration(batch: Batch, next_started: float) -> float:
    return max(min(next_started - batch.started, batch.finished - batch.started + BETWEEN), 1e-3)


def _growth(batches: Sequence[Batch], starts: Sequence[float]) -> float:
    """The expected growth of the next batch, at least 1: the input rate over the processing rate.

    A batch contains the rows that arrived while the one before it ran.
    """
    recent = batches[-RECENT:]
    rows = [batch.rows for batch in recent if batch.rows is not None]
    seconds = starts[-2] - starts[-2 - len(recent)] if len(batches) > len(recent) else 0.0
    duration = starts[-1] - starts[-2]
    if len(rows) < len(recent) or not rows[-1] or seconds <= 0 or duration <= 0:  # a clock may be set back
        return 1.0
    input_rate, processed_rate = sum(rows) / seconds, rows[-1] / duration
    return max(input_rate / processed_rate, 1.0)


def _falls_behind(batches: Sequence[Batch], starts: Sequence[float]) -> bool:
    """Whether event time was slower than the clock over these batches, and none of them waited for rows."""
    busy = all(starts[i + 1] - batch.finished <= BETWEEN for i, batch in enumerate(batches))
    first, last = batches[0].latest, batches[-1].latest
    if len(batches) < ENOUGH or not busy or first is None or last is None:
        return False
    return last - first < (1 - FALLING_BEHIND) * (batches[-1].started - batches[0].started)
