"""`.approximate()`: on tables and streams, over restarts, with groups; Spark's own percentiles are the judge."""

from __future__ import annotations

from collections import Counter
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
from muntin.arrays import Array
from tests.spark.streams import Feed, results, run

SCHEMA = "ts timestamp, k string, x double, n long, w string"
TUMBLING = W.tumbling("10 seconds")
SLIDING = W.sliding("20 seconds", "5 seconds")


def batch(seed: int, first: int, last: int, per_second: int = 200) -> pa.Table:
    """Seconds `[first, last)`, out of order, of four groups of very different sizes."""
    rng = np.random.default_rng(seed)
    count = (last - first) * per_second
    groups = rng.choice(4, count, p=[0.7, 0.2, 0.09, 0.01])
    return pa.table(
        {
            "ts": pa.array(rng.integers(first * 1_000_000, last * 1_000_000, count)).cast(pa.timestamp("us", tz="UTC")),
            "k": pa.array(["a", "b", "c", "d"]).take(pa.array(groups)),
            "x": pa.array(rng.lognormal(0, 1, count)),
            "n": pa.array(rng.integers(0, 900, count)),
            "w": pa.array(["often", "rarely"]).take(pa.array((rng.random(count) < 0.1).astype(int))),
        }
    )


@pytest.fixture(scope="module")
def feed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Feed:
    made = Feed(spark, tmp_path_factory.mktemp("approximate") / "in", SCHEMA)
    made.add(*(batch(seed, 15 * seed, 15 * seed + 17) for seed in range(6)))
    return made


def over(data: DataFrame, window: W.Window = TUMBLING, by: tuple[str, ...] = ()) -> Query:
    return muntin.over(data, window, time="ts", watermark="2 seconds", by=by)


def quality(rows: list[Any], field: str) -> list[Any]:
    return [row["quality"][field] for row in rows]


def test_a_table_is_answered_from_samples_with_intervals(feed: Feed) -> None:
    query = over(feed.table()).agg(n=A.count(), mean=A.mean("x"), median=A.median("x"), p95=A.quantile("x", 0.95))
    frame = query.approximate(400, 0.1).to_df()
    assert frame.columns == ["window", "window_id", "n", "mean", "median", "p95", "quality", "window_time"]
    rows = frame.collect()
    window = F.window("ts", "10 seconds")
    cells = [F.count("*").alias("n"), F.avg("x").alias("mean")]
    cells += [F.percentile("x", p).alias(f"p{round(p * 100)}") for p in (0.4, 0.5, 0.6, 0.85, 0.95)]
    sparks = {row["window"]: row for row in feed.table().groupBy(window).agg(*cells).collect()}
    assert {row["window"] for row in rows} == set(sparks)
    modes = Counter(quality(rows, "mode"))
    assert modes["approximate"] >= len(rows) - 2
    off, outside = 0, 0
    for row in rows:
        exact, told = sparks[row["window"]], row["quality"]
        assert (row["n"], told["size"]) == (exact["n"], exact["n"])
        assert row["mean"] == pytest.approx(exact["mean"])
        assert told["low"]["mean"] == told["high"]["mean"] == row["mean"]
        assert told["low"]["median"] <= row["median"] <= told["high"]["median"]
        if told["mode"] == "approximate":
            assert 0 < told["error"] <= 0.1
            assert (told["confidence"], told["sampled"]) == (0.95, 400)
            off += not exact["p40"] <= row["median"] <= exact["p60"]
            off += not exact["p85"] <= row["p95"]
            outside += not told["low"]["median"] <= exact["p50"] <= told["high"]["median"]
    assert max(off, outside) <= 3  # of 18 and of 9: twice in a thousand runs it would be more


def test_groups_all_appear_and_share_the_budget(feed: Feed) -> None:
    frame = over(feed.table(), SLIDING, by=("k",)).agg(median=A.median("x"))
    rows = frame.approximate(200, 0.25, 0.9).to_df().collect()
    exact = {(row["window"], row["k"]): row["median"] for row in frame.to_df().collect()}
    assert {(row["window"], row["k"]) for row in rows} == set(exact)
    assert {"approximate", "exact"} <= set(quality(rows, "mode"))
    for row in rows:
        if row["quality"]["mode"] != "approximate":
            assert row["median"] == exact[row["window"], row["k"]]
    shards = int(feed.table().sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    sampled: Counter[Any] = Counter()
    for row in rows:
        if row["quality"]["mode"] == "approximate":
            sampled[row["window"]] += row["quality"]["sampled"]
    assert max(sampled.values()) <= 200 * shards


def test_what_falls_back_is_the_same_to_the_last_bit(feed: Feed) -> None:
    for window in (SLIDING, W.count(700, 300)):
        query = over(feed.table(), window, by=("k",)).agg(q=A.quantile("x", [0.1, 0.7]), d=A.count_distinct("n"))
        exact = {(row["window"], row["k"]): row for row in query.to_df().collect()}
        for row in query.approximate(2, 0.01).to_df().collect():
            assert row["quality"]["mode"] == "exact"
            assert (row["q"], row["d"]) == (exact[row["window"], row["k"]]["q"], exact[row["window"], row["k"]]["d"])


@pytest.mark.parametrize("window", [SLIDING, W.count(900, 450)])
def test_a_stream_samples_and_a_restart_goes_on(spark: SparkSession, tmp_path: Path, window: W.Window) -> None:
    """One query runs through; the other stops in between, and has a batch without rows more. They sample alike."""
    batches = [batch(seed, 15 * seed, 15 * seed + 17) for seed in range(4)]

    def build(source: Feed) -> DataFrame:
        query = over(source.stream(), window, by=("k",)).agg(median=A.median("x"), n=A.count(), top=A.mode("w"))
        return query.approximate(600, 0.2, seed=7).to_df()

    through = Feed(spark, tmp_path / "through", SCHEMA)
    through.add(*batches)
    progress = muntin.progress(run(build(through), tmp_path / "a"))
    stopped = Feed(spark, tmp_path / "stopped", SCHEMA)
    for part in (batches[:2], batches[2:]):
        stopped.add(*part)
        run(build(stopped), tmp_path / "b")
    rows = results(spark, build(through), tmp_path / "a")
    assert sorted(map(repr, rows)) == sorted(map(repr, results(spark, build(stopped), tmp_path / "b")))
    modes = Counter(quality(rows, "mode"))
    assert modes["approximate"] > 0
    assert progress.approximate_windows == modes["approximate"]
    assert progress.exact_windows == modes["exact"]
    assert progress.sample_bytes > 0


def test_a_stream_and_a_table_agree_on_what_is_exact(spark: SparkSession, tmp_path: Path, feed: Feed) -> None:
    def build(frame: DataFrame) -> DataFrame:
        return over(frame, SLIDING).agg(median=A.median("x"), d=A.count_distinct("n")).approximate(250, 0.15).to_df()

    run(build(feed.stream()), tmp_path)
    stream = {row["window"]: row for row in results(spark, build(feed.stream()), tmp_path)}
    table = {row["window"]: row for row in build(feed.table()).collect()}
    assert set(stream) < set(table)
    for window, row in stream.items():
        assert row["quality"]["size"] == table[window]["quality"]["size"]
        if row["quality"]["mode"] == table[window]["quality"]["mode"] == "exact":
            assert row == table[window]


def test_means_may_be_sampled_and_own_estimates_are_asked(feed: Feed) -> None:
    def share_of_large(sample: dict[str, Array], size: int, confidence: float) -> tuple[float, float]:
        share = float((sample["x"] > 1).mean())
        return share, 1 / len(sample["x"]) ** 0.5

    aggregates = {"mean": A.mean("x")}
    aggregates["large"] = A.custom(
        lambda x: ((x > 1).astype(float), np.ones(len(x))),
        lambda a, b: (a[0] + b[0], a[1] + b[1]),
        lambda state: state[0] / state[1],
        columns="x",
        commutative=True,
        estimate=share_of_large,
    )
    query = over(feed.table()).agg(**aggregates)
    exact = {row["window"]: row for row in query.to_df().collect()}
    rows = query.approximate(900, 0.25, incremental=False).to_df().collect()
    assert Counter(quality(rows, "mode"))["approximate"] >= len(rows) - 1
    for row in rows:
        assert row["mean"] == pytest.approx(exact[row["window"]]["mean"], rel=0.25)
        assert row["large"] == pytest.approx(exact[row["window"]]["large"], abs=0.15)
        assert row["quality"]["mode"] == "exact" or row["mean"] != exact[row["window"]]["mean"]
    for row in query.approximate(900, 0.001, incremental=False).to_df().collect():
        assert (row["mean"], row["large"]) == (exact[row["window"]]["mean"], exact[row["window"]]["large"])


def test_errors_may_be_in_units_of_the_user(feed: Feed) -> None:
    """Widths of intervals, and the share of a window's rows whose group has an interval that is too wide."""
    query = over(feed.table(), by=("k",)).agg(median=A.median("x"), d=A.count_distinct("n"))
    allowed = query.approximate(
        400,
        1.5,
        metric={"median": lambda e: e.high - e.low, "d": lambda e: np.zeros(len(e.value))},
        combine=lambda errors, sizes: np.average(errors, weights=sizes),
    )
    rows = allowed.to_df().collect()
    assert Counter(quality(rows, "mode"))["approximate"] > len(rows) / 2
    for row in rows:
        assert row["quality"]["error"] <= 1.5
    with pytest.raises(MuntinError, match=r"metric names 'medan'.*Did you mean 'median'"):
        query.approximate(400, 0.1, metric={"medan": lambda e: e.error}).to_df()
    with pytest.raises(MuntinError, match=r"error is 1\.5, and the error of 'd' is a share"):
        query.approximate(400, 1.5, metric={"median": lambda e: e.error}).to_df()


def test_it_goes_with_compression_and_late_rows(spark: SparkSession, tmp_path: Path, feed: Feed) -> None:
    query = over(feed.stream(), SLIDING).agg(median=A.median("x")).approximate(300, 0.15).compress(after="0 seconds")
    run(query.late("emit").to_df(), tmp_path)
    rows = results(spark, query.late("emit").to_df(), tmp_path)
    late = [row for row in rows if row["late"] is not None]
    assert all(row["quality"] is None for row in late)
    assert Counter(quality([row for row in rows if row["late"] is None], "mode"))["approximate"] > 5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"budget": 0, "error": 0.1}, "budget must be at least one tuple"),
        ({"budget": -5, "error": 0.1}, "budget must be at least one tuple"),
        ({"budget": 1.5, "error": 0.1}, "budget must be a number of tuples"),
        ({"budget": "much", "error": 0.1}, "budget is 'much', which is not a size"),
        ({"budget": "8 B", "error": 0.1}, "one sampled tuple with its statistics takes"),
        ({"budget": 100, "error": 0}, "error must be a number between 0 and 1"),
        ({"budget": 100, "error": 1.0}, "error must be a number between 0 and 1"),
        ({"budget": 100, "error": 0.1, "confidence": 1}, "confidence must be a number between 0 and 1"),
        ({"budget": 100, "error": 0.1, "confidence": "high"}, "confidence must be a number between 0 and 1"),
        ({"budget": 2, "error": 0.1, "groups": ["a", "b", "c"]}, "fewer than the 3 groups"),
        ({"budget": 9, "error": 0.1, "groups": "abc"}, "groups must be a list"),
        ({"budget": 9, "error": 0.1, "groups": [object()]}, "groups does not fit the key 'k'"),
        ({"budget": 9, "error": 0.1, "combine": "min"}, "combine is 'min'"),
        ({"budget": 9, "error": 0.1, "seed": 0.5}, "seed must be a whole number"),
    ],
)
def test_bad_arguments_are_said_when_the_query_is_built(feed: Feed, arguments: dict[str, Any], said: str) -> None:
    query = over(feed.table(), by=("k",)).agg(median=A.median("x"))
    with pytest.raises(MuntinError, match=said):
        query.approximate(**arguments)


def test_what_has_no_estimator_is_refused(feed: Feed) -> None:
    query = over(feed.table())
    with pytest.raises(MuntinError, match="all cannot be approximated"):
        query.agg(all=A.collect("x")).approximate(10, 0.1)
    with pytest.raises(MuntinError, match="all cannot be approximated"):
        query.approximate(10, 0.1).agg(all=A.collect("x")).to_df()
    with pytest.raises(MuntinError, match=r"needs an estimator.*or \.shed\(rate=\.\.\.\)"):
        query.apply(lambda table: table, "x double", columns=["x"]).approximate(10, 0.1)
    with pytest.raises(MuntinError, match="no groups"):
        query.agg(m=A.median("x")).approximate(10, 0.1, groups=["a"])
    with pytest.raises(MuntinError, match="have no fixed width"):
        query.agg(m=A.mode("w")).approximate("1 MB", 0.1)


def test_it_is_explained(feed: Feed, capsys: pytest.CaptureFixture[str]) -> None:
    query = over(feed.table()).agg(median=A.median("x"), n=A.count())
    query.approximate("1 MB", 0.1).explain()
    said = capsys.readouterr().out
    assert "'median' is answered from a sample of 1 MB" in said
    assert "enough for a window of any size" in said
    over(feed.table()).agg(n=A.count()).approximate(10, 0.1).explain()
    assert "answered from partial results, exactly" in capsys.readouterr().out
