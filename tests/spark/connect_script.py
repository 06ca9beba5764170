"""Run by test_connect in a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import muntin
from muntin import aggregates as A
from muntin import windows as W
from tests.spark.streams import Feed, assert_same, keyed, results, run


def main(place: Path) -> None:
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    muntin.configure(spark)
    feed = Feed(spark, place / "in", "ts timestamp, k string, v long")
    for index in range(3):
        times = [(index * 20 + second) * 1_000_000 for second in range(20)]
        feed.add(
            pa.table(
                {
                    "ts": pa.array(times).cast(pa.timestamp("us", tz="UTC")),
                    "k": [f"k{second % 3}" for second in range(20)],
                    "v": pa.array(range(20), pa.int64()),
                }
            )
        )
    cells = [F.count(F.lit(1)).alias("n"), F.sum("v").alias("s")]
    window = F.window("ts", "10 seconds", "5 seconds")

    def ours(frame: object) -> muntin.Query:
        query = muntin.over(
            frame,  # type: ignore[arg-type]
            W.sliding("10 seconds", "5 seconds"),
            time="ts",
            watermark="2 seconds",
            by="k",
        )
        return query.agg(n=A.count(), s=A.sum("v"), some=A.count(where=F.col("v") > 5))

    table = ours(feed.table()).to_df().drop("some")
    assert_same(keyed(table.collect(), "k"), keyed(feed.table().groupBy(window, "k").agg(*cells).collect(), "k"))

    stream = ours(feed.stream()).to_df()
    handle = run(stream, place / "ours")
    judge = feed.stream().withWatermark("ts", "2 seconds").groupBy(window, "k").agg(*cells)
    run(judge, place / "spark")
    expected = keyed(results(spark, judge, place / "spark"), "k")
    assert expected
    assert_same(keyed(results(spark, stream, place / "ours"), "k"), expected)
    assert muntin.progress(handle).rows == 60, muntin.progress(handle)
    print("connect: streams and tables agree with Spark")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
