"""Results of streams in tables that have one row for each window and key: Delta and SQLite, with restarts."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

import muntin
from muntin import aggregates as A
from muntin import windows as W
from tests.spark.streams import Feed
from tests.spark.test_updates import SCHEMA, rides

KEYS = ("window_name", "window_id", "k")
BATCHES = 3


def changing(data: DataFrame) -> muntin.Query:
    windows = W.session("6 minutes", name="session"), W.sliding("30 minutes", "10 minutes", name="sliding")
    query = muntin.over(data, *windows, time="ts", watermark="5 minutes", by="k")
    return query.agg(n=A.count(), most=A.max("v")).emit("on_change").late("update", within="2 hours")


def go_on(writer: DataStreamWriter, checkpoint: Path, replay: bool) -> None:
    """Write what is there. With `replay`, the last batch is written again: as after a kill before its commit."""
    commits = checkpoint / "commits"
    if replay and commits.exists():
        last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
        for path in (commits / str(last), commits / f".{last}.crc"):
            path.unlink(missing_ok=True)
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()


def in_sqlite(path: Path) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        read = connection.execute("SELECT window_name, window_id, k, window_start, window_end, n, most FROM fares")
        rows = [(*place, _time(start), _time(end), n, most) for *place, start, end, n, most in read.fetchall()]
    return _by_key(rows)


def in_delta(path: Path) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    rows = deltalake.DeltaTable(path).to_pyarrow_table().to_pylist()
    return _by_key([_row(row, row["window"]["start"], row["window"]["end"]) for row in rows])


def in_table(query: muntin.Query) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    rows = query.to_df().select("*", "window.start", "window.end").toArrow().to_pylist()
    return _by_key([_row(row, row["start"], row["end"]) for row in rows])


def _row(row: dict[str, Any], start: datetime, end: datetime) -> tuple[Any, ...]:
    return (*(row[key] for key in KEYS), start, end, row["n"], row["most"])


def _by_key(rows: list[tuple[Any, ...]]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    found = {row[:3]: row[3:] for row in rows}
    assert len(found) == len(rows)
    return found


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_tables_have_the_answers_of_the_same_rows_as_a_table(spark: SparkSession, here: Path) -> None:
    """Sessions merge and are retracted, keys may be null, and every batch but the first is written twice."""
    feed = Feed(spark, here / "in", SCHEMA)
    database, delta = here / "fares.db", here / "fares"
    for number in range(BATCHES):
        feed.add(rides(number) if number else rides(0).slice(0, 30))
        results = changing(feed.stream()).to_df()
        connect = _connect(database)
        go_on(muntin.upsert(results, "fares", format="dbapi", connect=connect), here / "to-database", number > 1)
        if number:
            go_on(muntin.upsert(results, delta, format="delta"), here / "to-delta", number > 1)
        if number == 0:  # a batch fails once it is written, and is not committed
            feed.add(rides(0).slice(30))
            failing = _connect(database, fails=True)
            writer = muntin.upsert(results, "fares", format="dbapi", connect=failing, check=False)
            with pytest.raises(StreamingQueryException, match="the driver is gone"):
                go_on(writer, here / "to-database", replay=False)
    answers = in_table(changing(feed.table()))
    assert in_sqlite(database) == answers
    assert in_delta(delta) == answers
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT max(revision) FROM fares").fetchone()[0] > 1


def _connect(database: Path, fails: bool = False) -> Callable[[], sqlite3.Connection]:
    opened = 0

    def connect() -> sqlite3.Connection:
        nonlocal opened
        opened += 1
        return sqlite3.connect(database, factory=_Failing if fails and opened > 1 else sqlite3.Connection)

    return connect


class _Failing(sqlite3.Connection):
    """Fails once everything is committed."""

    def close(self) -> None:
        super().close()
        raise RuntimeError("the driver is gone")


def test_what_identifies_a_row(spark: SparkSession, here: Path) -> None:
    """The keys of windows over rows are marked as well; those of functions are given."""
    feed = Feed(spark, here / "in", SCHEMA)
    feed.add(rides(0), rides(1))
    feed.add(pa.table({"ts": [datetime(1970, 1, 3)], "k": ["d"], "v": [1]}).cast(rides(0).schema))
    data = feed.stream()
    query = muntin.over(data, W.count(5), time="ts", watermark="40 minutes", by=F.upper("k").alias("upper k"))
    results = query.agg(n=A.sum("v")).to_df().where("n >= 0")
    connect = _connect(here / "t.db")
    go_on(muntin.upsert(results, "main.counts", format="dbapi", connect=connect), here / "counts", replay=False)
    with closing(sqlite3.connect(here / "t.db")) as connection:
        found = connection.execute('SELECT "upper k", window_id, n FROM counts').fetchall()
    table = muntin.over(feed.table(), W.count(5), time="ts", by=F.upper("k").alias("upper k")).agg(n=A.sum("v"))
    answers = [tuple(row) for row in table.to_df().select("upper k", "window_id", "n").collect()]
    assert sorted(found, key=str) == sorted((row for row in answers if row[0] != "D"), key=str)

    applied = muntin.over(data, W.tumbling("1 hour"), time="ts", watermark="5 minutes", by="k")
    rows = applied.apply(lambda rows: rows, "v long", columns=["v"]).to_df()
    with pytest.raises(muntin.MuntinError, match="results do not mark what identifies a row: a function returns"):
        muntin.upsert(rows, here / "rows", format="delta")
    muntin.upsert(rows, here / "rows", format="delta", by=["k", "v"])
    assert deltalake.DeltaTable(here / "rows").version() == 0  # it is made before the stream starts


def test_bad_arguments(spark: SparkSession, here: Path) -> None:
    feed = Feed(spark, here / "in", SCHEMA)
    data = feed.stream()
    over = muntin.over(data, W.tumbling("1 hour"), time="ts", watermark="5 minutes", by="k")
    results = over.agg(n=A.count()).to_df()

    def refused(match: str, frame: Any = results, target: Any = "fares", **given: Any) -> None:
        given = {"format": "dbapi", "connect": lambda: sqlite3.connect(here / "t.db")} | given
        given = {name: value for name, value in given.items() if value is not ...}
        with pytest.raises(muntin.MuntinError, match=match):
            muntin.upsert(frame, target, **given)

    refused("format is 'dleta'; it can be .* Did you mean 'delta'", format="dleta")
    refused("format is 'parquet', whose files cannot be updated", format="parquet")
    refused("results must be the streaming DataFrame .* got int", 3)
    refused("results are a table", feed.table())
    refused("results have no column 'window_id'", results.drop("window_id"))
    refused("results have late rows", over.agg(n=A.count()).late("emit").to_df())
    waiting = muntin.over(data, W.count(5, max_wait="1 hour"), time="ts", watermark="5 minutes", by="k")
    refused("results have incomplete windows", waiting.agg(n=A.count()).to_df())
    refused("connect is missing", connect=...)
    refused("connect must be a function", connect="t.db")
    refused("connect opens a connection to a database, and format is 'delta'", format="delta")
    refused("check must be True or False", check="no")
    refused("target must be the name of a table", target=3)
    refused("target must be the name of a table", target="a..b")
    refused("results do not have all keys of their query", results.drop("k"))
    refused("by column 'kk' is not in results. Did you mean 'k'", by="kk")
    refused("by must be the names of columns", by=[F.col("k")])
    refused("column 'all' of results is of type array<bigint>", over.agg(all=A.collect("v")).to_df())
    price = muntin.over(data, W.tumbling("1 hour"), time="ts", watermark="5 minutes", by=F.col("v").cast("double"))
    refused("key 'v' is of type double", price.agg(n=A.count()).to_df())
    refused("the name of a table, which the session cannot merge", format="delta", connect=...)
    refused("a path; format='iceberg-sql' needs the name", target="a/b", format="iceberg-sql", connect=...)
    with closing(sqlite3.connect(here / "t.db")) as connection:
        connection.execute("CREATE TABLE fares (window_id INTEGER, k TEXT, UNIQUE (window_id, k))")
        refused("target 'fares' does not take these results: .*window_start", by="k")
    muntin.upsert(results, here / "delta", format="delta")
    more = over.agg(n=A.mean("v"), m=A.count()).to_df()
    refused("has no column 'm'", more, here / "delta", format="delta", connect=...)
    refused("column 'n' of type bigint", more.drop("m"), here / "delta", format="delta", connect=...)
