"""The input of the streams: small Parquet files with difficult rows, determined by the name of the feed.

Rows are out of order, some too late for all windows, some without a time, a key or a value. Values are eighths, so that
their sums are exact in any order: two runs can differ by rows, never by rounding.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = "ts timestamp, k string, v double, n long, x long"
SPAN = 10
"""Seconds of event time per file."""
KEYS = 7
_SECOND = 1_000_000


def write_feed(folder: Path, name: str, files: int, rows: int) -> None:
    """Write one file per micro-batch, ordered by modification time."""
    folder.mkdir(parents=True)
    for number in range(files):
        path = folder / f"{number:04d}.parquet"
        pq.write_table(_made(zlib.crc32(name.encode()), number, rows), path)
        os.utime(path, (1_000_000 + number, 1_000_000 + number))


def _made(seed: int, number: int, rows: int) -> pa.Table:
    random = np.random.default_rng([seed, number])
    begin = (1000 + number * SPAN) * _SECOND
    times = begin + random.integers(0, SPAN * _SECOND, rows)
    behind = random.random(rows)
    times -= np.where(behind < 0.3, random.integers(0, 2 * SPAN * _SECOND, rows), 0)  # out of order, mostly in time
    times -= np.where(behind < 0.03, 6 * SPAN * _SECOND, 0)  # too late for everything
    keys = random.integers(0, KEYS, rows)
    return pa.table(
        {
            "ts": _with_nulls(pa.array(times).cast(pa.timestamp("us", tz="UTC")), random, 0.02),
            "k": _with_nulls(pa.array([f"key-{key}" for key in keys]), random, 0.02),
            "v": _with_nulls(pa.array(random.integers(-4000, 4000, rows) / 8), random, 0.05),
            "n": pa.array(random.integers(0, 50, rows)),
            "x": pa.array(times // 1000),  # grows with time
        }
    )


def _with_nulls(values: pa.Array, random: np.random.Generator, share: float) -> pa.Array:
    return pa.compute.if_else(pa.array(random.random(len(values)) < share), pa.scalar(None, values.type), values)
