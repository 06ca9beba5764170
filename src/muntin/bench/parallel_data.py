"""Quotes for the parallel benchmark: one key or a few, at an even rate or in bursts, as files of batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from muntin.arrays import Float64Array, Int64Array
from muntin.bench.data_sets import SECOND, TIME
from muntin.bench.steady import EPOCH


def quotes(times: Int64Array, seed: int, keys: Int64Array | None = None) -> pa.Table:
    """Prices that swing, with noise on them."""
    rng = np.random.default_rng(seed)
    seconds = (times - EPOCH) / SECOND
    prices = 100 + 0.5 * np.sin(seconds * 2.1) + 0.1 * np.sin(seconds * 20.3) + rng.normal(0, 0.02, len(times))
    of_keys = np.zeros(len(times), dtype=np.int32) if keys is None else keys.astype(np.int32)
    return pa.table({"ts": pa.array(times).cast(TIME), "key": pa.array(of_keys), "value": pa.array(prices)})


def even(rate: int, lengths: Sequence[float]) -> Iterable[pa.Table]:
    """A stream of so many quotes a second, in batches of so many seconds.

    They are evenly spaced, so that chunks of a number of tuples are chunks of a length of time.
    """
    begin = 0
    for batch, length in enumerate(lengths):
        end = begin + round(rate * length)
        yield quotes(EPOCH + np.arange(begin, end) * SECOND // rate, seed=batch)
        begin = end


def bursts(sizes: Sequence[Sequence[int]], length: int) -> Iterable[pa.Table]:
    """Batches of windows of `length` microseconds, one after the other, each with so many quotes."""
    begin = EPOCH
    for batch, of_windows in enumerate(sizes):
        times = []
        for size in of_windows:
            times.append(begin + np.arange(size) * length // size)
            begin += length
        yield quotes(np.concatenate(times), seed=batch)


def heavy_tailed(windows: int, mean: int, spread: float, seed: int) -> Int64Array:
    """How many quotes the windows have: lognormal, as bursts at the open of a market are, around a mean."""
    drawn: Float64Array = np.random.default_rng(seed).lognormal(0, spread, windows)
    return np.asarray(np.maximum(drawn * mean / drawn.mean(), 10), dtype=np.int64)


def periodic(windows: int, mean: int, period: int, times: int) -> Int64Array:
    """Every so many-th window is so many times larger than the others."""
    shape = np.where(np.arange(windows) % period == 0, float(times), 1.0)
    return np.asarray(shape * mean / shape.mean(), dtype=np.int64)


def hot_key(rate: int, lengths: Sequence[float], keys: int, share: float) -> Iterable[pa.Table]:
    """An even stream of many keys, of which the first has such a share of the quotes."""
    begin = 0
    for batch, length in enumerate(lengths):
        end = begin + round(rate * length)
        rng = np.random.default_rng(batch)
        of_quotes = np.where(rng.random(end - begin) < share, 0, rng.integers(1, keys, end - begin))
        yield quotes(EPOCH + np.arange(begin, end) * SECOND // rate, seed=batch, keys=of_quotes)
        begin = end
