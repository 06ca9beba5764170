"""`.wide()` on tables and streams of Spark, beside a join of the results of one query per window."""

from __future__ import annotations

import random
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import muntin
from muntin import MuntinError, Query
from muntin import aggregates as A
from muntin import windows as W
from tests.spark.streams import Feed, results, run

SCHEMA = "ts timestamp, k string, v long"
WINDOWS = [W.sliding(f"{size} seconds", "5 seconds", name=f"{size}s") for size in (5, 20, 60)]


def batch(ten: int) -> pa.Table:
    chance = random.Random(ten)
    rows = [(ten * 10 + 100 + chance.uniform(-15, 15), chance.choice("abc"), chance.randrange(30)) for _ in range(20)]
    times, keys, values = zip(*rows, strict=True)
    micros = pa.array([round(time * 1e6) for time in times], pa.int64())
    return pa.table({"ts": micros.cast(pa.timestamp("us", tz="UTC")), "k": keys, "v": pa.array(values, pa.int64())})


def query(data: DataFrame, *windows: W.Window, exact: bool = True) -> Query:
    delay = "5 seconds" if data.isStreaming else None
    counted = muntin.over(data, *windows, time="ts", watermark=delay, by="upper(k) AS key")
    more = {} if exact else {"middle": A.median("v")}
    return counted.agg(n=A.count(), s=A.sum("v"), **more)


def joined(frames: list[DataFrame], names: list[str]) -> DataFrame:
    columns = [
        frame.selectExpr("window.end AS as_of", "key", *(f"{name} AS {name}_{window.title}" for name in names))
        for frame, window in zip(frames, WINDOWS, strict=True)
    ]
    return reduce(lambda left, right: left.join(right, ["as_of", "key"], "full_outer"), columns)


def rows(frame: DataFrame, names: list[str]) -> list[tuple[object, ...]]:
    columns = ["as_of", "key", *(f"{name}_{window.title}" for name in names for window in WINDOWS)]
    return sorted((tuple(row) for row in frame.select(columns).collect()), key=lambda row: row[:2])


@pytest.mark.parametrize("exact", [True, False])
def test_a_table_is_the_join_of_tables(spark: SparkSession, here: Path, exact: bool) -> None:
    """With panes that Spark makes, and with those of the pane stage."""
    feed = Feed(spark, here / "in", SCHEMA)
    feed.add(*map(batch, range(3)))
    names = ["n", "s", *([] if exact else ["middle"])]
    wide = query(feed.table(), *WINDOWS, exact=exact).wide().to_df()
    assert wide.columns == [
        "as_of",
        "key",
        *(f"{name}_{window.title}" for name in names for window in WINDOWS),
        "window_time",
    ]
    assert wide.where("window_time + INTERVAL '0.000001' SECOND = as_of").count() == wide.count() > 10
    frames = [query(feed.table(), window, exact=exact).to_df() for window in WINDOWS]
    assert rows(wide, names) == rows(joined(frames, names), names)


@pytest.mark.extended
def test_a_stream_is_the_join_of_streams(spark: SparkSession, here: Path) -> None:
    """With late rows and a restart."""
    feed = Feed(spark, here / "in", SCHEMA)
    feed.add(*map(batch, range(3)))
    wide = query(feed.stream(), *WINDOWS).wide().to_df()
    alone = [query(feed.stream(), window).to_df() for window in WINDOWS]
    run(wide, here / "wide")
    feed.add(batch(4), batch(9))
    run(query(feed.stream(), *WINDOWS).wide().to_df(), here / "wide")
    for frame, window in zip(alone, WINDOWS, strict=True):
        run(frame, here / window.title)
    frames = [
        spark.createDataFrame(results(spark, frame, here / window.title), frame.schema)
        for frame, window in zip(alone, WINDOWS, strict=True)
    ]
    written = spark.createDataFrame(results(spark, wide, here / "wide"), wide.schema)
    found = rows(written, ["n", "s"])
    assert found == rows(joined(frames, ["n", "s"]), ["n", "s"])
    assert len(found) > 20


def test_it_is_checked_when_the_query_is_built(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    data = spark.createDataFrame([], SCHEMA)
    wide = query(data, *WINDOWS).wide()
    assert repr(wide).endswith(".wide()")
    wide.explain()
    assert "columns end in _5s, _20s, _60s" in capsys.readouterr().out
    with pytest.raises(MuntinError, match="rows without a window"):
        wide.late("emit")
    with pytest.raises(MuntinError, match="as they change"):
        wide.emit("on_change")
    with pytest.raises(MuntinError, match="spreads the windows"):
        wide.parallel()
    with pytest.raises(MuntinError, match="any number of rows"):
        muntin.over(data, WINDOWS[0], time="ts").wide().apply(lambda table: table, "y long")
    named = muntin.over(data, WINDOWS[0], time="ts", by="k AS n_5s").agg(n=A.count()).wide()
    with pytest.raises(MuntinError, match="'n_5s' is a column of the results and a key"):
        named.to_df()
