"""Means by group as streams on Spark, with many rare groups, shed by either method."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import muntin
from muntin import aggregates as A
from muntin import windows as W
from muntin.bench.core import slides
from muntin.bench.data_sets import MINUTE, TIME, DataSet, zipf_keys
from muntin.bench.shed_core import AT, MEAN
from muntin.bench.steady import EPOCH, stream
from muntin.durations import describe
from muntin.features.shedding.policy import Method

SPARK_WARM_UP, SPARK_BATCHES = 2, 5
"""Batches that do not count, and all batches."""
CLOSING_WARM_UP, CLOSING_BATCHES = 2, 12
"""The same for streams where a window closes with each batch."""
SLIDE = 10 * MINUTE
UNIFORM: Final[Method] = "uniform"
CONCEPT: Final[Method] = "concept"


def rides_on_spark(rows: int) -> Iterator[pa.Table]:
    """One batch per slide."""
    rng = np.random.default_rng(9)
    for batch in range(SPARK_BATCHES):
        times = EPOCH + batch * SLIDE + np.arange(rows) * SLIDE // rows
        columns = {
            "ts": pa.array(times).cast(TIME),
            "key": pa.array(zipf_keys(rows, rng).astype(np.int32)),
            "value": pa.array(rng.lognormal(2.3, 0.6, rows)),
        }
        yield pa.table(columns)


def fares_on_spark(spark: SparkSession, folder: Path, method: Method | None, rate: float = AT) -> DataFrame:
    """The mean fare of every route, in the windows of Katsipoulakis et al. (2018), *CoD*."""
    window = W.sliding("30 minutes", "10 minutes")
    query = muntin.over(stream(spark, folder), window, time="ts", watermark="1 second", by="key")
    query = query.agg(fare=A.mean("value"))
    return (query if method is None else query.shed(rate=rate, method=method, incremental=False)).to_df()


def slides_on_spark(data: DataSet) -> Iterator[pa.Table]:
    """One batch per slide. Each but the first closes the window that the batch before it has completed."""
    return (tuples for _, tuples in islice(slides(data), CLOSING_BATCHES))


def means_on_spark(spark: SparkSession, folder: Path, data: DataSet, method: Method, rate: float) -> DataFrame:
    """The query of the benchmark without an engine, as a stream of these batches."""
    frame = stream(spark, folder, spark.read.parquet(str(folder)).schema)
    window = W.sliding(describe(data.size), describe(data.slide))
    query = muntin.over(frame, window, time="time", watermark="1 second", by=list(data.keys))
    return query.agg(answer=MEAN).shed(rate=rate, method=method, incremental=False).to_df()
