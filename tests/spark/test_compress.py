"""`.compress()`: whatever is compressed, when and with what, results are the same; and what goes wrong says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import muntin
from muntin import MuntinError
from muntin import aggregates as A
from muntin import windows as W
from tests.spark.streams import Feed, results, run

SCHEMA = "ts timestamp, k string, x double, name string"
WINDOWS: list[W.Window] = [
    W.sliding("12 seconds", "4 seconds", name="sliding"),
    W.session("500 milliseconds", name="session"),
    W.count(10, 5, name="count"),
]
SETTINGS = {"spark.sql.shuffle.partitions": "2", "spark.sql.streaming.noDataMicroBatches.enabled": "false"}
"""So that a limit of memory means the same everywhere, and the last batch is one with rows."""

Outcome = tuple[list[str], list[muntin.Progress]]
"""All results of a query, and how it stood at the end of each part."""


@pytest.fixture(autouse=True, scope="module")
def settings(spark: SparkSession) -> Iterator[None]:
    before = {name: spark.conf.get(name) for name in SETTINGS}
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    yield
    for name, known in before.items():
        spark.conf.set(name, str(known))


def batch(rng: np.random.Generator, first: int, last: int, count: int = 300) -> pa.Table:
    names = ["a", "bb", "é", None]
    return pa.table(
        {
            "ts": pa.array(rng.integers(first * 4, last * 4, count) * 250_000).cast(pa.timestamp("us", tz="UTC")),
            "k": pa.array([f"key-{k}" for k in rng.integers(0, 12, count)], pa.string()),
            "x": pa.array(rng.integers(-20, 20, count) / 4, pa.float64()),
            "name": pa.array([names[i] for i in rng.integers(0, 4, count)], pa.string()),
        }
    )


def parts() -> list[list[pa.Table]]:
    """Batches out of order, with late rows; the query is restarted between the parts."""
    rng = np.random.default_rng(1)
    late = pa.concat_tables([batch(rng, 0, 20, 50), batch(rng, 25, 42)])
    return [[batch(rng, 0, 18), batch(rng, 8, 30)], [late, batch(rng, 36, 60)]]


def holistic(frame: DataFrame) -> muntin.Query:
    query = muntin.over(frame, *WINDOWS, time="ts", watermark="3 seconds", by="k")
    return query.agg(
        rows=A.count(),
        mid=A.median("x"),
        tails=A.quantile("x", [0.1, 0.9]),
        common=A.mode("name"),
        names=A.count_distinct("name"),
        top=A.top_k("name", 2),
        all=A.collect("x", where="name IS NOT NULL"),
        last=A.last("x"),
    )


def rows_and_progress(spark: SparkSession, here: Path, policies: list[dict[str, Any] | None]) -> Outcome:
    """With a policy for each part, None for a query without compress()."""
    feed = Feed(spark, here / "in", SCHEMA)
    progress = []
    for part, policy in zip(parts(), policies, strict=True):
        feed.add(*part)
        query = holistic(feed.stream())
        frame = (query if policy is None else query.compress(**policy)).to_df()
        progress.append(muntin.progress(run(frame, here / "ours")))
    return sorted(map(repr, results(spark, frame, here / "ours"))), progress


@pytest.fixture(scope="module")
def uncompressed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, settings: None) -> Outcome:
    return rows_and_progress(spark, tmp_path_factory.mktemp("uncompressed"), [None, None])


def test_nothing_is_compressed_unless_asked(uncompressed: Outcome) -> None:
    rows, progress = uncompressed
    for window in WINDOWS:
        assert any(f"window_name='{window.title}'" in row for row in rows), "some show nothing"
    for each in progress:
        assert each.chunks > 0
        assert each.chunk_tuples > 0
        assert each.uncompressed_bytes > 0
        assert (each.compressed_chunks, each.compressed_bytes, each.compressions, each.decompressions) == (0, 0, 0, 0)
    assert progress[-1].late_rows > 0


def test_all_chunks_compressed_at_once(spark: SparkSession, here: Path, uncompressed: Outcome) -> None:
    policy = {"after": "0 seconds", "codec": "zstd", "level": 12}
    rows, progress = rows_and_progress(spark, here, [policy, policy])
    assert rows == uncompressed[0]
    for each, plain in zip(progress, uncompressed[1], strict=True):
        assert each.compressed_chunks == each.chunks == plain.chunks
        assert each.compressed_share == 1
        assert each.uncompressed_bytes == 0 < each.compressed_bytes < plain.uncompressed_bytes
        assert 0 < each.resident_bytes <= each.compressed_bytes
        assert each.batch_seconds > 0
        assert each.rows_per_s == pytest.approx(each.batch_rows / each.batch_seconds)
        assert each.results == plain.results
    assert progress[0].compressions <= progress[1].compressions
    assert progress[1].decompressions >= progress[1].batch_decompressions > 0


def test_a_restart_with_some_chunks_compressed(spark: SparkSession, here: Path, uncompressed: Outcome) -> None:
    policy = {"after": "6 seconds", "codec": "lz4"}
    rows, progress = rows_and_progress(spark, here, [policy, policy])
    assert rows == uncompressed[0]
    for each in progress:
        assert 0 < each.compressed_chunks < each.chunks
        assert each.compressed_bytes > 0
        assert each.uncompressed_bytes > 0
        assert each.compressed_after >= 6_000_000
    assert progress[1].compressions > progress[0].compressions > 0
    assert progress[1].decompressions > 0


def test_a_restart_with_the_keys_that_are_idle_compressed(
    spark: SparkSession, here: Path, uncompressed: Outcome
) -> None:
    policy = {"after": "1 second", "unit": "key"}
    rows, progress = rows_and_progress(spark, here, [policy, policy])
    assert rows == uncompressed[0]
    for each, plain in zip(progress, uncompressed[1], strict=True):
        assert 0 < each.compressed_tuples < each.chunk_tuples >= plain.chunk_tuples
        assert each.uncompressed_bytes > 0
        assert each.compressed_after >= 1_000_000
    assert progress[1].compressions > progress[0].compressions > 0


def test_another_policy_after_a_restart(spark: SparkSession, here: Path, uncompressed: Outcome) -> None:
    """The state is the same whatever the policy: chunks keep the codec that they were written with."""
    before = {"after": "4 seconds", "codec": "snappy"}
    rows, progress = rows_and_progress(spark, here, [before, {"after": None}])
    assert rows == uncompressed[0]
    assert progress[0].compressed_chunks > 0
    assert progress[1].compressions == progress[0].compressions
    assert progress[1].decompressions > progress[0].decompressions


def test_any_memory_gives_the_same_results(spark: SparkSession, here: Path, uncompressed: Outcome) -> None:
    """First little of it, so that chunks are compressed and left to the state, then plenty."""
    rows, progress = rows_and_progress(spark, here, [{"memory": "12 KB", "codec": "zstd"}, {"memory": "1 GB"}])
    assert rows == uncompressed[0]
    tight, plenty = progress
    assert tight.resident_bytes <= 12_000 < uncompressed[1][0].resident_bytes
    assert tight.compressed_chunks == tight.chunks > tight.left_chunks > 0
    assert plenty.left_chunks == 0


def per_key(frame: DataFrame, *windows: W.Window) -> muntin.Query:
    return muntin.over(frame, *windows, time="ts", watermark="1 second", by="k")


def one_key(seconds: int, per_second: int) -> list[pa.Table]:
    """Two batches of the key `hot`: some seconds, and one that closes their windows."""
    tables = []
    for first, last in ((0, seconds), (500, 501)):
        times = np.arange(first * per_second, last * per_second) * (1_000_000 // per_second)
        tables.append(
            pa.table(
                {
                    "ts": pa.array(times).cast(pa.timestamp("us", tz="UTC")),
                    "k": pa.array(["hot"] * len(times)),
                    "x": pa.array(np.arange(len(times)) / 7),
                    "name": pa.array([f"name {i}" for i in range(len(times))]),
                }
            )
        )
    return tables


def test_a_key_that_needs_more_than_the_limit(spark: SparkSession, here: Path) -> None:
    feed = Feed(spark, here / "in", SCHEMA)
    feed.add(*one_key(30, per_second=100))
    query = per_key(feed.stream(), W.sliding("20 seconds", "1 second")).agg(mid=A.median("x"))
    with pytest.raises(StreamingQueryException) as error:
        run(query.compress(memory="20 KB").to_df(), here / "ours")
    text = str(error.value)
    for fact in (
        "tuples in the windows of key {'k': 'hot'}",
        "more than the 10 KB that memory= leaves to each shard",
        "(shards: 2)",
    ):
        assert fact in text


def test_a_limit_smaller_than_a_pane(spark: SparkSession, here: Path) -> None:
    feed = Feed(spark, here / "in", SCHEMA)
    feed.add(*one_key(10, per_second=100))
    query = per_key(feed.stream(), W.tumbling("5 seconds")).agg(names=A.count_distinct("name"))
    with pytest.raises(
        StreamingQueryException, match=r"One chunk of \d+ tuples takes .* more than the 1 KB that memory="
    ):
        run(query.compress(memory="2 KB").to_df(), here / "ours")


def test_a_function_that_fails_names_the_window_and_the_key(spark: SparkSession, here: Path) -> None:
    feed = Feed(spark, here / "in", SCHEMA)
    feed.add(*one_key(10, per_second=2))
    window = "window tumbling(5 seconds) [1970-01-01T00:00:00.000000Z, 1970-01-01T00:00:05.000000Z) of key {'k': 'hot'}"

    def fails(tuples: pa.Table) -> pa.Table:
        raise ZeroDivisionError(f"{tuples.num_rows} tuples are too many")

    query = per_key(feed.stream(), W.tumbling("5 seconds")).apply(fails, "n long").compress("0 seconds")
    with pytest.raises(StreamingQueryException) as error:
        run(query.to_df(), here / "ours")
    assert f"The function fails failed on {window}: ZeroDivisionError: 10 tuples are too many" in str(error.value)


def test_what_a_function_may_not_return(spark: SparkSession) -> None:
    frame = spark.createDataFrame(one_key(5, per_second=2)[0])
    wrong = {
        r"returned int for window .* of key .*'hot'.*must return an Arrow table": 7,
        r"returned the columns \['m'\] for window .*'hot'.* the schema says n bigint": pa.table({"m": [1]}),
        r"returned n double for window .*'hot'.* the schema says n bigint": pa.table({"n": [1.5]}),
    }
    for message, found in wrong.items():

        def function(tuples: pa.Table, found: object = found) -> object:
            return found

        with pytest.raises(PySparkException, match=f"(?s)The function function {message}"):
            per_key(frame, W.tumbling("5 seconds")).apply(function, "n long").to_df().collect()


def test_by_key_needs_keys_and_rows_in_memory(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    frame = spark.createDataFrame(one_key(5, per_second=2)[0])
    with pytest.raises(MuntinError, match=r"this query has no key; give over\(..., by=...\), or use unit='pane'"):
        muntin.over(frame, W.tumbling("5 seconds"), time="ts").agg(m=A.median("x")).compress("1 minute", unit="key")
    medians = per_key(frame, W.tumbling("5 seconds")).agg(m=A.median("x")).compress("1 minute", unit="key")
    with pytest.raises(
        MuntinError, match=r"approximate\(\) leaves them in the state to be read rarely; use unit='pane'"
    ):
        medians.approximate(100, 0.1).to_df()
    medians.explain()
    assert "of all rows of a key 1 minute to 2 minutes of event time after the last of them" in capsys.readouterr().out
    assert '.compress(after="1 minute", unit="key")' in repr(medians)
    assert medians.to_df().count() == 1  # a table: nothing is compressed


def test_compress_needs_whole_windows(spark: SparkSession) -> None:
    frame = spark.createDataFrame(one_key(5, per_second=2)[0])
    sums = per_key(frame, W.tumbling("5 seconds")).agg(s=A.sum("x"))
    message = (
        r"compress\(\) is for the rows that holistic aggregates and functions of windows need, "
        "and this query keeps none"
    )
    with pytest.raises(MuntinError, match=message):
        sums.compress("1 minute").to_df()
    medians = sums.compress("1 minute").agg(mid=A.median("x"))  # in whatever order
    (row,) = medians.to_df().collect()
    assert (row.s, row.mid) == (pytest.approx(45 / 7), pytest.approx(4.5 / 7))
