"""When to shed and how much, which the paper leaves to an expert: a rate for the next batch from those before it.

What a batch costs goes with the tuples that are kept, of this batch and of those before whose windows close now. So the
share that is kept goes down at once, by the ratio of the latency that is wanted to the one that was seen, and then not
again until that shows. Where rows come in faster than they are processed, the next batch will be longer than the last:
then that one counts, so that a burst is met before it has made a long batch. Up the share goes in small steps, since
what they cost is seen late, and not at all while the latency is about right. Down it also goes while the stream gets
ahead of the batches: where a source hands out no more than so much at a time, batches stay short and the backlog grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

TOO_LONG, TOO_SHORT, VERY_SHORT, AIM = 0.9, 0.6, 0.35, 0.75
"""Of the target: where shedding more begins, where shedding less begins, slowly and faster, and what a cut aims at."""
FASTEST_DOWN, UP, FASTER_UP = 0.2, 1.05, 1.2
"""By how much the kept share changes from one batch to the next."""
FORESEEN = 1.5
"""Of the target: a batch that is going to take so long is not waited for."""
LATELY = 3
"""So many batches tell how fast rows come in."""
FALLING = 0.9
"""A batch that took so much less than the one before shows that the last cut is at work."""
BEHIND = 0.7
"""By how much the kept share goes down where the backlog grows."""
FEWEST = 0.001
"""No less than this share is kept: what stays slow then is not slow because of its tuples."""
BETWEEN = 0.5
"""What Spark takes between two batches, at most, in seconds. A longer pause is one in which there was nothing to do."""
FALLING_BEHIND = 0.5
"""If event time passes by so much slower than the clock while there is no pause, the backlog grows."""
ENOUGH = 4
"""Fewer batches do not tell whether it does."""


@dataclass(frozen=True)
class Batch:
    """What a host has seen of a batch; times are in seconds."""

    started: float
    finished: float
    latest: float | None
    """The latest event time."""
    rate: float
    rows: int | None = None
    """How many came in, kept or not, if the tasks have told."""


def next_rate(target: float, batches: Sequence[Batch], now: float) -> float:
    """The share to shed of the batch that starts now, after these, the last of which comes last."""
    if not batches:
        return 0.0
    starts = [batch.started for batch in batches] + [now]
    took = [_duration(batch, starts[i + 1]) for i, batch in enumerate(batches)]
    last, rate = took[-1], batches[-1].rate
    works = rate > 0 and len(took) > 1 and last < FALLING * took[-2]
    kept = 1 - rate
    foreseen = last * _growth(batches, starts)
    if foreseen > FORESEEN * target and not works:
        kept *= max(AIM * target / foreseen, FASTEST_DOWN)
    elif last > TOO_LONG * target:
        kept *= 1.0 if works else max(AIM * target / last, FASTEST_DOWN)
    elif _falls_behind(batches, starts):
        kept *= BEHIND
    elif last < TOO_SHORT * target:
        kept *= FASTER_UP if last < VERY_SHORT * target else UP
    return min(max(1 - kept, 0.0), 1 - FEWEST)


def _duration(batch: Batch, next_started: float) -> float:
    return max(min(next_started - batch.started, batch.finished - batch.started + BETWEEN), 1e-3)


def _growth(batches: Sequence[Batch], starts: Sequence[float]) -> float:
    """The input rate by the processed rate: by how much more rows the next batch has than the last, if not fewer.

    A batch has what came in while the one before it ran.
    """
    lately = batches[-LATELY:]
    rows = [batch.rows for batch in lately if batch.rows is not None]
    since = starts[-2] - starts[-2 - len(lately)] if len(batches) > len(lately) else 0.0
    lasted = starts[-1] - starts[-2]
    if len(rows) < len(lately) or not rows[-1] or since <= 0 or lasted <= 0:  # clocks are set back at times
        return 1.0
    input_rate, processed_rate = sum(rows) / since, rows[-1] / lasted
    return max(input_rate / processed_rate, 1.0)


def _falls_behind(batches: Sequence[Batch], starts: Sequence[float]) -> bool:
    """Whether event time passed more slowly than the clock, over the last batches, and none of them had to wait."""
    busy = all(starts[i + 1] - batch.finished <= BETWEEN for i, batch in enumerate(batches))
    first, last = batches[0].latest, batches[-1].latest
    if len(batches) < ENOUGH or not busy or first is None or last is None:
        return False
    return last - first < (1 - FALLING_BEHIND) * (batches[-1].started - batches[0].started)
