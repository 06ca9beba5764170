"""Quotes for the parallel benchmark: of one key or a few, at an even rate or in bursts, in batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from muntin.arrays import Float64Array, Int64Array
from muntin.bench.data_sets import SECOND, TIME
from muntin.bench.steady import EPOCH


def quotes(times: Int64Array, seed: int, keys: Int64Array | None = None) -> pa.Table:
    """Quotes at the given times, with oscillating and noisy prices."""
    rng = np.random.default_rng(seed)
    seconds = (times - EPOCH) / SECOND
    prices = 100 + 0.5 * np.sin(seconds * 2.1) + 0.1 * np.sin(seconds * 20.3) + rng.normal(0, 0.02, len(times))
    of_keys = np.zeros(len(times), dtype=np.int32) if keys is None else keys.astype(np.int32)
    return pa.table({"ts": pa.array(times).cast(TIME), "key": pa.array(of_keys), "value": pa.array(prices)})


def even(rate: int, lengths: Sequence[float]) -> Iterable[pa.Table]:
    """A stream of `rate` quotes per second, in batches of `lengths` seconds.

    Quotes are evenly spaced, so that a chunk of a number of tuples covers a fixed length of time.
    """
    begin = 0
    for batch, length in enumerate(lengths):
        end = begin + round(rate * length)
        yield quotes(EPOCH + np.arange(begin, end) * SECOND // rate, seed=batch)
        begin = end


def bursts(sizes: Sequence[Sequence[int]], length: int) -> Iterable[pa.Table]:
    """Batches of consecutive windows of `length` microseconds. `sizes` are the quotes of each window, per batch."""
    begin = EPOCH
    for batch, of_windows in enumerate(sizes):
        times = []
        for size in of_windows:
            times.append(begin + np.arange(size) * length // size)
            begin += length
        yield quotes(np.concatenate(times), seed=batch)


def heavy_tailed(windows: int, mean: int, spread: float, seed: int) -> Int64Array:
    """Lognormal window sizes with the given mean, as in bursts at the opening of a market."""
    drawn: Float64Array = np.random.default_rng(seed).lognormal(0, spread, windows)
    return np.asarray(np.maximum(drawn * mean / drawn.mean(), 10), dtype=np.int64)


def periodic(windows: int, mean: int, period: int, times: int) -> Int64Array:
    """Window sizes where every `period`-th window is `times` times as large as the others."""
    shape = np.where(np.arange(windows) % period == 0, float(times), 1.0)
    return np.asarray(shape * mean / shape.mean(), dtype=np.int64)


def hot_key(rate: int, lengths: Sequence[float], keys: int, share: float) -> Iterable[pa.Table]:
    """An even stream of many keys. The first key has `share` of the quotes."""
    begin = 0
    for batch, length in enumerate(lengths):
        end = begin + round(rate * length)
        rng = np.random.default_rng(batch)
        of_quotes = np.where(rng.random(end - begin) < share, 0, rng.integers(1, keys, end - begin))
        yield quotes(EPOCH + np.arange(begin, end) * SECOND // rate, seed=batch, keys=of_quotes)
        begin = end
