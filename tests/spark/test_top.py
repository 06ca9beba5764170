"""`.top()` on tables and streams: Spark's own ranks over the complete result are the judge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import muntin
from muntin import MuntinError, Query
from muntin import aggregates as A
from muntin import windows as W
from tests.spark.streams import Feed, results, run

SCHEMA = "ts timestamp, route string, zone int, fare double, tip double"
SLIDING = W.sliding("15 seconds", "5 seconds", name="fine")
TUMBLING = W.tumbling("10 seconds", name="coarse")


def batch(seed: int, first: int, last: int) -> pa.Table:
    """Seconds `[first, last)`, out of order: many routes, few different fares, some of them missing or NaN."""
    rng = np.random.default_rng(seed)
    count = (last - first) * 60
    fares = rng.choice([1.0, 2.0, 2.0, 3.5, np.nan], count, p=[0.4, 0.2, 0.2, 0.199, 0.001])
    routes = rng.integers(0, 40, count)
    return pa.table(
        {
            "ts": pa.array(rng.integers(first * 1_000_000, last * 1_000_000, count)).cast(pa.timestamp("us", tz="UTC")),
            "route": pa.array([f"route {route}" for route in routes], mask=routes == 7),
            "zone": pa.array(rng.integers(0, 2, count).astype(np.int32)),
            "fare": pa.array(fares, mask=(rng.random(count) < 0.2) | (routes % 11 == 0)),
            "tip": pa.array(rng.integers(0, 4, count).astype(float)),
        }
    )


@pytest.fixture(scope="module")
def feed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Feed:
    made = Feed(spark, tmp_path_factory.mktemp("top") / "in", SCHEMA)
    made.add(*(batch(seed, 8 * seed, 8 * seed + 10) for seed in range(5)))
    return made


def over(data: DataFrame, *windows: W.Window, by: Any = ("route", "zone")) -> Query:
    query = muntin.over(data, *(windows or (SLIDING, TUMBLING)), time="ts", watermark="2 seconds", by=by)
    return query.agg(trips=A.count(), best=A.max("fare"), tips=A.sum("tip"))


def sparks_ranks(complete: DataFrame, by: str, k: int, descending: bool = True) -> set[tuple[Any, ...]]:
    """The complete result with Spark's row numbers, cut to k."""
    value = F.col(by).desc_nulls_last() if descending else F.col(by).asc_nulls_last()
    within = Window.partitionBy("window_name", "window").orderBy(value, "route", "zone")
    rows = complete.withColumn("rank", F.row_number().over(within)).where(F.col("rank") <= k)
    return told(rows)


def told(frame: DataFrame) -> set[tuple[Any, ...]]:
    names = ["window_name", "window", "window_id", "route", "zone", "trips", "best", "tips", "rank"]
    return {tuple(map(repr, row)) for row in frame.select(*names).collect()}


@pytest.mark.parametrize(("by", "descending"), [("best", True), ("best", False), ("trips", True), ("tips", False)])
def test_a_table_is_ranked_as_by_spark(feed: Feed, by: str, descending: bool) -> None:
    query = over(feed.table())
    ranked = query.top(5, by=by, descending=descending).to_df()
    assert ranked.columns[-5:] == ["trips", "best", "tips", "rank", "window_time"]
    expected = sparks_ranks(query.to_df(), by, 5, descending)
    assert expected
    assert told(ranked) == expected


def test_results_come_in_the_order_of_windows_and_ranks(feed: Feed) -> None:
    rows = over(feed.table(), TUMBLING).top(1000, by="trips").to_df().collect()
    places = [(row.window.end, row["rank"]) for row in rows]
    assert places == sorted(places)
    assert max(rank for _, rank in places) > 70


def test_a_stream_is_ranked_over_all_shards(spark: SparkSession, here: Path) -> None:
    """With a restart, which finds the windows that were open."""
    shards = spark.conf.get("spark.sql.shuffle.partitions")
    muntin.configure(spark, shards=3)
    try:
        growing = Feed(spark, here / "in", SCHEMA)
        complete = over(growing.stream()).to_df()
        for seeds in (range(3), range(3, 5)):
            growing.add(*(batch(seed, 8 * seed, 8 * seed + 10) for seed in seeds))
            ranked = over(growing.stream()).top(4, by="best").to_df()
            handle = run(ranked, here / "ranked")
        run(complete, here / "complete")
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", str(shards))
    all_rows = spark.read.schema(complete.schema).parquet(str(here / "complete" / "out"))
    best_rows = spark.read.schema(ranked.schema).parquet(str(here / "ranked" / "out"))
    expected = sparks_ranks(all_rows, "best", 4)
    assert len(expected) == (7 + 3) * 4  # the windows that have ended by second 39
    assert told(best_rows) == expected
    assert muntin.progress(handle).results == all_rows.count()  # windows of keys that closed, told or not


def test_late_rows_have_no_rank(spark: SparkSession, here: Path) -> None:
    feed = Feed(spark, here / "in", SCHEMA)
    feed.add(batch(1, 0, 10), batch(2, 30, 31), batch(3, 60, 61), batch(4, 5, 6), batch(5, 90, 91))
    ranked = over(feed.stream(), TUMBLING).top(1, by="trips").late("emit").to_df()
    assert ranked.columns[-4:] == ["rank", "late", "lateness", "window_time"]
    run(ranked, here / "out")
    rows = results(spark, ranked, here / "out")
    assert len([row for row in rows if row.window is None and row["rank"] is None and row.late.ts is not None]) == 60
    assert [row["rank"] for row in rows if row.window is not None] == [1] * 3


def test_ranks_of_estimates_have_a_range(feed: Feed) -> None:
    query = over(feed.table(), W.tumbling("20 seconds"), by="zone").agg(p=A.median("tip"), m=A.mean("fare"))
    ranked = query.approximate(400, 0.2, incremental=False).top(1, by="m").to_df()
    assert ranked.select("quality.*").columns[-2:] == ["first_rank", "last_rank"]
    for row in ranked.collect():
        assert row.quality.first_rank == 1 <= row["rank"] <= row.quality.last_rank <= 2


MISTAKES: dict[str, tuple[Any, str]] = {
    "no k": (lambda t: over(t).top(0, by="trips"), "k must be a whole number from 1, got 0"),
    "half a k": (lambda t: over(t).top(2.5, by="trips"), "k must be a whole number from 1, got 2.5"),  # type: ignore[arg-type]
    "no name": (lambda t: over(t).top(1, by=7), "by must be the name of one of the query's aggregates"),  # type: ignore[arg-type]
    "no direction": (lambda t: over(t).top(1, by="trips", descending="up"), "descending must be"),  # type: ignore[arg-type]
    "an unknown aggregate": (lambda t: over(t).top(1, by="trip").to_df(), "by='trip'.*mean 'trips'"),
    "a key": (lambda t: over(t).top(1, by="route").to_df(), "by='route'.*is not one of the query's aggregates"),
    "a list": (
        lambda t: over(t).agg(q=A.quantile("fare", [0.1, 0.9])).top(1, by="q").explain(),
        "by='q'.*is of type array<",
    ),
    "no groups": (lambda t: over(t, by=()).top(1, by="trips"), "the query has none; name the key with by="),
    "sessions": (
        lambda t: over(t, W.session("1 second")).top(1, by="trips"),
        "'session.1 second.' belongs to a single",
    ),
    "a count window": (lambda t: over(t, TUMBLING, W.count(5)).top(1, by="trips"), "belongs to a single key"),
    "a function": (lambda t: applied(t).top(1, by="n"), "applies a function instead; use .agg"),
    "a function later": (
        lambda t: muntin.over(t, TUMBLING, time="ts", by="zone").top(1, by="n").apply(lambda x: x, "n long").to_df(),
        "applies a function instead",
    ),
}


def applied(table: DataFrame) -> Query:
    return muntin.over(table, TUMBLING, time="ts", by="zone").apply(lambda tuples: tuples, "n long")


@pytest.mark.parametrize("mistake", list(MISTAKES))
def test_a_mistake_is_named(feed: Feed, mistake: str) -> None:
    build, message = MISTAKES[mistake]
    with pytest.raises(MuntinError, match=f"(?s){message}"):
        build(feed.table())


def test_the_order_of_calls_does_not_matter(feed: Feed) -> None:
    before = muntin.over(feed.table(), TUMBLING, time="ts", by="zone").top(1, by="n").agg(n=A.count()).to_df()
    after = muntin.over(feed.table(), TUMBLING, time="ts", by="zone").agg(n=A.count()).top(1, by="n").to_df()
    assert before.collect() == after.collect() != []


def test_explain_says_how_it_is_ranked(feed: Feed, capsys: pytest.CaptureFixture[str]) -> None:
    over(feed.stream()).top(10, by="best").explain()
    said = capsys.readouterr().out
    assert "Ranking: the first 10 groups of each window by 'best', the largest first; ties by 'route', 'zone'" in said
    assert "Every shard sends its first 10 of each window to one task" in said
    assert "muntin.progress(query) reports the overlap" in said
    over(feed.table()).top(1, by="tips", descending=False).approximate(100, 0.1).explain()
    said = capsys.readouterr().out
    assert "Ranking: the first 1 group of each window by 'tips', the smallest first" in said
    assert "Every shard sends all groups of each window" in said
