"""Checkpoints of version 0.1.0 on Spark go on with the code of today."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.checkpoints.on_spark import BATCHES, QUERIES, SCHEMA, WRITTEN, batch, text, unpack
from tests.spark.streams import Feed, run


@pytest.mark.parametrize("name", QUERIES)
def test_old_checkpoints_go_on(spark: SparkSession, here: Path, name: str) -> None:
    expected = unpack(name, here)
    feed = Feed(spark, here / "input", SCHEMA)
    feed.add(*(batch(number) for number in range(WRITTEN, BATCHES)))
    frame = QUERIES[name](feed.stream())
    run(frame, here)
    # By its files: the sink's own log does not have the batches before.
    columns = frame.drop("window_time", "lateness").schema  # the recorded results are from before these columns
    emitted = spark.read.schema(columns).parquet(str(here / "out" / "*.parquet")).collect()
    assert text(emitted) == expected
