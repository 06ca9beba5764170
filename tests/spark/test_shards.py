"""Shard ids, against Spark's own hash."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from muntin.spark.shards import shard_ids


@pytest.mark.parametrize("partitions", [1, 2, 3, 8, 200])
def test_each_id_has_a_partition_of_its_own(spark: SparkSession, partitions: int) -> None:
    ids = shard_ids(partitions)
    frame = spark.createDataFrame([(each,) for each in ids], "id int")
    hashed = frame.select(F.expr(f"pmod(hash(id), {partitions})").alias("partition")).collect()
    assert [row.partition for row in hashed] == list(range(partitions))
    assert 0 in ids
