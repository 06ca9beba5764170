"""Files on the host, on Spark: where the session says, none where it says so, and gone when a stream has ended."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import muntin
from muntin import MuntinError
from muntin import aggregates as A
from muntin import windows as W
from tests.spark.streams import Feed, keyed, results, run

SETTING = "spark.muntin.local.dir"
OURS = f"muntin-{os.geteuid()}"


@pytest.fixture
def chosen(spark: SparkSession, here: Path) -> Iterator[Path]:
    """A place of its own for the files, which the session names."""
    folder = here / "local"
    folder.mkdir()
    spark.conf.set(SETTING, str(folder))
    yield folder
    spark.conf.unset(SETTING)


@pytest.fixture
def feed(spark: SparkSession, here: Path) -> Feed:
    source = Feed(spark, here / "in", "t timestamp, k string, v long")
    for begin in (0, 60):
        times = pa.array([(begin + second) * 1_000_000 for second in range(60)]).cast(pa.timestamp("us", tz="UTC"))
        keys = [f"k{second % 3}" for second in range(60)]
        source.add(pa.table({"t": times, "k": keys, "v": pa.array(range(60))}))
    return source


def query(frame: DataFrame) -> muntin.Query:
    base = muntin.over(frame, W.tumbling("20 seconds"), time="t", watermark="1 second", by="k")
    return base.agg(n=A.count(), s=A.sum("v"))


def noted(frame: DataFrame) -> DataFrame:
    """With notes on the load."""
    return query(frame).shed(target_latency="1 hour").to_df()


def folders(place: Path) -> set[str]:
    return {each.name for each in place.glob(f"{OURS}/*")}


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 120
    while not condition() and time.monotonic() < until:
        time.sleep(0.1)
    assert condition()


def test_no_files_where_the_session_says_so(spark: SparkSession, feed: Feed, here: Path, chosen: Path) -> None:
    default = Path(tempfile.gettempdir())
    before = folders(default)
    spark.conf.set(SETTING, "off")
    stream = noted(feed.stream())
    run(stream, here / "off")
    assert folders(default) == before
    assert list(chosen.iterdir()) == []
    expected = keyed(query(feed.table()).to_df().collect(), "k")
    found = keyed(results(spark, stream, here / "off"), "k")
    assert len(found) == 15, "all but the last window have closed"
    assert all((found[key]["n"], found[key]["s"]) == (expected[key]["n"], expected[key]["s"]) for key in found)


def test_a_setting_that_is_no_place_is_told_in_to_df(spark: SparkSession, feed: Feed, chosen: Path) -> None:
    spark.conf.set(SETTING, "somewhere")
    with pytest.raises(MuntinError, match=f"{SETTING} is 'somewhere'"):
        noted(feed.stream())


def test_files_are_where_the_session_says_and_go_when_their_stream_has_ended(
    spark: SparkSession, feed: Feed, here: Path, chosen: Path
) -> None:
    live = noted(feed.stream()).writeStream.format("noop").option("checkpointLocation", str(here / "live"))
    running = live.trigger(processingTime="1 hour").start()  # one batch, and then it is idle, but alive
    try:
        wait_for(lambda: any(each["batchId"] == 0 for each in running.recentProgress))
        (of_running,) = folders(chosen)
        assert list(chosen.glob(f"{OURS}/{of_running}/*/holder"))
        assert list(chosen.glob(f"{OURS}/{of_running}/load/start-0"))
        run(noted(feed.stream()), here / "ended")
        (of_ended,) = folders(chosen) - {of_running}
        run(noted(feed.stream()), here / "next")
        left = folders(chosen)
        assert len(left) == 2
        assert of_running in left
        assert of_ended not in left
    finally:
        running.stop()
