"""Idle streams and bounded runs on Spark: windows close by the clock, and a backlog is not idleness."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import muntin
from muntin import MuntinError
from muntin import aggregates as A
from muntin import windows as W
from muntin.spark.watermark import passes_rows_on
from muntin.testing import Stream
from tests.spark.streams import Feed

SCHEMA = "ts timestamp, k string"
NOON = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
PATIENCE = 300
"""Seconds after which something that should happen does not."""


def batch(*rows: tuple[float, str]) -> pa.Table:
    times = pa.array([NOON + timedelta(seconds=second) for second, _ in rows], pa.timestamp("us", tz="UTC"))
    return pa.table({"ts": times, "k": [key for _, key in rows]})


def counted(data: DataFrame, **given: Any) -> muntin.Query:
    return muntin.over(data, W.tumbling("20 seconds"), time="ts", watermark="1 second", by="k", **given).agg(
        n=A.count()
    )


class Sink:
    """What a stream emits: by batch, so that a batch that is repeated counts once."""

    def __init__(self, place: Path, seconds: float = 0) -> None:
        self._place, self._seconds = place, seconds
        self.batches: dict[int, list[Row]] = {}

    def write(self, frame: DataFrame, number: int) -> None:
        self.batches[number] = frame.collect()
        time.sleep(self._seconds)

    @property
    def rows(self) -> list[tuple[int, str, int]]:
        """The second at which each window begins, its key and its number of rows."""
        found = [row for rows in self.batches.values() for row in rows]
        return sorted((_second(row.window.start), row.k, row.n) for row in found)

    @contextmanager
    def running(self, query: muntin.Query | muntin.Join) -> Iterator[StreamingQuery]:
        writer = query.to_df().writeStream.foreachBatch(self.write)
        handle = writer.option("checkpointLocation", str(self._place / "checkpoint")).start()
        try:
            yield handle
        finally:
            handle.stop()


def _second(local: datetime) -> int:
    """A time of a window, which Spark gives as local time of this process."""
    return round(local.timestamp() - NOON.timestamp())


def wait(handle: StreamingQuery, until: Callable[[], bool]) -> None:
    begin = time.monotonic()
    while not until():
        if handle.exception() is not None:
            raise AssertionError(handle.exception())
        assert time.monotonic() - begin < PATIENCE
        time.sleep(0.1)


def test_windows_close_after_a_restart_and_later_rows_are_late(spark: SparkSession, here: Path) -> None:
    feed, sink = Feed(spark, here / "in", SCHEMA), Sink(here)
    feed.add(batch((8, "a"), (9, "b")))

    def query() -> muntin.Query:
        return counted(feed.stream(), idle="3 seconds", name="idle")

    with sink.running(query()) as handle:
        wait(handle, lambda: muntin.progress(handle, "idle").rows == 2)
    assert sink.rows == []
    with sink.running(query()) as handle:
        wait(handle, lambda: len(sink.rows) == 2)
        assert sink.rows == [(0, "a", 1), (0, "b", 1)]
        wait(handle, lambda: muntin.progress(handle, "idle").idle_results == 2)
        assert handle.lastProgress is not None
        assert handle.lastProgress["eventTime"]["watermark"] == "2024-05-01T12:00:08.000Z"
        feed.add(batch((10, "a"), (19, "b"), *((90_000, "b"),) * 3))
        wait(handle, lambda: muntin.progress(handle, "idle").rows == 7)
        progress = muntin.progress(handle, "idle")
        assert (progress.late_rows, progress.idle_results) == (2, 2)
    assert sink.rows == [(0, "a", 1), (0, "b", 1)]


def test_a_slow_consumer_splits_no_window(spark: SparkSession, here: Path) -> None:
    """Files wait while batches take longer than `idle=`; of some, a filter leaves nothing."""
    feed, sink = Feed(spark, here / "in", SCHEMA), Sink(here, seconds=2.5)
    feed.add(batch((1, "a"), (19, "a")), batch((5, "skipped")), batch((6, "skipped")), batch((2, "a"), (3, "b")))
    with sink.running(counted(feed.stream().where("k != 'skipped'"), idle="1 second", name="slow")) as handle:
        wait(handle, lambda: len(sink.rows) == 2)
        assert sink.rows == [(0, "a", 3), (0, "b", 1)]
        assert muntin.progress(handle, "slow").late_rows == 0
    assert min(number for number, rows in sink.batches.items() if rows) >= 4


def test_a_bounded_run_without_rows_closes_all_windows(spark: SparkSession, here: Path) -> None:
    feed = Feed(spark, here / "in", SCHEMA)
    feed.add(batch((1, "a")), batch((9, "b")))
    sink = Sink(here)
    results = counted(feed.stream(), name="drained").drain().to_df()
    writer = results.writeStream.foreachBatch(sink.write).option("checkpointLocation", str(here / "checkpoint"))
    last = muntin.drain(writer)
    assert sink.rows == [(0, "a", 1), (0, "b", 1)]
    assert not last.isActive
    feed.add(batch((10, "a"), (21, "a")))
    last = muntin.drain(writer)
    assert sink.rows == [(0, "a", 1), (0, "b", 1), (20, "a", 1)]
    progress = muntin.progress(last, "drained")
    assert (progress.late_rows, progress.drains, progress.results) == (1, 2, 3)


def test_a_side_of_a_join_that_is_idle_holds_nothing_open(spark: SparkSession, here: Path) -> None:
    sides = [Feed(spark, here / side, SCHEMA) for side in ("left", "right")]
    for side in sides:
        side.add(batch((1, "a")))
    window = W.tumbling("20 seconds")
    left, right = (side.stream() for side in sides)
    pairs = muntin.join(left, right, window, on="k", time="ts", watermark="0 seconds", idle="1 second", name="pairs")
    sink = Sink(here)
    with sink.running(pairs.agg(n=A.count())) as handle:
        wait(handle, lambda: muntin.progress(handle, "pairs").rows == 2)
        sides[0].add(batch((100, "a")))
        wait(handle, lambda: len(sink.rows) == 1)
    assert sink.rows == [(0, "a", 1)]


@pytest.mark.extended
def test_a_stream_of_a_test_is_the_same_on_spark(spark: SparkSession) -> None:
    def query(data: Any) -> muntin.Query:
        return counted(data, idle="8 seconds").drain()

    found = []
    for session in (None, spark):
        stream = Stream(query, SCHEMA, spark=session)
        stream.batch([(NOON, "a"), (NOON + timedelta(seconds=18), "b")])
        stream.idle("9 seconds")
        stream.batch([(NOON + timedelta(seconds=1), "a"), (NOON + timedelta(days=1), "a")])
        stream.drain()
        # On Spark the clock is the real one, and closes windows also between two steps that take their time.
        found.append((stream.results, sum(step.late_rows for step in stream.steps)))
        stream.stop()
    assert found[0] == found[1]
    results, late = found[0]
    assert (len(results), late) == (3, 1)


def test_which_inputs_show_data_by_their_tasks(spark: SparkSession, here: Path) -> None:
    data = Feed(spark, here / "in", SCHEMA).stream()
    assert passes_rows_on(data.where("k = 'a'").union(data).withColumn("upper", data.k))
    assert passes_rows_on(data.withWatermark("ts", "1 second").mapInArrow(lambda batches: batches, data.schema))
    assert not passes_rows_on(data.withWatermark("ts", "1 second").dropDuplicatesWithinWatermark(["k"]))
    assert not passes_rows_on(data.repartition(2))
    assert not passes_rows_on(counted(data).to_df())


def test_bad_arguments(spark: SparkSession, here: Path) -> None:
    data = Feed(spark, here / "in", SCHEMA).stream()
    for idle, message in (
        ("0 seconds", "idle must be longer than zero"),
        ("soon", "not a duration"),
        (3, "idle must be"),
    ):
        with pytest.raises(MuntinError, match=message):
            counted(data, idle=idle)
    with pytest.raises(MuntinError, match=r"writer must be what results\.writeStream returns"):
        muntin.drain(counted(data))  # type: ignore[arg-type]
    assert "idle='30 seconds'" in repr(counted(data, idle="30 seconds")).replace('"', "'")
    assert repr(counted(data).drain()).endswith(".drain()")
    table = spark.createDataFrame([(NOON, "a")], SCHEMA)
    assert [row.n for row in counted(table, idle="30 seconds").drain().to_df().collect()] == [1]
