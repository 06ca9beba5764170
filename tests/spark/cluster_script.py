"""Run by test_cluster in a process of its own."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import muntin
from muntin import aggregates as A
from muntin import windows as W
from tests.spark.cluster import HERE, cluster
from tests.spark.streams import Feed, assert_same, keyed, results, run

SCHEMA = "ts timestamp, k string, v long"
SPAN = 20
"""Seconds of event time in a batch."""


def main(place: Path) -> None:
    with cluster(place) as address:
        spark = (
            SparkSession.builder.master(address)
            .appName("cluster")
            .config("spark.driver.host", HERE)
            .config("spark.driver.bindAddress", HERE)
            .config("spark.ui.enabled", "false")
            .config("spark.executor.memory", "512m")
            .config("spark.locality.wait", "0")  # so that shards move from worker to worker
            .getOrCreate()
        )
        muntin.configure(spark, shards=4)
        check_results(spark, place)
        check_latency(spark, place, "keyed")
        check_latency(spark, place, "agnostic")
        spark.stop()
    print("cluster: streams and tables agree with Spark, and all workers shed")


def made(batch: int, rows: int) -> pa.Table:
    random = np.random.default_rng(batch)
    times = np.sort(random.integers(batch * SPAN * 1_000_000, (batch + 1) * SPAN * 1_000_000, rows))
    return pa.table(
        {
            "ts": pa.array(times).cast(pa.timestamp("us", tz="UTC")),
            "k": [f"k{key}" for key in random.integers(0, 30, rows)],
            "v": pa.array(random.integers(0, 1000, rows)),
        }
    )


def check_results(spark: SparkSession, place: Path) -> None:
    """With a restart in the middle; tuples are kept and compressed, and ranks meet from all shards."""
    feed = Feed(spark, place / "in", SCHEMA)
    cells = [F.count(F.lit(1)).alias("n"), F.sum("v").alias("s"), F.median("v").alias("mid")]

    def ours(frame: DataFrame) -> muntin.Query:
        window = W.sliding("30 seconds", "5 seconds")
        query = muntin.over(frame, window, time="ts", watermark="2 seconds", by="k")
        return query.agg(n=A.count(), s=A.sum("v"), mid=A.median("v")).compress(after="10 seconds")

    for first in (0, 3):
        feed.add(*(made(batch, 2000) for batch in range(first, first + 3)))
        stream = ours(feed.stream()).to_df()
        run(stream, place / "ours")
    expected = keyed(feed.table().groupBy(F.window("ts", "30 seconds", "5 seconds"), "k").agg(*cells).collect(), "k")
    assert_same(keyed(ours(feed.table()).to_df().collect(), "k"), expected)
    streamed = keyed(results(spark, stream, place / "ours"), "k")
    assert len(streamed) > 500
    assert_same(streamed, {window: values for window, values in expected.items() if window in streamed})
    ranked = ours(feed.table()).top(3, by="s").to_df().collect()
    assert len(ranked) == 3 * len({window[:2] for window in expected})


def slowly(tuples: pa.Table) -> pa.Table:
    """Takes a millisecond for every tuple."""
    time.sleep(tuples.num_rows / 1000)
    return pa.table({"n": [tuples.num_rows]})


def check_latency(spark: SparkSession, place: Path, model: Literal["keyed", "agnostic"]) -> None:
    """Every batch closes a window of 4,000 tuples, which takes four seconds on one worker; more than two are too many.

    Tuples come in on both. The one that has nothing to do with the window hears of it, and sheds as well.
    """
    feed = Feed(spark, place / f"{model}-in", SCHEMA)
    feed.add(*(made(batch, 4000) for batch in range(9)))
    base = muntin.over(feed.stream().repartition(2), W.tumbling(f"{SPAN} seconds"), time="ts", watermark="1 second")
    query = base.apply(slowly, "n long").shed(target_latency="2 seconds").parallel(model=model)
    handle = run(query.to_df(), place / model)
    told = muntin.progress(handle)
    assert told.rows == 9 * 4000
    assert told.shed_rows > 4000
    notes = [max(worker.glob("muntin-*/*/load"), key=lambda load: load.stat().st_mtime) for worker in workers(place)]
    rates = [[json.loads((of / f"start-{batch}").read_text())[1] for batch in range(9)] for of in notes]
    assert len(rates) == 2
    assert all(max(of_worker) > 0.3 for of_worker in rates), f"{model}: {rates}"
    assert all(any(of.glob("heard-*")) for of in notes)


def workers(place: Path) -> list[Path]:
    return sorted(folder for folder in place.glob("worker-*") if folder.is_dir())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
