"""Streams for tests: each batch is one Parquet file, and a run processes what is there."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

Key = tuple[Any, ...]


class Feed:
    """A folder of batches. Spark takes one file per micro-batch, in the order in which they were added."""

    def __init__(self, spark: SparkSession, folder: Path, schema: str) -> None:
        self._spark = spark
        self._folder = folder
        self._schema = schema
        self._count = 0
        folder.mkdir()

    def add(self, *batches: pa.Table) -> None:
        for batch in batches:
            path = self._folder / f"{self._count:04d}.parquet"
            pq.write_table(batch, path)
            os.utime(path, (1_000_000 + self._count, 1_000_000 + self._count))
            self._count += 1

    def stream(self) -> DataFrame:
        return self._spark.readStream.schema(self._schema).option("maxFilesPerTrigger", 1).parquet(str(self._folder))

    def table(self) -> DataFrame:
        return self._spark.read.schema(self._schema).parquet(str(self._folder))


def run(frame: DataFrame, place: Path) -> StreamingQuery:
    """Process everything that is there, into Parquet files at `place`; a second run continues from the first."""
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(place / "out"))
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def results(spark: SparkSession, frame: DataFrame, place: Path) -> list[Row]:
    return spark.read.schema(frame.schema).parquet(str(place / "out")).collect()


def keyed(rows: Sequence[Row], *keys: str, only: str | None = None) -> dict[Key, dict[str, Any]]:
    """Rows by window and keys, without the columns that only Muntin has; no row may come twice."""
    found: dict[Key, dict[str, Any]] = {}
    for row in rows:
        values = row.asDict()
        if only is not None and values["window_name"] != only:
            continue
        window = values.pop("window")
        key = (window.start, window.end, *(_hashable(values.pop(name)) for name in keys))
        assert key not in found, f"{key} came twice"
        found[key] = {n: v for n, v in values.items() if n not in ("window_id", "window_name", "late")}
    return found


def _hashable(value: Any) -> Any:
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def assert_same(ours: dict[Key, dict[str, Any]], sparks: dict[Key, dict[str, Any]]) -> None:
    assert ours.keys() == sparks.keys()
    for key, expected in sparks.items():
        for name, value in expected.items():
            assert same(ours[key][name], value), f"{name} of {key}: {ours[key][name]!r}, Spark has {value!r}"


def same(ours: Any, sparks: Any) -> bool:
    if isinstance(sparks, float) and isinstance(ours, float):
        if math.isnan(sparks) or math.isnan(ours):
            return math.isnan(sparks) and math.isnan(ours)
        return math.isclose(ours, sparks, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(sparks, list) and isinstance(ours, list):
        return len(ours) == len(sparks) and all(map(same, ours, sparks))
    return bool(ours == sparks) and type(ours) is type(sparks)
