"""A feature of a user's own on Spark: the example of `docs/extending.md`, on a table and on a stream."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from examples.feature_checksum import Checksum
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import muntin
from muntin import MuntinError, Query
from muntin import aggregates as A
from muntin import windows as W
from muntin.panes.keys import hashes
from tests.spark.streams import Feed, results, run

SCHEMA = "ts timestamp, route string, n long, tags array<string>"
CHECKSUM = Checksum(("n", "route"))
Sums = dict[tuple[int, str | None], int]
"""By the number of the window and the route."""


def batch(first: int, last: int) -> pa.Table:
    """A row per second, with nulls."""
    seconds = range(first, last)
    times = pa.array([second * 1_000_000 for second in seconds], pa.timestamp("us", tz="UTC"))
    routes = pa.array([None if second % 5 == 0 else f"route {second % 3}" for second in seconds])
    numbers = pa.array([None if second % 7 == 0 else second * second for second in seconds], pa.int64())
    tags = pa.array([["a"]] * len(seconds), pa.list_(pa.string()))
    return pa.table({"ts": times, "route": routes, "n": numbers, "tags": tags})


@pytest.fixture(scope="module")
def feed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Feed:
    made = Feed(spark, tmp_path_factory.mktemp("extending") / "in", SCHEMA)
    made.add(batch(0, 20), batch(20, 40))
    return made


def over(data: DataFrame) -> Query:
    query = muntin.over(data, W.sliding("10 seconds", "5 seconds"), time="ts", watermark="2 seconds", by="route")
    return query.agg(rows=A.count(), median=A.median("n"))


def sums(frame: DataFrame) -> Sums:
    return {(row.window_id, row.route): row.checksum for row in frame.collect()}


def naive_sums(rows: pa.Table) -> Sums:
    """One row at a time, with Python's integers."""
    totals: Sums = {}
    for i, row in enumerate(rows.to_pylist()):
        columns = [rows.column(name).slice(i, 1).combine_chunks() for name in ("ts", "n", "route")]
        hashed, second = int(hashes(columns, 1)[0]), i
        for window_id in (second // 5 - 1, second // 5):
            place = (window_id, row["route"])
            totals[place] = totals.get(place, 0) + hashed
    return {place: (total + 2**63) % 2**64 - 2**63 for place, total in totals.items()}


def test_a_table_has_the_checksums_of_its_windows(feed: Feed) -> None:
    frame = over(feed.table()).use(CHECKSUM).to_df()
    assert frame.columns == ["window", "window_id", "route", "rows", "median", "checksum", "window_time"]
    assert sums(frame) == naive_sums(batch(0, 40))


def test_a_stream_has_those_of_the_table_over_a_restart(spark: SparkSession, here: Path) -> None:
    """Its own metrics are reported beside those of the engine."""
    growing = Feed(spark, here / "in", SCHEMA)
    for first in (0, 20):
        growing.add(batch(first, first + 20).take(list(reversed(range(20)))))
        frame = over(growing.stream()).use(CHECKSUM).to_df()
        handle = run(frame, here)
    closed = {(row.window_id, row.route): row.checksum for row in results(spark, frame, here)}
    assert closed == {place: total for place, total in naive_sums(batch(0, 40)).items() if place[0] * 5 + 10 <= 37}
    progress = muntin.progress(handle)
    assert progress.checksummed_windows == progress.results == len(closed)
    assert 0 < progress.batch_checksummed_windows < len(closed)
    assert progress.meanings()["checksummed_windows"] == "Windows of keys that closed with a checksum."
    assert "checksummed_windows" in dir(progress)


def test_columns_are_given_as_anywhere(feed: Feed) -> None:
    """In any case, and as expressions."""
    table = over(feed.table())
    assert sums(table.use(Checksum(("N", "ROUTE"))).to_df()) == sums(table.use(CHECKSUM).to_df())
    computed = table.use(Checksum(("n * 2",)))
    assert repr(computed).endswith(".use(Checksum(('n * 2',)))")
    doubled = feed.table().withColumn("twice", F.expr("n * 2"))
    assert sums(computed.to_df()) == sums(over(doubled).use(Checksum(("twice",))).to_df())


def test_other_features_go_with_it(feed: Feed) -> None:
    table = over(feed.table()).use(CHECKSUM)
    expected = sums(table.to_df())
    assert sums(table.parallel("agnostic", 2).to_df()) == expected
    assert sums(table.parallel("active", 2).to_df()) == expected
    assert sums(table.approximate(3, 0.5).to_df()) == expected
    assert sums(table.top(3, by="rows").to_df()).items() <= expected.items()


def test_explain_says_it(feed: Feed, capsys: pytest.CaptureFixture[str]) -> None:
    over(feed.table()).use(CHECKSUM).explain()
    assert "\nChecksum: of the event time and n, route, 8 bytes per pane.\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda q: q.use(Checksum(())), "columns must be a tuple of column names"),
        (lambda q: q.use(Checksum(("m",))), "checksum's column 'm' is not in the data. There are: 'ts', 'route'"),
        (lambda q: q.use(Checksum(("tags",))), "Checksum column 'tags' is of type array<string>"),
        (lambda q: q.use(CHECKSUM).agg(checksum=A.count()), "Checksum adds a column 'checksum', and there is one"),
        (lambda q: q.shed(0.5).use(CHECKSUM), "shed() drops some"),
        (lambda q: q.use(CHECKSUM).shed(0.5), "shed() drops some"),
    ],
)
def test_what_does_not_go_together(feed: Feed, build: Callable[[Query], Query], message: str) -> None:
    with pytest.raises(MuntinError) as caught:
        build(over(feed.table()))
    assert message in str(caught.value)


def test_it_stands_beside_aggregates(feed: Feed) -> None:
    query = muntin.over(feed.table(), W.tumbling("1 hour"), time="ts").use(CHECKSUM)
    with pytest.raises(MuntinError, match="The query computes nothing yet"):
        query.to_df()
    with pytest.raises(MuntinError, match="the query applies a function"):
        query.apply(lambda rows: rows, "n long", columns=["n"]).to_df()
