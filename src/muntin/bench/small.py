"""The systems that small batches are compared of: Muntin, Spark in two ways, and two that do nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

import muntin
from muntin import aggregates as A
from muntin import windows as W
from muntin.spark.session import state_partitions
from muntin.spark.shards import shard_ids

KEYS = 1_000
SIZE, SLIDE = "60 seconds", "1 second"
DELAY = "1 second"
STATE = bytes(8192)
"""What the operator that does nothing writes."""

System: TypeAlias = Callable[[DataFrame], DataFrame]


def ours(frame: DataFrame) -> DataFrame:
    """The sum over the last minute, every second."""
    query = muntin.over(frame, W.sliding(SIZE, SLIDE), time="ts", watermark=DELAY, by="key")
    return query.agg(total=A.sum("value")).to_df().select("window", "key", "total")


def window(frame: DataFrame) -> DataFrame:
    """The same with Spark's sliding windows."""
    rows = frame.withWatermark("ts", DELAY)
    return rows.groupBy(F.window("ts", SIZE, SLIDE), "key").agg(F.sum("value").alias("total"))


def tiles(frame: DataFrame) -> DataFrame:
    """The same by hand: tumbling windows of a second, and sliding windows over them, as two chained aggregations."""
    rows = frame.withWatermark("ts", DELAY)
    tile = rows.groupBy(F.window("ts", SLIDE), "key").agg(F.sum("value").alias("total"))
    sliding = F.window(F.window_time("window"), SIZE, SLIDE)
    return tile.groupBy(sliding, "key").agg(F.sum("total").alias("total"))


def pass_through(frame: DataFrame) -> DataFrame:
    """Send the rows to Python, and return only their count."""

    def count_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array([sum(batch.num_rows for batch in batches)])], names=["count"])

    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]] = count_rows
    return frame.mapInArrow(function, "count long")


def no_op(frame: DataFrame) -> DataFrame:
    """The least that a stateful Python operator can do: a row from every task for every key, and one small value."""
    keys = shard_ids(state_partitions(frame.sparkSession))

    def count_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        count = sum(batch.num_rows for batch in batches)
        yield pa.record_batch([pa.array(keys, pa.int32()), pa.array([count] * len(keys))], names=["id", "count"])

    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]] = count_rows
    counted = frame.mapInArrow(function, "id int, count long").groupBy("id")
    return counted.transformWithStateInPandas(
        _WritesOneValue(), outputStructType="count long", outputMode="Append", timeMode="None"
    )


def in_own_workers(system: System) -> System:
    """The system in Python workers that no other system uses: Spark keeps workers apart by their environment."""

    def run(frame: DataFrame) -> DataFrame:
        environment: dict[str, str] = frame.sparkSession.sparkContext.environment
        environment["MUNTIN_BENCH"] = system.__name__
        try:
            return system(frame)
        finally:
            del environment["MUNTIN_BENCH"]

    return run


class _WritesOneValue(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self._value = handle.getValueState("value", T.StructType([T.StructField("value", T.BinaryType())]))

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        count = sum(int(frame["count"].sum()) for frame in rows)
        self._value.update((STATE,))
        yield pd.DataFrame({"count": [count]})

    def close(self) -> None:
        pass


def differences(first: DataFrame, second: DataFrame) -> int:
    """The number of windows that only one has, or whose totals differ."""
    other = second.withColumnRenamed("total", "other")
    both = first.join(other, ["window", "key"], "full_outer")
    unequal = F.abs(F.col("total") - F.col("other")) > 1e-6
    return both.where(F.col("total").isNull() | F.col("other").isNull() | unequal).count()
