"""Streams on Spark whose checkpoints were written by version 0.1.0: `spark/NAME.tar.gz`, and what came after them.

A checkpoint holds the state of the first batches. `spark/NAME.json` has what the same version emitted in the batches
behind them. As with the states beside them, never make them anew with later code.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import muntin
from muntin import aggregates as A
from muntin import windows as W

FOLDER = Path(__file__).parent / "spark"
SCHEMA = "t timestamp, k string, x double, n long"
BATCHES, WRITTEN = 6, 3
WRITTEN_AT = "file:/tmp/fixture/"
Build = Callable[[DataFrame], DataFrame]


def windows(stream: DataFrame) -> DataFrame:
    models = [
        W.sliding("30 seconds", "10 seconds", name="sliding"),
        W.session("5 seconds", name="session"),
        W.count(8, 4, name="count"),
    ]
    return (
        muntin.over(stream, *models, time="t", watermark="10 seconds", by="k")
        .agg(rows=A.count(), total=A.sum("n", where="n > 3"), mean=A.mean("x"), median=A.median("x"))
        .compress(after="10 seconds")
        .late("emit")
        .to_df()
    )


def pairs(stream: DataFrame) -> DataFrame:
    left = stream.where("n % 2 = 0").select("t", "k", "x")
    right = stream.where("n % 2 = 1").select("t", "k", F.col("n").alias("m"))
    joined = muntin.join(left, right, W.sliding("20 seconds", "10 seconds"), on="k", time="t", watermark="10 seconds")
    return joined.agg(pairs=A.count(), total=A.sum("m"), mean=A.mean("x")).to_df()


QUERIES: Mapping[str, Build] = {"windows": windows, "pairs": pairs}


def batch(number: int) -> pa.Table:
    """Out of order, a few late, one without a time; all floats are exact in binary."""
    rows = range(60)
    times = [1_700_000_000 + number * 20 + (i * 37) % 20 - (45 if i % 29 == 0 else 0) for i in rows]
    stamps = [None if i == 17 else seconds * 1_000_000 for i, seconds in enumerate(times)]
    return pa.table(
        {
            "t": pa.array(stamps, pa.timestamp("us", tz="UTC")),
            "k": [None if i % 13 == 0 else "abc"[i % 3] for i in rows],
            "x": [((i * 7 + number) % 16) / 8 for i in rows],
            "n": [(i * 5 + number) % 11 for i in rows],
        }
    )


def text(rows: list[Any]) -> list[str]:
    """Rows as JSON, with times in microseconds, in any order."""
    return sorted(json.dumps(_plain(row.asDict(recursive=True))) for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return round(value.timestamp() * 1_000_000)
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return value


def unpack(name: str, place: Path) -> list[str]:
    """The checkpoint of 0.1.0 at `place`, and what it has to emit when it goes on."""
    with tarfile.open(FOLDER / f"{name}.tar.gz") as archive:
        archive.extractall(place, filter="data")
    for note in (place / "checkpoint" / "state").glob("*/_metadata/*/*"):  # Spark notes where the checkpoint is
        note.write_text(note.read_text().replace(WRITTEN_AT, f"file:{place}/"))
    emitted: list[str] = json.loads((FOLDER / f"{name}.json").read_text())
    return emitted
