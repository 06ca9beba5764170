"""What is particular to streams: late and bad rows, counters, idle shards, replays, other checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import muntin
from muntin import aggregates as A
from muntin import windows as W
from muntin.spark.metrics import metrics_of
from tests.spark.streams import Feed, assert_same, keyed, results, run

SCHEMA = "ts timestamp, k string, v long"


def batch(*rows: tuple[float | None, str | None, int | None]) -> pa.Table:
    times, keys, values = zip(*rows, strict=True)
    micros = [None if time is None else round(time * 1e6) for time in times]
    return pa.table(
        {
            "ts": pa.array(micros, pa.int64()).cast(pa.timestamp("us", tz="UTC")),
            "k": pa.array(keys, pa.string()),
            "v": pa.array(values, pa.int64()),
        }
    )


@pytest.fixture
def feed(spark: SparkSession, here: Path) -> Feed:
    return Feed(spark, here / "in", SCHEMA)


def counted(frame: DataFrame, *windows: W.Window, delay: str = "2 seconds") -> muntin.Query:
    return muntin.over(frame, *windows, time="ts", watermark=delay, by="k").agg(n=A.count(), s=A.sum("v"))


def test_a_late_row_counts_in_the_windows_that_are_open(spark: SparkSession, here: Path, feed: Feed) -> None:
    #      t:   0        10        20        30
    #  [0,20)   |------------------|
    #  [10,30)            |------------------|
    feed.add(batch((1, "a", 1), (23, "a", 2)))  # the watermark goes to 21: [0, 20) closes
    feed.add(batch((21.5, "a", 0)))
    feed.add(batch((12, "a", 4), (2, "a", 8), (3, "b", 16), (None, "a", 32)))  # 12: only in [10, 30); 2, 3: nowhere
    feed.add(batch((40, "a", 64)))
    query = counted(feed.stream(), W.sliding("20 seconds", "10 seconds")).late("emit")
    frame = query.to_df()
    handle = run(frame, here / "ours")
    rows = results(spark, frame, here / "ours")
    windows = {row.window.start.timestamp(): row.s for row in rows if row.window is not None}
    assert windows == {-10: 1, 0: 1, 10: 2 + 4}
    late = sorted((row.k, row.late.v, row.late.ts.timestamp()) for row in rows if row.window is None)
    assert late == [("a", 8, 2.0), ("b", 16, 3.0)]
    progress = muntin.progress(handle)
    assert (progress.rows, progress.late_rows, progress.invalid_rows) == (7, 2, 1)
    observed = [metrics for report in handle.recentProgress if (metrics := metrics_of(report))]
    assert sum(metrics["late_rows"] for metrics in observed) == 2
    assert sum(metrics["invalid_rows"] for metrics in observed) == sum(metrics["bad_rows"] for metrics in observed) == 1
    with pytest.warns(DeprecationWarning, match="invalid_rows"):
        assert progress.bad_rows == 1  # as it was called in the version before


def test_a_tuple_may_be_late_for_some_windows_only(spark: SparkSession, here: Path, feed: Feed) -> None:
    feed.add(batch((1, "a", 1), (20, "a", 2)), batch((21, "a", 4)))  # the watermark goes to 18, then to 19
    feed.add(batch((5, "a", 8), (22, "b", 16), (None, "a", 32)), batch((50, "a", 64)))
    by_count = counted(feed.stream(), W.count(2)).late("emit").to_df()
    handle = run(by_count, here / "count")
    rows = results(spark, by_count, here / "count")
    assert [(r.window_id, r.s) for r in rows if r.window is not None] == [(0, 1 + 2)]
    assert [(r.k, r.late.v, r.late.ts.timestamp()) for r in rows if r.window is None] == [("a", 8, 5.0)]
    progress = muntin.progress(handle)
    assert (progress.rows, progress.late_rows, progress.invalid_rows) == (6, 1, 1)
    assert (progress.results, progress.tuples) == (1, 1)

    both = counted(feed.stream(), W.session("15 seconds", name="session"), W.count(2, name="pair")).late("emit").to_df()
    handle = run(both, here / "both")
    rows = results(spark, both, here / "both")
    found = {(r.window_name, r.k, r.window.start.timestamp(), r.window.end.timestamp()): r.s for r in rows}
    assert found == {
        ("session", "a", 1, 16): 1,  # closed before the tuple at 5 came, which belongs to the next one
        ("session", "a", 5, 36): 8 + 2 + 4,
        ("session", "b", 22, 37): 16,
        ("pair", "a", 1, 20): 1 + 2,
    }
    assert muntin.progress(handle).late_rows == 0


def test_windows_that_wait_too_long_are_shown_incomplete(spark: SparkSession, here: Path, feed: Feed) -> None:
    feed.add(batch((1, "a", 1), (2, "a", 2), (4, "b", 4)), batch((7, "a", 8), (8.999, "b", 16)), batch((20, "a", 32)))
    frame = counted(feed.stream(), W.count(3, max_wait="5 seconds")).to_df()
    run(frame, here / "ours")  # the watermark is 18: nothing came within five seconds of 2 (a), nor of 8.999 (b)
    first = {
        (row.k, row.window_id, row.window.end.timestamp()): (row.partial, row.s)
        for row in results(spark, frame, here / "ours")
    }
    assert first == {
        ("a", 0, 2): (True, 1 + 2),
        ("a", 0, 7): (False, 1 + 2 + 8),
        ("b", 0, 8.999): (True, 4 + 16),
    }
    feed.add(batch((21, "b", 64)), batch((22, "a", 128), (60, "c", 256)))
    frame = counted(feed.stream(), W.count(3, max_wait="5 seconds")).to_df()
    handle = run(frame, here / "ours")
    rows = {
        (row.k, row.window_id, row.window.end.timestamp()): (row.partial, row.s)
        for row in results(spark, frame, here / "ours")
    }
    assert rows == first | {
        ("b", 0, 21): (False, 4 + 16 + 64),
        ("a", 1, 22): (True, 32 + 128),
    }
    progress = muntin.progress(handle)
    assert (progress.results, progress.tuples) == (5, 1)


def test_rows_between_windows_are_counted_apart(spark: SparkSession, here: Path, feed: Feed) -> None:
    feed.add(batch((1, "a", 1), (7, "a", 2), (11, "b", 4)), batch((30, "a", 8)))
    frame = counted(feed.stream(), W.sliding("5 seconds", "10 seconds")).to_df()
    handle = run(frame, here / "ours")
    assert {(r.window.start.timestamp(), r.k): r.s for r in results(spark, frame, here / "ours")} == {
        (0, "a"): 1,
        (10, "b"): 4,
    }
    assert muntin.progress(handle).outside_rows == 1
    assert muntin.progress(handle).late_rows == 0


def test_shards_without_rows_close_their_windows(spark: SparkSession, here: Path, feed: Feed) -> None:
    """One key goes on alone; the windows of all the others close all the same, in the batch in which Spark's do."""
    keys = [f"key-{index}" for index in range(20)]
    feed.add(batch(*((1.0, key, 1) for key in keys)), batch((12, "key-0", 1)), batch((12.001, "key-0", 1)))
    feed.add(batch((12.003, "key-0", 1)), batch((30, "key-0", 1)), batch((30.001, "key-0", 1)))
    window = W.tumbling("10 seconds")
    by_batch: dict[str, dict[int, set[Any]]] = {}
    judge = feed.stream().withWatermark("ts", "2 seconds").groupBy(F.window("ts", "10 seconds"), "k").count()
    for name, frame in (("ours", counted(feed.stream(), window).to_df()), ("spark", judge)):
        seen: dict[int, set[Any]] = {}

        def collect(part: DataFrame, number: int, seen: dict[int, set[Any]] = seen) -> None:
            seen[number] = {(row.window.start, row.k) for row in part.collect()}

        _start(frame.writeStream.foreachBatch(collect), here / name).awaitTermination()
        by_batch[name] = seen
    assert by_batch["ours"] == by_batch["spark"]
    assert max(len(found) for found in by_batch["ours"].values()) == 20


def test_sessions_close_in_the_batch_in_which_sparks_do(spark: SparkSession, here: Path, feed: Feed) -> None:
    keys = [f"key-{index}" for index in range(20)]
    feed.add(batch(*((1.0, key, 1) for key in keys), (7, "key-1", 2)))  # two sessions of key-1 …
    feed.add(batch((4, "key-1", 4), (6, "key-2", 8)), batch((12, "key-0", 1)))  # … that become one; 6 is just in time
    feed.add(batch((12.001, "key-0", 1), (3, "key-3", 16)), batch((5, "key-4", 32), (4.999, "key-5", 64)))
    feed.add(batch((30, "key-0", 1)), batch((30.001, "key-0", 1)), batch((17.5, "key-1", 1)))
    by_batch: list[dict[int, set[Any]]] = []
    judge = feed.stream().withWatermark("ts", "2 seconds").groupBy(F.session_window("ts", "5 seconds"), "k")
    for frame in (
        counted(feed.stream(), W.session("5 seconds")).to_df(),
        judge.agg(F.count("v").alias("n"), F.sum("v").alias("s")).withColumnRenamed("session_window", "window"),
    ):
        seen: dict[int, set[Any]] = {}

        def collect(part: DataFrame, number: int, seen: dict[int, set[Any]] = seen) -> None:
            seen[number] = {(*row.window, row.k, row.n, row.s) for row in part.collect()}

        _start(frame.writeStream.foreachBatch(collect), here / str(len(by_batch))).awaitTermination()
        by_batch.append(seen)
    assert by_batch[0] == by_batch[1]
    assert sum(len(found) for found in by_batch[0].values()) > 20


def _start(writer: Any, place: Path) -> Any:
    return writer.option("checkpointLocation", str(place)).trigger(availableNow=True).start()


def test_a_batch_that_fails_is_replayed_once(spark: SparkSession, here: Path, feed: Feed) -> None:
    """The sink fails after the window stage has run: what it had in memory must not be trusted afterwards."""
    feed.add(*(batch(*((float(10 * i + j), f"k{j % 3}", i + j) for j in range(10))) for i in range(5)))
    query = counted(feed.stream(), W.sliding("6 seconds", "2 seconds"))
    kept: dict[int, list[Any]] = {}
    failed: list[int] = []

    def sink(part: DataFrame, number: int) -> None:
        rows = part.collect()
        if number in (1, 3) and number not in failed:
            failed.append(number)
            raise OSError("the sink is full")
        kept[number] = rows

    for _ in range(2):
        with pytest.raises(StreamingQueryException):
            _start(query.to_df().writeStream.foreachBatch(sink), here / "checkpoint").awaitTermination()
    handle = _start(query.to_df().writeStream.foreachBatch(sink), here / "checkpoint")
    handle.awaitTermination()
    judge = (
        feed.stream()
        .withWatermark("ts", "2 seconds")
        .groupBy(F.window("ts", "6 seconds", "2 seconds"), "k")
        .agg(F.count(F.lit(1)).alias("n"), F.sum("v").alias("s"))
    )
    run(judge, here / "spark")
    ours = [row for rows in kept.values() for row in rows]
    assert_same(keyed(ours, "k"), keyed(results(spark, judge, here / "spark"), "k"))
    assert muntin.progress(handle).rows == 50
    assert failed == [1, 3]


@pytest.mark.parametrize(
    "window", [W.sliding("10 seconds", "5 seconds"), W.session("10 seconds")], ids=lambda w: w.label
)
def test_state_goes_away_with_its_windows(spark: SparkSession, here: Path, feed: Feed, window: W.Window) -> None:
    feed.add(
        *(batch(*((100.0 * i + j, f"k{i}-{j}", 1) for j in range(50))) for i in range(12)), batch((5000, "end", 1))
    )
    handle = run(counted(feed.stream(), window).to_df(), here / "ours")
    progress = muntin.progress(handle)
    assert progress.panes == 1
    assert progress.segments == 1


def test_another_query_on_the_checkpoint_is_refused(spark: SparkSession, here: Path, feed: Feed) -> None:
    feed.add(batch((1, "a", 1)), batch((2, "a", 1)))
    run(counted(feed.stream(), W.tumbling("10 seconds")).to_df(), here / "ours")
    feed.add(batch((3, "a", 1)))
    other = counted(feed.stream(), W.tumbling("5 seconds")).agg(p95=A.quantile("v", 0.95))
    differs = "What differs: window size 10 seconds → 5 seconds; new aggregate p95 = A.quantile"
    with pytest.raises(StreamingQueryException, match=rf"{differs}.*Restore the query, or start it with a new"):
        run(other.to_df(), here / "ours")
    same = muntin.over(feed.stream(), W.tumbling("10 seconds"), time="ts", watermark="2 seconds", by="k")
    assert muntin.progress(run(same.agg(rows=A.count(), mean=A.mean("v")).to_df(), here / "ours")).rows == 3


def test_other_windows_over_tuples_on_the_checkpoint_are_refused(spark: SparkSession, here: Path, feed: Feed) -> None:
    own: list[W.Window] = [W.session("5 seconds"), W.count(4), W.delta("v", 10, 5), W.slide_by_time(3, "1 second")]
    feed.add(batch((1, "a", 1)), batch((2, "a", 1)))
    run(counted(feed.stream(), *own).to_df(), here / "ours")
    feed.add(batch((3, "a", 1)))
    others = {
        "gap 5 seconds → 6 seconds": [W.session("6 seconds"), *own[1:]],
        "slide 5 → 6": [*own[:2], W.delta("v", 10, 6), own[3]],
    }
    for differs, windows in others.items():
        with pytest.raises(StreamingQueryException, match=f"What differs: window .*: {differs}"):
            run(counted(feed.stream(), *windows).to_df(), here / "ours")


def test_one_shuffle_for_all_models(feed: Feed, capsys: pytest.CaptureFixture[str]) -> None:
    windows = [W.sliding("1 hour", "1 minute"), W.count(100), W.session("5 minutes"), W.delta("v", 10, 5)]
    counted(feed.stream(), *windows).to_df().explain()
    plan = capsys.readouterr().out
    assert plan.count("TransformWithState") == plan.count("Exchange") == 1
    counted(feed.table(), *windows).to_df().explain()
    assert capsys.readouterr().out.count("Exchange") == 1


def test_another_number_of_shards_is_refused(spark: SparkSession, here: Path, feed: Feed) -> None:
    feed.add(batch((1, "a", 1)), batch((2, "a", 1)))
    run(counted(feed.stream(), W.tumbling("10 seconds")).to_df(), here / "ours")
    feed.add(batch((3, "a", 1)))
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "5")
    try:
        with pytest.raises(StreamingQueryException, match=rf"was made with {before} shards, and the query now has 5"):
            run(counted(feed.stream(), W.tumbling("10 seconds")).to_df(), here / "ours")
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", str(before))


def test_results_come_in_window_order(spark: SparkSession, here: Path, feed: Feed) -> None:
    feed.add(batch(*((float(j % 97), f"k{j % 5}", 1) for j in range(500))), batch((200, "a", 1)), batch((201, "a", 1)))
    seen: list[list[Any]] = []

    def collect(part: DataFrame, number: int) -> None:
        rows = part.withColumn("part", F.spark_partition_id()).collect()
        seen.extend([row.window.end for row in rows if row.part == name] for name in {row.part for row in rows})

    query = counted(feed.stream(), W.sliding("10 seconds", "5 seconds", name="a"), W.tumbling("7 seconds", name="b"))
    _start(query.to_df().writeStream.foreachBatch(collect), here / "ours").awaitTermination()
    assert max(len(ends) for ends in seen) > 50
    assert all(ends == sorted(ends) for ends in seen)
