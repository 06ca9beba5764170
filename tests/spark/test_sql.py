"""Statements over tables and streams of Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import muntin
from tests.spark.streams import Feed, results, run
from tests.spark.test_updates import SCHEMA, rides


def test_statements_give_the_rows_of_sparks_own_windows(spark: SparkSession, here: Path) -> None:
    """With a filter, expressions and a key that is computed: a table by both syntaxes, and a view of a stream."""
    feed = Feed(spark, here / "in", SCHEMA)
    feed.add(rides(0), rides(1))
    feed.table().createOrReplaceTempView("rides")
    select = "SELECT {bounds}, upper(k), COUNT(*) AS n, SUM(v + 1) FILTER (WHERE v % 2 = 0) AS odd, MEDIAN(v) AS m"
    ours = f"""
        {select.format(bounds="window_start, window_end")}
        FROM TABLE(HOP(TABLE rides, DESCRIPTOR(ts), INTERVAL '10' MINUTES, INTERVAL '30' MINUTES)) t
        WHERE v > 3 AND t.k IS NOT NULL
        GROUP BY window_start, window_end, upper(k)
    """
    sparks = f"""
        {select.format(bounds="window.start, window.end")} FROM rides t WHERE v > 3 AND t.k IS NOT NULL
        GROUP BY window(ts, '30 minutes', '10 minutes'), upper(k)
    """
    expected = sorted(tuple(row) for row in spark.sql(sparks).collect())
    columns = ["window.start", "window.end", "`upper(k)`", "n", "odd", "m"]
    for statement in (ours, sparks):
        found = muntin.sql(spark, statement).to_df().select(*columns).collect()
        assert sorted(map(tuple, found)) == expected

    with pytest.raises(muntin.MuntinError, match=r"line 4, column 15, at 'nope > 3 AND t\.k.*nope"):
        muntin.sql(spark, ours.replace("v > 3", "nope > 3"))

    feed.stream().createOrReplaceTempView("streamed")
    frame = muntin.sql(spark, ours.replace("rides", "streamed"), watermark="5 minutes").to_df()
    run(frame, here / "out")
    closed = sorted(
        tuple(row) for row in spark.createDataFrame(results(spark, frame, here / "out")).select(*columns).collect()
    )
    latest = feed.table().agg(F.max("ts")).collect()[0][0]
    assert 0 < len(closed) < len(expected)
    assert all(row[1] <= latest for row in closed)
