"""`muntin.drift` of results, and the drift that a stream's progress tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import muntin
from muntin import MuntinError, Query
from muntin import aggregates as A
from muntin import windows as W
from tests.spark.streams import Feed, run

SCHEMA = "ts timestamp, k string, f double"
TEN = W.tumbling("10 seconds", name="ten")
FIVE = W.sliding("20 seconds", "5 seconds", name="five")


def batch(seed: int, first: int, last: int) -> pa.Table:
    """Groups that come and go: at second s those around s."""
    rng = np.random.default_rng(seed)
    seconds = np.sort(rng.integers(first, last, (last - first) * 20))
    groups = (seconds + rng.integers(0, 15, len(seconds))) // 3
    return pa.table(
        {
            "ts": pa.array(seconds * 1_000_000).cast(pa.timestamp("us", tz="UTC")),
            "k": pa.array([f"k{group}" for group in groups], mask=groups % 5 == 0),
            "f": pa.array(np.where(groups % 2 == 0, np.nan, 1.5)),
        }
    )


@pytest.fixture(scope="module")
def feed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Feed:
    made = Feed(spark, tmp_path_factory.mktemp("drift") / "in", SCHEMA)
    made.add(batch(1, 0, 33), batch(2, 33, 50), batch(3, 80, 95))  # nothing from 50 to 80
    return made


def over(data: DataFrame, *windows: W.Window) -> Query:
    return muntin.over(data, *(windows or (TEN, FIVE)), time="ts", watermark="2 seconds", by=["k", "f"])


Concept = dict[tuple[Any, ...], float]


def naive(result: DataFrame, count: str | None) -> dict[tuple[Any, ...], Any]:
    concepts: dict[tuple[str, int], Concept] = {}
    places: dict[tuple[str, int], Any] = {}
    for row in result.collect():
        window = row["window_name"] if "window_name" in result.columns else "", row["window_id"]
        concepts.setdefault(window, {})[row["k"], repr(row["f"])] = 1 if count is None else row[count]
        places[window] = row["window"]
    found = {}
    for (name, number), later in concepts.items():
        earlier = concepts.get((name, number - 1))
        if earlier is not None:
            groups = earlier.keys() | later.keys()
            apart = sum(abs(earlier.get(group, 0) - later.get(group, 0)) for group in groups)
            overlap = len(earlier.keys() & later.keys()) / len(groups)
            distance = apart / (sum(earlier.values()) + sum(later.values()))
            found[name, places[name, number]] = (pytest.approx(overlap), pytest.approx(distance))
    return found


def told(drift: DataFrame) -> dict[tuple[Any, ...], tuple[float, float]]:
    rows = drift.collect()
    named = "window_name" in drift.columns
    found = {(row["window_name"] if named else "", row["window"]): (row["overlap"], row["distance"]) for row in rows}
    assert len(found) == len(rows)
    return found


def test_drift_of_a_table(feed: Feed) -> None:
    result = over(feed.table()).agg(s=A.max("f"), n=A.count(), some=A.count("f")).to_df()
    drift = muntin.drift(result)
    assert drift.columns == ["window", "window_name", "overlap", "distance"]
    expected = naive(result, "n")
    assert told(drift) == expected
    assert any(0 < overlap < 1 for overlap, _ in told(drift).values())


def test_frequencies_come_from_what_there_is(feed: Feed, here: Path) -> None:
    without = over(feed.table(), TEN).agg(s=A.max("f"), some=A.count("f")).to_df()
    assert told(muntin.drift(without)) == naive(without, None)
    assert told(muntin.drift(without, count="some")) == naive(without, "some")
    sampled = over(feed.table(), TEN).agg(mid=A.median("f")).approximate(50, 0.2).to_df()
    sizes = sampled.withColumn("size", F.col("quality.size"))
    assert told(muntin.drift(sampled)) == naive(sizes, "size")


def test_marks_survive_files_and_selects(spark: SparkSession, feed: Feed, here: Path) -> None:
    result = over(feed.table(), TEN).agg(n=A.count()).to_df()
    expected = told(muntin.drift(result))
    result.write.parquet(str(here / "results"))
    back = spark.read.parquet(str(here / "results"))
    assert told(muntin.drift(back)) == expected
    renamed = back.select("window_id", F.col("k").alias("key"), "f", F.col("n").alias("trips"), "window")
    assert told(muntin.drift(renamed.where("window_id >= 0"))) == expected
    bare = back.select(*(F.coalesce(F.col(name)).alias(name) for name in back.columns))  # computed: other columns
    with pytest.raises(MuntinError, match=r"does not mark its key columns.*name the keys with by="):
        muntin.drift(bare)
    assert told(muntin.drift(bare, by=["k", "f"], count="n")) == expected


def test_drift_of_what_a_stream_has_written(spark: SparkSession, feed: Feed, here: Path) -> None:
    frame = over(feed.stream()).agg(n=A.count()).late("emit").to_df()
    with pytest.raises(MuntinError, match=r"result is a stream.*muntin.progress\(query\)"):
        muntin.drift(frame)
    run(frame, here)
    back = spark.read.parquet(str(here / "out"))
    assert told(muntin.drift(back)) == naive(back.where("window IS NOT NULL"), "n")


def test_progress_tells_the_drift_of_the_windows_that_closed_last(spark: SparkSession, here: Path) -> None:
    feed = Feed(spark, here / "in", SCHEMA)
    for seed, (first, last) in enumerate([(0, 25), (25, 26), (26, 27)]):
        feed.add(batch(seed, first, last))
    complete = over(feed.table(), TEN).agg(n=A.count()).to_df().where("window_id < 2")
    ((overlap, distance),) = naive(complete, "n").values()
    ranked = over(feed.stream(), TEN).agg(n=A.count()).top(3, by="n").to_df()
    handle = run(ranked, here / "ranked")  # both windows close with the second batch
    progress = muntin.progress(handle)
    assert progress.batch_id >= 2
    assert (progress.overlap, progress.distance) == (overlap, distance)
    plain = run(over(feed.stream(), TEN).agg(n=A.count()).to_df(), here / "plain")
    assert (muntin.progress(plain).overlap, muntin.progress(plain).distance) == (None, None)


MISTAKES: dict[str, tuple[Any, str]] = {
    "no frame": (lambda r: muntin.drift([r]), "result must be the DataFrame of a query's results, got list"),  # type: ignore[arg-type]
    "no windows": (lambda r: muntin.drift(r.drop("window")), "result has no column 'window'"),
    "no window ids": (lambda r: muntin.drift(r.drop("window_id")), "result has no column 'window_id'"),
    "no keys": (lambda r: muntin.drift(r, by=[]), "by is empty"),
    "an unknown key": (lambda r: muntin.drift(r, by="key"), "by column 'key' is not in result"),
    "a key by number": (lambda r: muntin.drift(r, by=7), "by must be the name of a column of result, got 7"),  # type: ignore[arg-type]
    "an unknown count": (lambda r: muntin.drift(r, count="m"), "count column 'm' is not in result"),
    "a count of strings": (lambda r: muntin.drift(r, count="k"), "count column 'k' is of type string"),
}


@pytest.mark.parametrize("mistake", list(MISTAKES))
def test_a_mistake_is_named(feed: Feed, mistake: str) -> None:
    build, message = MISTAKES[mistake]
    with pytest.raises(MuntinError, match=message):
        build(over(feed.table(), TEN).agg(n=A.count()).to_df())


def test_windows_that_belong_to_a_key_are_not_marked(feed: Feed) -> None:
    result = over(feed.table(), W.count(5)).agg(n=A.count()).to_df()
    with pytest.raises(MuntinError, match="its windows are not over time"):
        muntin.drift(result)
