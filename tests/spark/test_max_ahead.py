"""Rows from the future: set aside with `max_ahead=`, and told of where they made others late."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

import muntin
from muntin import MuntinError, MuntinWarning
from muntin import aggregates as A
from muntin import windows as W
from muntin.engine.metrics import names
from muntin.spark.metrics import all_metrics
from tests.spark.streams import Feed, results, run

SCHEMA = "ts timestamp, k string, v long"
FAR = datetime(9999, 12, 31, 12, tzinfo=timezone.utc)


def batch(*rows: tuple[datetime | None, str, int]) -> pa.Table:
    times, keys, values = zip(*rows, strict=True)
    kind = pa.timestamp("us", tz="UTC")
    return pa.table({"ts": pa.array(times, kind), "k": keys, "v": pa.array(values, pa.int64())})


def hours_ago(hours: float) -> datetime:
    return datetime.now(timezone.utc) - timedelta(hours=hours)


def summed(frame: DataFrame, *windows: W.Window, **given: Any) -> muntin.Query:
    return muntin.over(frame, *windows, time="ts", by="k", **given).agg(n=A.count(), s=A.sum("v"))


def test_rows_from_the_future_are_set_aside(spark: SparkSession, here: Path) -> None:
    feed = Feed(spark, here / "in", SCHEMA)
    feed.add(batch((hours_ago(9), "a", 1), (FAR, "a", 2), (None, "b", 4)), batch((hours_ago(8), "b", 8)))
    feed.add(batch((hours_ago(7), "a", 16), (FAR, "b", 32)), batch((hours_ago(1), "a", 64)))
    windows = W.tumbling("10 minutes", name="ten"), W.count(1, name="one"), W.session("1 minute", name="session")
    frame = summed(feed.stream(), *windows, watermark="5 minutes", max_ahead="1 hour").late("emit").to_df()
    handle = run(frame, here / "ours")
    rows = results(spark, frame, here / "ours")
    told = sorted((row.window_name, row.k, row.s) for row in rows if row.window is not None)
    assert told == [(name, key, s) for name in ("one", "session", "ten") for key, s in (("a", 1), ("a", 16), ("b", 8))]
    late = sorted((row.k, row.late.v, row.late.ts.year) for row in rows if row.window is None)
    assert [(key, value) for key, value, _ in late] == [("a", 2), ("b", 32)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        progress = muntin.progress(handle)
    assert (progress.rows, progress.late_rows, progress.invalid_rows, progress.ahead_rows) == (4, 0, 3, 2)
    assert progress.warning is None
    with pytest.raises(MuntinError, match=r"max_ahead keeps rows from moving.*filter the rows before it"):
        summed(feed.stream().withWatermark("ts", "5 minutes"), *windows, max_ahead="1 hour")
    with pytest.raises(MuntinError, match=r"max_ahead must not be less than zero, got '-1 hour'"):
        summed(feed.stream(), *windows, watermark="5 minutes", max_ahead="-1 hour")


def test_most_rows_late_is_told(spark: SparkSession, here: Path) -> None:
    feed = Feed(spark, here / "in", SCHEMA)
    feed.add(batch((hours_ago(9), "a", 1), (FAR, "a", 2)), batch((hours_ago(8), "b", 4)))
    feed.add(*(batch((hours_ago(hours), "b", 8), (hours_ago(hours), "c", 16)) for hours in (7, 6)))
    handle = run(summed(feed.stream(), W.tumbling("10 minutes"), watermark="5 minutes").to_df(), here / "ours")
    assert handle.lastProgress is not None
    with pytest.warns(
        MuntinWarning, match=r"4 of the 7 rows.*9999-12-31T11:55.*ahead of the clock.*max_ahead='1 hour'"
    ):
        progress = muntin.progress(handle)
    assert progress.warning is not None
    assert "4 of the 7 rows" in repr(progress)


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_a_table_has_the_clock_of_its_query(spark: SparkSession, kind: str) -> None:
    hours = F.make_dt_interval(hours=F.col("id") * 2)
    clock = F.current_timestamp() if kind == "timestamp" else F.localtimestamp()
    table = spark.range(-2, 3).select((clock + hours).alias("ts"), F.col("id").alias("v"), F.lit("k").alias("k"))
    assert table.schema["ts"].dataType.simpleString() == kind
    query = summed(table, W.count(1), max_ahead="3 hours").late("emit")
    rows = query.to_df().collect()
    assert sorted(row.s for row in rows if row.late is None) == [-2, -1, 0, 1]
    assert [row.late.v for row in rows if row.late is not None] == [2]


def test_a_join_sets_rows_of_both_sides_aside(spark: SparkSession) -> None:
    rows = [(hours_ago(2), "a", 1), (FAR, "a", 2), (FAR, "b", 4)]
    left, right = (spark.createDataFrame(rows[:count], SCHEMA) for count in (3, 2))
    join = muntin.join(left, right, W.tumbling("1 hour"), on="k", time="ts", max_ahead="1 hour").late("emit")
    found = join.agg(n=A.count()).to_df().collect()
    assert [row.n for row in found if row.late is None] == [1]
    sides = [row.late for row in found if row.late is not None]
    assert sorted((side.left or side.right).v for side in sides) == [2, 2, 4]
    assert sum(side.right is not None for side in sides) == 1


def test_a_replayed_batch_decides_alike(spark: SparkSession, here: Path) -> None:
    """Rows of every second of two minutes. By the clock of the replay, fewer of them would be in the future."""
    feed = Feed(spark, here / "in", SCHEMA)
    begin = datetime.now(timezone.utc).replace(microsecond=0)
    feed.add(batch((hours_ago(1), "a", -1)))
    feed.add(batch(*((begin + timedelta(seconds=second), "a", second) for second in range(120))))
    told: dict[int, list[Row]] = {}
    first = collected(feed, here, told)
    last = max(first)
    noted = json.loads((here / "checkpoint" / "offsets" / str(last)).read_text().splitlines()[1])["batchTimestampMs"]
    time.sleep(max(0.0, noted / 1000 + 2 - time.time()))
    ahead = {row.late.v for row in first[1] if row.late is not None}
    for number in range(1, last + 1):
        (here / "checkpoint" / "commits" / str(number)).unlink()
        (here / "checkpoint" / "commits" / f".{number}.crc").unlink(missing_ok=True)
    for number in range(2, last + 1):
        (here / "checkpoint" / "offsets" / str(number)).unlink()
        (here / "checkpoint" / "offsets" / f".{number}.crc").unlink(missing_ok=True)
    again = collected(feed, here, {})
    assert ahead
    assert sorted(map(str, again[1])) == sorted(map(str, first[1]))


def collected(feed: Feed, here: Path, told: dict[int, list[Row]]) -> dict[int, list[Row]]:
    """What each batch tells. A file sink would skip a batch that it has seen."""

    def keep(frame: DataFrame, number: int) -> None:
        told[number] = frame.collect()

    query = summed(feed.stream(), W.tumbling("1 second"), watermark="1 second", max_ahead="0 seconds").late("emit")
    stream = query.to_df().writeStream.foreachBatch(keep)
    stream.option("checkpointLocation", str(here / "checkpoint")).trigger(availableNow=True).start().awaitTermination()
    return told


def reported(batches: Sequence[tuple[int, int]], watermark: str) -> Any:
    """A query whose batches had so many rows, and so many late ones."""

    def reports() -> Iterator[Any]:
        for number, (rows, late) in enumerate(batches):
            observed = dict.fromkeys(names(all_metrics()), 0) | {"rows": rows, "late_rows": late}
            yield _Report(
                batchId=number,
                observedMetrics={"muntin": observed},
                durationMs={"triggerExecution": 1000},
                eventTime={"watermark": watermark},
                timestamp="2026-05-04T12:00:00.000Z",
                numInputRows=rows,
            )

    return SimpleNamespace(recentProgress=list(reports()))


class _Report(SimpleNamespace):
    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)


@pytest.mark.parametrize(
    ("batches", "watermark", "said"),
    [
        ([(10, 9)], "2026-05-04T10:30:00.000Z", r"9 of the 10 rows.*1 hour 30 minutes behind the clock.*longer water"),
        ([(10, 9), *[(0, 0)] * 50], "9999-05-04T10:30:00.000Z", r"9 of the 10 rows.*from the future.*max_ahead="),
        ([(10, 9)], "+12345-05-04T10:30:00.000Z", r"\+12345-.*from the future.*max_ahead="),
        ([(10, 10), *[(1, 0)] * 10], "2026-05-04T10:30:00.000Z", None),
        ([(10, 5)], "2026-05-04T10:30:00.000Z", None),
        ([(0, 0)], "2026-05-04T10:30:00.000Z", None),
    ],
)
def test_recent_batches_with_rows_count(batches: list[tuple[int, int]], watermark: str, said: str | None) -> None:
    query = reported(batches, watermark)
    if said is None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert muntin.progress(query).warning is None
    else:
        with pytest.warns(MuntinWarning, match=said):
            assert muntin.progress(query).warning is not None
