"""`muntin.shed_rate`: the rate of a running stream is set by hand, from the next batch on and after a restart."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import muntin
from muntin import MuntinError
from muntin import aggregates as A
from muntin import windows as W
from muntin.spark.metrics import metrics_of
from tests.spark.streams import Feed, keyed
from tests.spark.test_shed import SCHEMA, made

ROWS = 2000
PATIENCE = 120


@pytest.fixture
def feed(spark: SparkSession, here: Path) -> Feed:
    return Feed(spark, here / "in", SCHEMA)


def query(frame: DataFrame) -> muntin.Query:
    return muntin.over(frame, W.tumbling("20 seconds"), time="t", watermark="5 seconds", by="k").agg(
        trips=A.count(), middle=A.median("n")
    )


def started(frame: DataFrame, here: Path) -> StreamingQuery:
    return (
        frame.writeStream.format("parquet")
        .option("path", str(here / "out"))
        .option("checkpointLocation", str(here / "checkpoint"))
        .trigger(processingTime="100 milliseconds")
        .start()
    )


def wait_for(condition: Callable[[], bool], stream: StreamingQuery) -> None:
    until = time.monotonic() + PATIENCE
    while not condition() and stream.isActive and time.monotonic() < until:
        time.sleep(0.05)
    assert condition(), stream.exception()


def rates(stream: StreamingQuery) -> list[float]:
    """The rate of every batch with rows."""
    reports = [metrics_of(report) for report in stream.recentProgress if report["numInputRows"]]
    return [metrics["shed_rate"] / 1e6 for metrics in reports if metrics is not None]


def next_rate(stream: StreamingQuery, feed: Feed, begin: int) -> float:
    """The rate of the batch with the next file."""
    before = len(rates(stream))
    feed.add(made(begin, ROWS))
    wait_for(lambda: len(rates(stream)) > before, stream)
    return rates(stream)[before]


def test_the_rate_is_set_by_hand_and_stays_after_a_restart(feed: Feed, here: Path) -> None:
    shed = query(feed.stream()).shed(rate=0.5).to_df()
    stream = started(shed, here)
    try:
        assert next_rate(stream, feed, 0) == 0.5
        muntin.shed_rate(stream, 0.9)
        assert next_rate(stream, feed, 60) == 0.9
    finally:
        stream.stop()
    with pytest.raises(MuntinError, match="has ended"):
        muntin.shed_rate(stream, 0.5)
    again = started(query(feed.stream()).shed(rate=0.5).to_df(), here)
    try:
        assert next_rate(again, feed, 120) == 0.9
        muntin.shed_rate(again, 0)
        assert next_rate(again, feed, 180) == 0
        muntin.shed_rate(again, None)
        feed.add(made(240, 10))
        again.processAllAvailable()
        assert rates(again)[-1] == 0.5
    finally:
        again.stop()
    found = keyed(feed.table().sparkSession.read.parquet(str(here / "out")).collect(), "k")
    truth = keyed(query(feed.table()).to_df().collect(), "k")
    assert len(found) > len(truth) / 2
    minutes = {0: set[str](), 2: set[str](), 3: set[str]()}
    for place, values in found.items():
        assert values["trips"] == truth[place]["trips"]
        minutes.setdefault(place[0].minute, set()).add(values["quality"]["mode"])
    assert "approximate" in minutes[0] & minutes[2]
    assert minutes[3] == {"exact"}, "nothing was shed then"


@pytest.mark.extended
def test_a_target_latency_goes_on_from_the_rate_that_was_set(feed: Feed, here: Path) -> None:
    stream = started(query(feed.stream()).shed(target_latency="1 hour").to_df(), here)
    try:
        assert next_rate(stream, feed, 0) == 0
        muntin.shed_rate(stream, 0.98)
        assert [next_rate(stream, feed, 60), next_rate(stream, feed, 120)] == [0.98, 0.98]
        muntin.shed_rate(stream, None)
        assert 0.9 < next_rate(stream, feed, 180) < 0.98
        muntin.shed_rate(stream, 0.5)
    finally:
        stream.stop()
    again = started(query(feed.stream()).shed(target_latency="1 hour").to_df(), here)
    try:
        assert next_rate(again, feed, 240) == 0.5
    finally:
        again.stop()


def test_queries_that_cannot_shed_are_refused(spark: SparkSession, feed: Feed, here: Path) -> None:
    feed.add(made(0, ROWS))
    frame = query(feed.table()).to_df()
    for wrong in (None, frame, query(feed.table())):
        with pytest.raises(MuntinError, match=r"takes the StreamingQuery that writeStream...start\(\) returns"):
            muntin.shed_rate(wrong, 0.5)  # type: ignore[arg-type]
    plain = feed.stream().writeStream.format("noop").trigger(processingTime="1 hour").start()
    exact = started(query(feed.stream()).to_df(), here)
    try:
        for rate in (1, -0.1, float("nan"), True, "0.5", [0.5]):
            with pytest.raises(MuntinError, match="rate must be a number from 0 to below 1"):
                muntin.shed_rate(exact, rate)  # type: ignore[arg-type]
        wait_for(lambda: bool(plain.recentProgress) and bool(exact.recentProgress), exact)
        with pytest.raises(MuntinError, match="is not one of Muntin's"):
            muntin.shed_rate(plain, 0.5)
        with pytest.raises(MuntinError, match=r"does not shed; start it with \.shed"):
            muntin.shed_rate(exact, 0.5)
    finally:
        plain.stop()
        exact.stop()


def test_without_local_files_there_is_an_error(spark: SparkSession, feed: Feed, here: Path) -> None:
    spark.conf.set("spark.muntin.local.dir", "off")
    stream = started(query(feed.stream()).shed(rate=0.5).to_df(), here)
    try:
        with pytest.raises(MuntinError, match="no host has any"):
            muntin.shed_rate(stream, 0.9)
        assert next_rate(stream, feed, 0) == 0.5
    finally:
        spark.conf.unset("spark.muntin.local.dir")
        stream.stop()
