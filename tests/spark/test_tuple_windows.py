"""Windows over tuples, which Spark has not: what their literal definitions give, on tables and streams."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession

import muntin
from muntin import aggregates as A
from muntin import windows as W
from tests import naive
from tests.naive_models import BEFORE_ALL, BEHIND_ALL, Batch, Stream
from tests.spark.streams import Feed, results, run

SCHEMA = "ts timestamp, k string, n int, name string, x double, d double"
SECOND = 1_000_000
DELAY = 5 * SECOND
Parts = list[list[list[naive.Row]]]
"""Batches of rows, in parts with a restart between them."""

CHANGES = A.custom(
    lift=lambda n: {"first": n, "last": n, "changes": n * 0},
    combine=lambda a, b: {
        "first": a["first"],
        "last": b["last"],
        "changes": a["changes"] + b["changes"] + (a["last"] != b["first"]),
    },
    lower=lambda state: state["changes"],
    returns="long",
)


def changes(rows: Sequence[naive.Row]) -> int | None:
    """How often `n` changes. At equal times `d` grows with `n`, so that both orders are one."""
    values = [n for _, n in sorted((row["t"], row["n"]) for row in naive.present(rows, "n"))]
    return sum(a != b for a, b in pairwise(values)) if values else None


AGGREGATES: dict[str, tuple[A.Aggregate, naive.Aggregation]] = {
    "rows": (A.count(), naive.count()),
    "total": (A.sum("n"), naive.total("n")),
    "high": (A.max("name"), naive.greatest("name")),
    "known": (A.count("x"), naive.count("x")),
    "low": (A.min("x"), naive.least("x")),
    "mean": (A.mean("n"), naive.mean("n")),
    "spread": (A.stddev_samp("n"), naive.variance("n", sample=True, root=True)),
    "first": (A.first("name"), naive.first("name")),
    "last": (A.last("n"), naive.last("n")),
    "dearest": (A.argmax("name", "n"), naive.arg("name", "n", largest=True)),
    "some": (A.count(where="n > 3"), naive.where("n > 3", naive.count())),
    "some_names": (A.min("name", where="n > 3"), naive.where("n > 3", naive.least("name"))),
    "changes": (CHANGES, changes),
}
READ = ("n", "name", "x")
"""The columns that aggregates read, in their order. Equal times go by them, and before them by the column of delta."""

COUNTS = [W.count(10), W.count(12, 4), W.count(6, 8), W.count(8, 2, "2 seconds"), W.count(30, 30, "1 second")]
HYBRIDS = [
    W.slide_by_tuple("3 seconds", 5),
    W.slide_by_tuple("20 seconds", 1),
    W.slide_by_tuple("250 milliseconds", 40),
    W.slide_by_time(4, "2 seconds"),
    W.slide_by_time(30, "500 milliseconds"),
]
DELTAS = [W.delta("d", 4, 2), W.delta("d", 2.5, 7.25, name="rare"), W.delta("d", 30, 0.5)]
OVER_TIME = [
    W.sliding("20 seconds", "5 seconds", name="twenty"),
    W.cumulative("12 seconds", "4 seconds"),
    W.session("1 second"),
]
FORGETFUL: list[W.Window] = [
    W.count(3, forget_after="1500 milliseconds"),
    W.slide_by_tuple("1 second", 2, forget_after="1 second"),
    W.slide_by_time(3, "1 second", forget_after="1500 milliseconds"),
    W.delta("d", 3, 0.5, forget_after="1500 milliseconds"),
]
SETS: dict[str, list[W.Window]] = {
    "count": [*COUNTS],
    "hybrid": [*HYBRIDS],
    "delta": [*DELTAS],
    "all": [*DELTAS[:2], *COUNTS[1:4], OVER_TIME[2], *HYBRIDS, *OVER_TIME[:2], *FORGETFUL],
}


def oracle(windows: Sequence[W.Window], watermark: int = 0) -> Stream:
    named = {name: of for name, (_, of) in AGGREGATES.items()}
    deltas = [window.column for window in windows if isinstance(window, W.DeltaWindow)]
    return Stream(windows, ["k"], [*READ, *deltas], named, named, watermark, DELAY)


def streamed(windows: Sequence[W.Window], parts: Parts) -> list[Batch]:
    """What to expect of a stream: a batch has the watermark of those before it, and a run ends with one of no rows."""
    judge, latest, batches = oracle(windows), 0, []
    for batch in [batch for part in parts for batch in [*part, []]]:
        batches.append(judge.batch(batch, latest - DELAY))
        latest = max([latest, *(row["t"] for row in naive.present(batch, "t"))])
    return batches


def check(rows: Iterable[Row], windows: Sequence[W.Window], batches: Iterable[Batch]) -> None:
    expected = {place: values for batch in batches for place, values in batch.answers.items()}
    found: naive.Answers = {}
    for row in rows:
        values = row.asDict()
        end, start = (round(edge.timestamp() * SECOND) for edge in (row.window.end, row.window.start))
        place = (end, start, values.get("window_name", windows[0].title), row.window_id, (row.k,))
        assert place not in found, f"{place} came twice"
        found[place] = {name: values[name] for name in ("partial", *AGGREGATES) if name in values}
    assert found.keys() == expected.keys()
    for place, values in expected.items():
        assert found[place].keys() == values.keys()
        for name, value in values.items():
            assert naive.same(found[place][name], value), f"{name} of {place}: {found[place][name]!r}, not {value!r}"


def random_rows(rng: np.random.Generator, count: int, first: int, last: int) -> list[naive.Row]:
    """Seconds `[first, last)` in quarters, so that there are ties, and a `d` that mostly grows with the time."""
    rows: list[naive.Row] = []
    for _ in range(count):
        time = int(rng.integers(first * 4, last * 4)) * 250_000
        n = None if rng.random() < 0.1 else int(rng.integers(-5, 10))
        odd = (None, math.nan, time / SECOND - 8, time / SECOND + 1.5)[int(rng.integers(4))]
        rows.append(
            {
                "t": None if rng.random() < 0.02 else time,
                "k": str(rng.choice(["a", "b", "c", "é"])) if rng.random() < 0.9 else None,
                "n": n,
                "name": None if rng.random() < 0.1 else str(rng.choice(list("uvwxyé"))),
                "x": None if rng.random() < 0.1 else float(rng.integers(-20, 20)) / 4,
                "d": odd if n is None and rng.random() < 0.6 else time / SECOND + ((n or 0) + 5) / 64,
                "n > 3": None if n is None else n > 3,
            }
        )
    return rows


def to_table(rows: Sequence[naive.Row]) -> pa.Table:
    types = {"k": pa.string(), "n": pa.int32(), "name": pa.string(), "x": pa.float64(), "d": pa.float64()}
    times = pa.array([row["t"] for row in rows], pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    return pa.table({"ts": times} | {name: pa.array([row[name] for row in rows], kind) for name, kind in types.items()})


def query(frame: DataFrame, windows: Sequence[W.Window], watermark: str | None = None) -> muntin.Query:
    ours = {name: aggregate for name, (aggregate, _) in AGGREGATES.items()}
    return muntin.over(frame, *windows, time="ts", watermark=watermark, by="k").agg(**ours)


def check_table(spark: SparkSession, windows: Sequence[W.Window], rows: list[naive.Row]) -> list[Row]:
    frame = spark.createDataFrame(to_table(rows)).repartition(3)
    ours = query(frame, windows).to_df().collect()
    check(ours, windows, [oracle(windows, BEFORE_ALL).batch(rows, BEHIND_ALL)])
    return ours


@pytest.mark.parametrize("which", list(SETS))
def test_every_model_on_a_table(spark: SparkSession, which: str) -> None:
    ours = check_table(spark, SETS[which], random_rows(np.random.default_rng(1), 600, -40, 60))
    assert {row.window_name for row in ours} == {window.title for window in SETS[which]}, "some show nothing"


counts = st.integers(1, 12)
quarters = st.integers(1, 40).map(lambda quarter: f"{quarter * 250} milliseconds")
amounts = st.integers(1, 80).map(lambda eighths: eighths / 8)
ANY = (
    st.builds(W.count, counts, counts, st.none() | quarters)
    | st.builds(W.slide_by_tuple, quarters, counts)
    | st.builds(W.slide_by_time, counts, quarters)
    | st.builds(W.delta, st.just("d"), amounts, amounts)
)


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(ANY, min_size=1, max_size=5, unique_by=lambda w: w.title), st.integers(0, 2**32))
def test_any_models_on_a_table(spark: SparkSession, windows: list[W.Window], seed: int) -> None:
    check_table(spark, windows, random_rows(np.random.default_rng(seed), 250, -20, 20))


def three_parts(seed: int) -> Parts:
    """Batches that overlap by more than the watermark allows, one that is empty, and old rows that are late."""
    rng = np.random.default_rng(seed)

    def batch(first: int, last: int, count: int = 60) -> list[naive.Row]:
        return random_rows(rng, count, first, last)

    return [
        [batch(-3, 15), batch(5, 30), batch(20, 45), batch(44, 46, 5)],
        [batch(0, 30, 20) + batch(40, 60), [], batch(50, 75), batch(30, 71)],
        [batch(60, 90), batch(80, 82), batch(85, 88, 3), batch(0, 120, 40), batch(115, 140)],
    ]


@pytest.mark.parametrize("which", ["count", "all"])
def test_every_model_on_a_stream_with_restarts(spark: SparkSession, here: Path, which: str) -> None:
    windows, parts = SETS[which], three_parts(seed=len(which))
    feed = Feed(spark, here / "in", SCHEMA)
    for part in parts:
        feed.add(*map(to_table, part))
        frame = query(feed.stream(), windows, "5 seconds").to_df()
        handle = run(frame, here / "ours")
    ours, batches = results(spark, frame, here / "ours"), streamed(windows, parts)
    check(ours, windows, batches)
    assert {row.window_name for row in ours} == {window.title for window in windows}, "some show nothing"
    progress = muntin.progress(handle)
    assert progress.rows == sum(batch.rows for batch in batches)
    assert progress.late_rows == sum(len(batch.late) for batch in batches) > 0
    assert progress.invalid_rows == sum(batch.invalid_rows for batch in batches) > 0
    assert (progress.results, progress.tuples) == (len(ours), batches[-1].waiting)


def test_a_batch_that_fails_is_replayed_once(spark: SparkSession, here: Path) -> None:
    parts = three_parts(seed=9)[:1]
    windows = [COUNTS[3], HYBRIDS[3], DELTAS[0], OVER_TIME[2]]
    feed = Feed(spark, here / "in", SCHEMA)
    feed.add(*map(to_table, parts[0]))
    kept: dict[int, list[Row]] = {}
    failed: list[int] = []

    def sink(part: DataFrame, number: int) -> None:
        rows = part.collect()
        if number in (1, 3) and number not in failed:
            failed.append(number)
            raise OSError("the sink is full")
        kept[number] = rows

    def start() -> Any:
        writer = query(feed.stream(), windows, "5 seconds").to_df().writeStream.foreachBatch(sink)
        return writer.option("checkpointLocation", str(here / "checkpoint")).trigger(availableNow=True).start()

    for _ in range(2):
        with pytest.raises(StreamingQueryException):
            start().awaitTermination()
    start().awaitTermination()
    check([row for rows in kept.values() for row in rows], windows, streamed(windows, parts))
    assert failed == [1, 3]
