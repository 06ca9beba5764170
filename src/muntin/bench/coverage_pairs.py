"""How often the interval of a count of pairs holds, after both sides of a join were shed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from muntin.arrays import Float64Array, Int64Array
from muntin.bench.coverage_core import CONFIDENCES, MADE, PAIRS, Covered, Setting
from muntin.features.shedding.scaled import Measure, Scaled
from muntin.joins.kept_pairs import AllPairs, KeptPairs
from muntin.joins.names import PLACES, WEIGHTS

ROWS, KEPT = 30, 10
"""Of each side of a window."""
COUNTING = Measure("counts", None)


def shed_share() -> float:
    """The share of each side that is shed."""
    return 1 - KEPT / ROWS


def measure_pairs(setting: Setting, windows: int, seed: int) -> list[Covered]:
    """Pairs count if the left value is greater. A third of each side is kept."""
    made = setting.made
    random = np.random.default_rng([seed, *made.encode()])
    left, right = (MADE[made](random, (windows, ROWS)) for _ in range(2))
    truth = (left[:, :, None] > right[:, None, :]).sum((1, 2)).astype(np.float64)
    kept = [np.argsort(random.random((windows, ROWS)), axis=1)[:, :KEPT] for _ in range(2)]
    pairs, number = _pairs(left, right, kept[0], kept[1])
    found = KeptPairs.of([COUNTING], [pa.array(number)], pairs)
    quality = found.quality(np.arange(windows), 0.95)
    results = []
    for confidence in CONFIDENCES:
        of_all = AllPairs(quality.size.astype(np.float64), found.doubt(confidence))
        interval = of_all.interval(Scaled("count", COUNTING), found.moments[0])
        covered = (interval.low <= truth) & (truth <= interval.high)
        with np.errstate(all="ignore"):
            widths = (interval.high - interval.low) / truth
        width = float(np.median(widths[np.isfinite(widths)])) if np.isfinite(widths).any() else np.nan
        results.append(Covered(setting, PAIRS, confidence, windows, windows, int(covered.sum()), width))
    return results


def _pairs(
    left: Float64Array, right: Float64Array, kept_left: Int64Array, kept_right: Int64Array
) -> tuple[pa.RecordBatch, Int64Array]:
    """All pairs of kept rows, and the number of each one's window."""
    windows = len(left)
    number = np.repeat(np.arange(windows), KEPT * KEPT)
    of_left, of_right = np.repeat(kept_left, KEPT, axis=1).ravel(), np.tile(kept_right, (1, KEPT)).ravel()
    weight = np.full(len(number), ROWS / KEPT)
    columns = {
        "counts": left[number, of_left] > right[number, of_right],
        WEIGHTS["left"]: weight,
        WEIGHTS["right"]: weight,
        PLACES["left"]: of_left,
        PLACES["right"]: of_right,
    }
    return pa.record_batch([pa.array(column) for column in columns.values()], names=list(columns)), number
