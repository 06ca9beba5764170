"""Watermarks that rows carry: Spark's windows under the same watermark are the judge."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import muntin
from muntin import MuntinError
from muntin import aggregates as A
from muntin import windows as W
from muntin.testing import Stream
from tests.spark.streams import Feed, assert_same, keyed, results, run

SCHEMA = "ts timestamp, k string, v long, p timestamp"
UTC = timezone.utc
Row = tuple[float | None, str | None, int, float | None]


def batch(rows: list[Row]) -> pa.Table:
    times, keys, values, marks = zip(*rows, strict=True)
    columns = {"ts": seconds(times), "k": pa.array(keys, pa.string()), "v": pa.array(values, pa.int64())}
    return pa.table({**columns, "p": seconds(marks)})


def seconds(values: Any) -> pa.Array:
    micros = pa.array([None if value is None else round(value * 1e6) for value in values], pa.int64())
    return micros.cast(pa.timestamp("us", tz="UTC"))


def add_batches(feed: Feed, tens: range, behind: float = 0) -> None:
    """Rows in any order. Few carry a watermark. One of these has no key, and is late.

    Spark leaves rows without a time out before it looks at their watermark.
    """
    chance = random.Random(tens.start)
    for ten in tens:
        now = ten * 10 + 40 - behind
        rows: list[Row] = [
            (now + chance.uniform(-7, 7), chance.choice("abc"), chance.randrange(30), None) for _ in range(30)
        ]
        rows[3] = (*rows[3][:3], now - 12.5)
        rows[9] = (*rows[9][:3], now - 20)
        rows += [(1, None, 0, now - 8.25)] if ten % 2 else []
        rows += [(max(now - 18.5, 1), "a", 100 + ten, None), (7, "c", 200 + ten, None)] if ten > 1 else []
        feed.add(batch(rows))


@pytest.fixture
def feed(spark: SparkSession, here: Path) -> Feed:
    feed = Feed(spark, here / "one", SCHEMA)
    add_batches(feed, range(1, 3))
    return feed


def fine(data: Any, watermark: Any = "p") -> DataFrame:
    query = muntin.over(data, W.sliding("10 seconds", "5 seconds"), time="ts", watermark=watermark, by="k")
    return query.agg(n=A.count(), s=A.sum("v")).to_df()


def coarse(data: DataFrame) -> DataFrame:
    query = muntin.over(data, W.tumbling("20 seconds"), time="window_time", by="k")
    return query.agg(n=A.sum("n"), s=A.max("s")).to_df()


def sparks_fine(data: DataFrame) -> DataFrame:
    """The watermark is that of `p`, and the metadata say that windows of `ts` close with it."""
    noted = data.withWatermark("p", "0 seconds").withColumn(
        "ts", F.col("ts").alias("ts", metadata={"spark.watermarkDelayMs": 0})
    )
    cells = [F.count(F.lit(1)).alias("n"), F.sum("v").alias("s")]
    return noted.groupBy(F.window("ts", "10 seconds", "5 seconds"), "k").agg(*cells)


def sparks_coarse(data: DataFrame) -> DataFrame:
    found = sparks_fine(data).select("n", "s", "k", F.window_time("window").alias("window_time"))
    windows = F.window("window_time", "20 seconds")
    return found.groupBy(windows, "k").agg(F.sum("n").alias("n"), F.max("s").alias("s"))


@pytest.mark.parametrize(("query", "judge"), [(fine, sparks_fine), (lambda data: coarse(fine(data)), sparks_coarse)])
def test_windows_and_chains_are_those_of_spark(
    spark: SparkSession, here: Path, feed: Feed, query: Callable[..., DataFrame], judge: Callable[..., DataFrame]
) -> None:
    for _ in range(2):  # the second time from the checkpoint
        ours, sparks = query(feed.stream()), judge(feed.stream())
        run(ours, here / "ours")
        run(sparks, here / "spark")
        found = keyed(results(spark, ours, here / "ours"), "k")
        assert_same(found, keyed(results(spark, sparks, here / "spark"), "k"))
        add_batches(feed, range(4, 6))
    assert len(found) > 3


def test_the_same_by_any_way(spark: SparkSession, here: Path, feed: Feed) -> None:
    """As the watermark of the input, as an expression, and read by tasks from files."""
    add_batches(feed, range(4, 6))
    later = F.col("p") + F.expr("INTERVAL 1 SECOND")
    scan = muntin.scan(spark, str(here / "one"), schema=SCHEMA, streaming=True, max_files_per_batch=1)
    frames = {
        "column": fine(feed.stream()),
        "own": fine(feed.stream().withWatermark("p", "0 seconds")),
        "expression": fine(feed.stream().withColumn("p", F.expr("p - INTERVAL 1 SECOND")), later),
        "text": fine(scan, "p + INTERVAL 0 SECONDS"),
        "scan": fine(scan),
    }
    found = {}
    for name, frame in frames.items():
        run(frame, here / name)
        found[name] = keyed(results(spark, frame, here / name), "k")
    assert len(found["column"]) > 3
    for name, rows in found.items():
        assert rows == found["column"], name


def test_a_join_takes_a_column_for_a_side(spark: SparkSession, here: Path, feed: Feed) -> None:
    """The left side carries watermarks, also in rows without a key; the right side lags and has a delay."""
    other = Feed(spark, here / "two", SCHEMA)
    add_batches(other, range(1, 6), behind=9)
    add_batches(feed, range(3, 6))

    def join(left: DataFrame, right: DataFrame, watermark: Any) -> DataFrame:
        query = muntin.join(left, right, W.tumbling("10 seconds"), on="k", time="ts", watermark=watermark).late("emit")
        return query.agg(n=A.count(), s=A.sum("left_v")).to_df()

    frame = join(feed.stream(), other.stream(), ("p", "12 seconds"))
    handle = run(frame, here / "ours")
    rows = [row for row in results(spark, frame, here / "ours") if row.late is None]
    # The left one promises 81.75, and the right one is behind: at most 88 - 12 seconds.
    assert handle.lastProgress is not None
    watermark = datetime.fromisoformat(handle.lastProgress["eventTime"]["watermark"].replace("Z", "+00:00")).timestamp()
    assert 70 < watermark < 76
    assert {name for row in rows for name in row.asDict()} >= {"window", "k", "n", "s", "late"}
    lates = [row.late for row in results(spark, frame, here / "ours") if row.late is not None]
    assert {field for late in lates for side in (late.left, late.right) if side for field in side.asDict()} == {
        "ts", "k", "v", "p"
    }  # fmt: skip
    on_time = [
        data.table().where(~F.col("v").isin([late[side].v for late in lates if late[side] and late[side].v >= 100]))
        for data, side in ((feed, "left"), (other, "right"))
    ]
    expected = keyed(
        [row for row in join(on_time[0], on_time[1], None).collect() if row.window.end.timestamp() <= watermark], "k"
    )
    assert len(expected) > 6
    assert_same(keyed(rows, "k"), expected)


def test_what_does_not_fit_is_an_error_before_anything_runs(feed: Feed) -> None:
    stream = feed.stream()
    fine(stream.withWatermark("p", "0 seconds"))
    with pytest.raises(MuntinError, match=r"watermark is the column 'p', but data has a watermark of 5 seconds on it"):
        fine(stream.withWatermark("p", "5 seconds"))
    with pytest.raises(MuntinError, match=r"watermark is 'p', but data has a watermark on 'ts' already.*no second one"):
        fine(stream.withWatermark("ts", "5 seconds"))
    own = stream.withWatermark("p", "0 seconds")
    with pytest.raises(MuntinError, match=r"max_ahead keeps rows from moving the watermark, but data already has one"):
        muntin.over(own, W.tumbling("1 hour"), time="ts", watermark="p", max_ahead="1 hour")
    with pytest.raises(
        MuntinError, match=r"'5 minuts', which is not a duration.*Nor is it a column.*of type int; a col"
    ):
        fine(stream, "5 minuts")
    with pytest.raises(MuntinError, match=r"'q', which is not a duration.*'q' is not in the data"):
        fine(stream, "q")
    with pytest.raises(MuntinError, match=r"watermark .*of type bigint; a column with watermarks is a timestamp"):
        fine(stream, F.col("v"))
    with pytest.raises(MuntinError, match=r"'10 minutes', which is a duration, and a column of the data, too"):
        fine(stream.withColumnRenamed("p", "10 minutes"), "10 minutes")
    fine(stream.withColumnRenamed("p", "10 minutes"), F.col("`10 minutes`"))
    right = stream.withWatermark("p", "5 seconds")
    with pytest.raises(MuntinError, match=r"watermark is the column 'p', but right has a watermark of 5 seconds on it"):
        muntin.join(stream, right, W.tumbling("1 hour"), on="k", time="ts", watermark="p").agg(n=A.count()).to_df()
    fine(feed.table(), "p").count()  # a table needs none
    with pytest.raises(MuntinError, match=r"watermark 'v' is of type bigint"):
        fine(feed.table(), F.col("v"))


def test_a_watermark_from_the_future_moves_nothing(spark: SparkSession, here: Path) -> None:
    now = datetime.now(UTC).timestamp()
    feed = Feed(spark, here / "in", SCHEMA)
    feed.add(batch([(now - 9000, "a", 1, 4e11), (now - 8999, "a", 2, None), (4e11, "a", 4, now - 10)]))
    feed.add(batch([(now - 8000, "a", 8, now - 7000)]))
    query = muntin.over(feed.stream(), W.tumbling("1 second"), time="ts", watermark="p", max_ahead="1 hour")
    frame = query.agg(s=A.sum("v")).to_df()
    handle = run(frame, here / "ours")
    assert sorted(row.s for row in results(spark, frame, here / "ours")) == [1, 2, 8]
    progress = muntin.progress(handle)
    assert (progress.ahead_rows, progress.late_rows) == (1, 0)


def test_streams_of_tests_do_the_same(spark: SparkSession) -> None:
    def query(data: Any) -> muntin.Query:
        over = muntin.over(data, W.tumbling("1 minute"), W.count(2), time="ts", watermark="p", by="k")
        return over.agg(n=A.count()).late("emit")

    noon = datetime(2024, 5, 1, 12, tzinfo=UTC)
    found = []
    for stream in (Stream(query, SCHEMA), Stream(query, SCHEMA, spark=spark)):
        stream.batch([(noon, "a", 1, None), (noon + timedelta(minutes=9), "a", 1, None), (None, None, 1, noon)])
        stream.batch([(noon, "a", 2, noon + timedelta(minutes=2))])
        stream.restart()
        stream.batch([(noon, "late", 3, None)])
        stream.watermark(noon + timedelta(minutes=30))
        found.append([(step.results, step.late, step.watermark, step.late_rows) for step in stream.steps])
        stream.stop()
    assert found[0] == found[1]
    assert [late_rows for *_, late_rows in found[0]] == [0, 0, 1, 0]


def test_explained(feed: Feed, capsys: pytest.CaptureFixture[str]) -> None:
    stream = feed.stream()
    query = muntin.over(stream, W.tumbling("1 hour"), time="ts", watermark=F.col("p") + F.expr("INTERVAL 1 SECOND"))
    query.agg(n=A.count()).explain()
    assert (
        "Watermark: the largest \"p + INTERVAL '01' SECOND\" that a row has carried; a row is"
        in capsys.readouterr().out
    )
    join = muntin.join(stream, stream, W.tumbling("1 hour"), on="k", time="ts", watermark=("p", "1 minute"))
    join.agg(n=A.count()).explain()
    said = (
        "Watermark: on the left, the largest 'p' that a row has carried; on the right, 1 minute behind the latest row;"
    )
    assert said in capsys.readouterr().out
    assert 'watermark=["p", "1 minute"]' in repr(join)
