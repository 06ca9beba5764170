"""Shards: ids against Spark's own hash, and how many a stream has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

import muntin
from muntin import aggregates as A
from muntin import windows as W
from muntin.query import Query
from muntin.spark import session
from muntin.spark.shards import STATE_PARTITIONS, shard_ids, shards_for
from tests.spark.streams import Feed, assert_same, keyed, results, run

SCHEMA = "ts timestamp, k int, v long"
SECOND = 1_000_000


@pytest.mark.parametrize("partitions", [1, 2, 3, 8, 200])
def test_each_id_has_a_partition_of_its_own(spark: SparkSession, partitions: int) -> None:
    ids = shard_ids(partitions)
    frame = spark.createDataFrame([(each,) for each in ids], "id int")
    hashed = frame.select(F.expr(f"pmod(hash(id), {partitions})").alias("partition")).collect()
    assert [row.partition for row in hashed] == list(range(partitions))
    assert 0 in ids


def total(data: DataFrame, by: tuple[str, ...] = ()) -> Query:
    over = muntin.over(data, W.sliding("4 seconds", "2 seconds"), time="ts", watermark="1 second", by=by)
    return over.agg(total=A.sum("v"))


HEAVY: dict[str, Callable[[DataFrame], Query]] = {
    "sessions": lambda data: muntin.over(data, W.session("5 seconds"), time="ts", by="k").agg(n=A.count()),
    "numbered": lambda data: muntin.over(data, W.count(5), time="ts", by="k").agg(n=A.count()),
    "quantiles": lambda data: muntin.over(data, W.tumbling("5 seconds"), time="ts", by="k").agg(m=A.quantile("v", 0.5)),
    "estimates": lambda data: total(data, ("k",)).approximate(budget="1 MB", error=0.1),
    "shedding": lambda data: total(data, ("k",)).shed(rate=0.5),
    "revisions": lambda data: total(data, ("k",)).emit("on_change"),
}


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], SCHEMA)


@pytest.mark.parametrize(
    ("cores", "shards"), [(1, 1), (2, 2), (3, 2), (4, 2), (8, 2), (12, 3), (16, 4), (64, 16), (100, 25)]
)
def test_where_shards_only_merge_panes_there_are_few(table: DataFrame, cores: int, shards: int) -> None:
    assert shards_for(total(table, ("k",)).plan([0]), cores) == shards
    assert shards_for(total(table).plan([0]), cores) == 1  # one group is in one shard


@pytest.mark.parametrize("name", HEAVY)
def test_where_shards_do_more_there_is_one_per_core(table: DataFrame, name: str) -> None:
    assert shards_for(HEAVY[name](table).plan([0]), 16) == 16


@pytest.fixture
def own(spark: SparkSession) -> SparkSession:
    """A session that behaves as on sixteen cores."""
    own = muntin.configure(spark.newSession())
    for name in (session.PARTITIONS, session._BY_WORK):
        own.conf.set(name, "16")
    return own


def test_the_number_of_a_session_never_falls(own: SparkSession, here: Path) -> None:
    stream = Feed(own, here / "rows", SCHEMA).stream()
    total(stream).to_df()
    assert session.state_partitions(own) == 1
    total(stream, ("k",)).to_df()
    assert session.state_partitions(own) == 4
    HEAVY["sessions"](stream.withWatermark("ts", "1 second")).to_df()
    total(stream).to_df()
    assert session.state_partitions(own) == 16


def test_a_number_that_is_set_counts(own: SparkSession, here: Path) -> None:
    stream = Feed(own, here / "rows", SCHEMA).stream()
    total(stream).to_df()
    own.conf.set(session.PARTITIONS, "5")
    total(stream).to_df()
    assert session.state_partitions(own) == 5
    muntin.configure(own, shards=3)
    total(stream).to_df()
    assert session.state_partitions(own) == 3
    assert own.conf.get(STATE_PARTITIONS, "7") == "7"


def rows(begin: int, count: int) -> pa.Table:
    times = [(begin + number // 3) * SECOND for number in range(count)]
    kind = pa.timestamp("us", tz="UTC")
    return pa.table(
        {"ts": pa.array(times, kind), "k": pa.array([n % 5 for n in range(count)], pa.int32()), "v": list(range(count))}
    )


def state_tasks(query: StreamingQuery) -> set[int]:
    reports = [report["stateOperators"][0] for report in query.recentProgress if report["stateOperators"]]
    return {report["numShufflePartitions"] for report in reports}


@pytest.mark.parametrize("by", [(), ("k",)], ids=["one group", "keys"])
def test_a_checkpoint_keeps_its_number(spark: SparkSession, own: SparkSession, here: Path, by: tuple[str, ...]) -> None:
    """As with a checkpoint from before queries chose; one group is in any one of its shards."""
    before = muntin.configure(spark.newSession(), shards=2)
    feed, again = Feed(before, here / "rows", SCHEMA), Feed(own, here / "unused", SCHEMA)
    again._folder = feed._folder
    feed.add(rows(0, 30), rows(8, 30))
    assert state_tasks(run(total(feed.stream(), by).to_df(), here)) == {2}
    feed.add(rows(20, 40), rows(40, 3))
    frame = total(again.stream(), by).to_df()
    assert session.state_partitions(own) == (4 if by else 1)
    query = run(frame, here)
    assert state_tasks(query) == {2}
    expected = [row for row in total(again.table(), by).to_df().collect() if row.window.end.timestamp() <= 39]
    assert_same(keyed(results(own, frame, here), *by), keyed(expected, *by))


def test_a_stream_starts_with_the_number_of_its_query(own: SparkSession, here: Path) -> None:
    feed = Feed(own, here / "rows", SCHEMA)
    feed.add(rows(0, 30), rows(20, 3))
    query = run(total(feed.stream()).to_df(), here)
    assert state_tasks(query) == {1}
