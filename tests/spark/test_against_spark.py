"""Spark itself is the judge: the same windows, keys and values as groupBy(keys, window(...)), on tables and streams.

Sessions are judged by `session_window`; cumulative windows, which Spark has not, by rows copied into each of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import muntin
from muntin import aggregates as A
from muntin import windows as W
from tests.spark.streams import Feed, assert_same, keyed, results, run

SCHEMA = "ts timestamp, k string, n int, x double, name string"
SECOND = 1_000_000

OURS: dict[str, A.Aggregate] = {
    "rows": A.count(),
    "known": A.count("x"),
    "total": A.sum("n"),
    "weight": A.sum("x"),
    "low": A.min("x"),
    "high": A.max("x"),
    "first_name": A.min("name"),
    "last_name": A.max("name"),
    "mean": A.mean("x"),
    "mean_n": A.mean("n"),
    "vp": A.var_pop("x"),
    "vs": A.var_samp("x"),
    "sp": A.stddev_pop("n"),
    "ss": A.stddev_samp("n"),
    "first": A.first("name"),
    "last": A.last("n"),
    "cheapest": A.argmin("name", "n"),
    "dearest": A.argmax("name", "n"),
    "some": A.count(where="n > 3"),
    "some_x": A.sum("x", where="n > 3"),
    "some_low": A.min("n", where="name = 'a'"),
}


def sparks() -> dict[str, Column]:
    """The same in Spark's words. Made late: some columns need a session."""
    many, counts = F.col("n") > 3, F.col("n").isNotNull()
    return {
        "rows": F.count(F.lit(1)),
        "known": F.count("x"),
        "total": F.sum("n"),
        "weight": F.sum("x"),
        "low": F.min("x"),
        "high": F.max("x"),
        "first_name": F.min("name"),
        "last_name": F.max("name"),
        "mean": F.avg("x"),
        "mean_n": F.avg("n"),
        "vp": F.var_pop("x"),
        "vs": F.var_samp("x"),
        "sp": F.stddev_pop("n"),
        "ss": F.stddev_samp("n"),
        # Nulls are skipped and ties have a fixed answer: order by time, then by value.
        "first": F.min_by("name", F.when(F.col("name").isNotNull(), F.struct("ts", "name"))),
        "last": F.max_by("n", F.when(F.col("n").isNotNull(), F.struct("ts", "n"))),
        "cheapest": F.min_by("name", F.when(counts, F.struct("n", "ts", F.col("name").isNull(), "name"))),
        "dearest": F.min_by("name", F.when(counts, F.struct(-F.col("n"), "ts", F.col("name").isNull(), "name"))),
        "some": F.count_if(many),
        "some_x": F.sum(F.when(many, F.col("x"))),
        "some_low": F.min(F.when(F.col("name") == "a", F.col("n"))),
    }


def grouped(frame: DataFrame, window: W.Window, *keys: str) -> DataFrame:
    cells = [expression.alias(name) for name, expression in sparks().items()]
    if isinstance(window, W.SessionWindow):
        result = frame.groupBy(F.session_window("ts", f"{window.gap} microseconds"), *keys).agg(*cells)
        return result.withColumnRenamed("session_window", "window")
    if isinstance(window, W.CumulativeWindow):
        return copied(frame, window).groupBy("window", *keys).agg(*cells)
    assert isinstance(window, W.TimeWindow)
    size, slide, offset = (f"{length} microseconds" for length in (window.size, window.slide, window.offset))
    return frame.groupBy(F.window("ts", size, slide, offset), *keys).agg(*cells)


def copied(frame: DataFrame, window: W.CumulativeWindow) -> DataFrame:
    """Every row once for each of its windows. Spark closes a column of windows if it is marked as `ts` is."""
    micros = F.unix_micros("ts") - window.offset
    size, step = F.lit(window.size), F.lit(window.step)
    start = micros - F.pmod(micros, size)
    ends = F.sequence(micros - F.pmod(micros, step) + step, start + size, step)
    frame = frame.where("ts is not null").withColumns({"start": start, "end": F.explode(ends)})
    bounds = F.struct(*(F.timestamp_micros(F.col(edge) + window.offset).alias(edge) for edge in ("start", "end")))
    return frame.select("*", bounds.alias("window", metadata=frame.schema["ts"].metadata))


def random_rows(rng: np.random.Generator, count: int, first: int, last: int) -> pa.Table:
    """Rows with everything that is awkward: nulls, NaN, infinities, ties, a null key, a null time."""
    if count == 0:
        return _table([], [], [], [], [])
    times = rng.integers(first, last, count) // 250_000 * 250_000
    special = np.array([0.0, -0.0, np.nan, np.inf, 1e100])
    x = np.where(rng.random(count) < 0.02, rng.choice(special, count), rng.normal(5, 2, count))
    return _table(
        [None if rng.random() < 0.02 else int(t) for t in times],
        [None if k == 0 else f"key-{k}" for k in rng.integers(0, 6, count)],
        [None if rng.random() < 0.1 else int(v) for v in rng.integers(-5, 10, count)],
        [None if rng.random() < 0.1 else float(v) for v in x],
        [None if rng.random() < 0.1 else str(v) for v in rng.choice(list("abcdé"), count)],
    )


def _table(ts: list[Any], k: list[Any], n: list[Any], x: list[Any], name: list[Any]) -> pa.Table:
    return pa.table(
        {
            "ts": pa.array(ts, pa.int64()).cast(pa.timestamp("us", tz="UTC")),
            "k": pa.array(k, pa.string()),
            "n": pa.array(n, pa.int32()),
            "x": pa.array(x, pa.float64()),
            "name": pa.array(name, pa.string()),
        }
    )


def check_table(spark: SparkSession, frame: DataFrame, windows: Sequence[W.Window], *keys: str) -> None:
    ours = muntin.over(frame, *windows, time="ts", by=keys).agg(**OURS).to_df().collect()
    for window in windows:
        expected = keyed(grouped(frame, window, *keys).collect(), *keys)
        assert_same(keyed(ours, *keys, only=window.title if len(windows) > 1 else None), expected)


def check_stream(
    spark: SparkSession, here: Path, parts: list[list[pa.Table]], windows: Sequence[W.Window], delay: str, *keys: str
) -> None:
    """Feed both the same batches, with a restart from the checkpoint between the parts."""
    feed = Feed(spark, here / "in", SCHEMA)
    for part in parts:
        feed.add(*part)
        query = muntin.over(feed.stream(), *windows, time="ts", watermark=delay, by=keys).agg(**OURS).to_df()
        run(query, here / "ours")
        for index, window in enumerate(windows):
            judge = grouped(feed.stream().withWatermark("ts", delay), window, *keys)
            run(judge, here / f"spark-{index}")
    ours = results(spark, query, here / "ours")
    for index, window in enumerate(windows):
        expected = keyed(results(spark, judge, here / f"spark-{index}"), *keys)
        assert expected, "the example closes no window and shows nothing"
        assert_same(keyed(ours, *keys, only=window.title if len(windows) > 1 else None), expected)


def test_every_aggregate_on_a_table(spark: SparkSession) -> None:
    rows = random_rows(np.random.default_rng(1), 2_000, -40 * SECOND, 60 * SECOND)
    check_table(
        spark,
        spark.createDataFrame(rows),
        [
            W.tumbling("7 seconds", name="tumbling"),
            W.sliding("10 seconds", "3 seconds", offset="1 second", name="ragged"),
            W.sliding("20 seconds", "500 milliseconds", offset=timedelta(seconds=-3), name="fine"),
        ],
        "k",
    )


@pytest.mark.parametrize("keys", [(), ("k",), ("k", "name", "n")])
def test_sessions_and_cumulative_windows_on_a_table(spark: SparkSession, keys: tuple[str, ...]) -> None:
    """Times are quarters of a second: many tuples are exactly the gap apart."""
    rows = random_rows(np.random.default_rng(2), 700 if keys else 150, -60 * SECOND, 60 * SECOND)
    windows: list[W.Window] = [
        W.session("1 second"),
        W.session("250 milliseconds"),
        W.cumulative("12 seconds", "3 seconds", offset="1 second"),
    ]
    check_table(spark, spark.createDataFrame(rows), windows, *keys)


@pytest.mark.parametrize("count", [0, 1])
def test_tables_of_no_row_and_one(spark: SparkSession, count: int) -> None:
    rows = random_rows(np.random.default_rng(3), count, 5 * SECOND, 6 * SECOND)
    check_table(spark, spark.createDataFrame(rows), [W.sliding("10 seconds", "5 seconds"), W.session("5 seconds")], "k")


seconds = st.integers(1, 40).map(lambda half: half * 500_000)


@st.composite
def spark_windows(draw: st.DrawFn) -> W.TimeWindow:
    """Windows that Spark can judge: it wants the slide no longer than the size, and the offset below the slide."""
    size = draw(seconds)
    slide = draw(seconds.filter(lambda s: s <= size))
    offset = draw(st.integers(0, slide // 500_000 - 1)) * 500_000
    return W.sliding(*(timedelta(microseconds=each) for each in (size, slide)), offset=timedelta(microseconds=offset))


@st.composite
def other_windows(draw: st.DrawFn) -> W.Window:
    """Sessions with gaps of about the distance between tuples, and cumulative windows."""
    unit = timedelta(milliseconds=250)
    if draw(st.booleans()):
        return W.session(draw(st.integers(1, 20)) * unit)
    step = draw(st.integers(1, 20)) * unit
    return W.cumulative(draw(st.integers(1, 8)) * step, step, offset=draw(st.integers(-20, 20)) * unit)


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(spark_windows(), min_size=1, max_size=3, unique_by=lambda w: w.title), st.integers(0, 2**32))
def test_any_windows_on_a_table(spark: SparkSession, windows: list[W.TimeWindow], seed: int) -> None:
    rows = random_rows(np.random.default_rng(seed), 300, -30 * SECOND, 30 * SECOND)
    check_table(spark, spark.createDataFrame(rows), windows, "k")


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(spark_windows() | other_windows(), min_size=2, max_size=4, unique_by=lambda w: w.title),
    st.sampled_from([(), ("k",), ("name", "k")]),
    st.integers(0, 2**32),
)
def test_any_mixture_of_windows_on_a_table(
    spark: SparkSession, windows: list[W.Window], keys: tuple[str, ...], seed: int
) -> None:
    rows = random_rows(np.random.default_rng(seed), 200, -30 * SECOND, 30 * SECOND)
    check_table(spark, spark.createDataFrame(rows), windows, *keys)


def test_every_aggregate_on_a_stream_with_a_restart(spark: SparkSession, here: Path) -> None:
    rng = np.random.default_rng(7)

    def batch(first: int, last: int, count: int = 400) -> pa.Table:
        return random_rows(rng, count, first * SECOND, last * SECOND)

    late = random_rows(rng, 60, 2 * SECOND, 40 * SECOND)
    parts = [
        [batch(-20, 15), batch(0, 40), batch(30, 60, 30)],
        [pa.concat_tables([late, batch(50, 80)]), batch(0, 0, 0), batch(60, 120)],
        [late, batch(100, 140)],
    ]
    windows = [
        W.sliding("10 seconds", "3 seconds", offset="1 second", name="ten"),
        W.tumbling("8 seconds", name="eight"),
    ]
    check_stream(spark, here, parts, windows, "5 seconds", "k")


def test_sessions_and_cumulative_windows_on_a_stream_with_a_restart(spark: SparkSession, here: Path) -> None:
    rng = np.random.default_rng(11)

    def batch(first: int, last: int, count: int = 60) -> pa.Table:
        return random_rows(rng, count, first * SECOND, last * SECOND)

    # Behind the first row of a session there may be a hole, which rows of a later batch fill.
    parts = [
        [batch(-10, 15), batch(0, 40), batch(20, 45)],
        [pa.concat_tables([batch(0, 30, 20), batch(40, 70)]), batch(0, 0, 0), batch(60, 110)],
        [batch(80, 112), batch(0, 100, 30), batch(105, 140)],
    ]
    windows: list[W.Window] = [W.session("1500 milliseconds"), W.cumulative("9 seconds", "3 seconds")]
    check_stream(spark, here, parts, windows, "5 seconds", "k")


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    window=spark_windows() | other_windows(),
    delay=st.integers(1, 20),
    cuts=st.lists(st.integers(0, 120), min_size=1, max_size=3),
    seed=st.integers(0, 2**32),
)
def test_any_disorder_and_any_batches(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    window: W.Window,
    delay: int,
    cuts: list[int],
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    batches = [random_rows(rng, max(count, 1), 0, (index + 1) * 20 * SECOND) for index, count in enumerate(cuts)]
    far = random_rows(rng, 5, 300 * SECOND, 301 * SECOND)
    parts = [batches, [far, random_rows(rng, 1, 400 * SECOND, 401 * SECOND)]]
    check_stream(spark, tmp_path_factory.mktemp("stream"), parts, [window], f"{delay} seconds", "k")
