"""Shedding on Spark: tables and streams, restarts, other knobs beside it, and the controller at work."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

import muntin
from muntin import MuntinError
from muntin import aggregates as A
from muntin import windows as W
from muntin.spark.metrics import metrics_of
from tests.spark.streams import Feed, Key, keyed, results, run

SCHEMA = "t timestamp, k string, x double, n long"
ROWS = 20_000


def made(begin: int, rows: int = ROWS, seed: int = 0) -> pa.Table:
    """A few frequent groups and many rare ones, over a minute from `begin` seconds on."""
    random = np.random.default_rng(seed + begin)
    key = np.minimum(random.zipf(1.5, rows), 500)
    times = np.sort(random.integers(begin * 1_000_000, (begin + 60) * 1_000_000, rows))
    return pa.table(
        {
            "t": pa.array(times).cast(pa.timestamp("us", tz="UTC")),
            "k": pa.array([f"k{each}" for each in key]),
            "x": pa.array(random.normal(100, 20, rows)),
            "n": pa.array(random.integers(0, 100, rows)),
        }
    )


@pytest.fixture
def files(spark: SparkSession, here: Path) -> Feed:
    source = Feed(spark, here / "in", SCHEMA)
    source.add(*(made(begin) for begin in (0, 60, 120)))
    return source


def query(frame: DataFrame, **shed: Any) -> muntin.Query:
    """In which aggregates see only what was kept."""
    base = muntin.over(frame, W.sliding("1 minute", "20 seconds"), time="t", watermark="5 seconds", by="k")
    return base.agg(trips=A.count(), mean=A.mean("x"), total=A.sum("n")).shed(incremental=False, **shed)


def exact(frame: DataFrame) -> DataFrame:
    window = F.window("t", "1 minute", "20 seconds").alias("window")
    return frame.groupBy(window, "k").agg(
        F.count("*").alias("trips"), F.avg("x").alias("mean"), F.sum("n").alias("total")
    )


def check(found: list[Row], truth: dict[Key, dict[str, Any]], only_closed: bool = False) -> None:
    """All groups, with exact counts; means and sums close, and within their intervals about as often as they say."""
    ours = keyed(found, "k")
    if not only_closed:
        assert ours.keys() == truth.keys()
    covered, judged = 0, 0
    for place, values in ours.items():
        expected, quality = truth[place], values["quality"]
        assert values["trips"] == expected["trips"] == quality["size"]
        if quality["mode"] == "approximate" and quality["sampled"] >= 10:
            judged += 1
            covered += quality["low"]["mean"] <= expected["mean"] <= quality["high"]["mean"]
        elif quality["mode"] != "approximate":
            assert values["total"] == expected["total"]
    assert judged > 20
    assert covered / judged > 0.8  # windows overlap, so that this is no more than a look


def test_a_table_keeps_every_group(files: Feed) -> None:
    frame = files.table()
    found = query(frame, rate=0.9).to_df().collect()
    check(found, keyed(exact(frame).collect(), "k"))
    again = query(frame, rate=0.9).to_df().collect()
    assert sorted(map(str, found)) == sorted(map(str, again))


def test_only_what_needs_rows_is_shed(files: Feed) -> None:
    """What panes answer is what Spark says, and medians are of the kept rows; if there are none, nothing is shed."""
    frame = files.table()
    base = muntin.over(frame, W.sliding("1 minute", "20 seconds"), time="t", by="k")
    aggregates = {"trips": A.count(), "mean": A.mean("x"), "total": A.sum("n"), "first": A.first("n")}
    truth = keyed(exact(frame).collect(), "k")
    for method in ("concept", "uniform"):
        shed = base.agg(**aggregates, middle=A.median("x")).shed(rate=0.9, method=method)
        found = keyed(shed.to_df().collect(), "k")
        assert found.keys() == truth.keys()
        lossy = 0
        for place, values in found.items():
            quality = values["quality"]
            assert (values["trips"], values["total"]) == (truth[place]["trips"], truth[place]["total"])
            assert values["mean"] == pytest.approx(truth[place]["mean"])
            assert quality["low"]["mean"] == quality["high"]["mean"] == values["mean"]
            lossy += quality["sampled"] < quality["size"] == values["trips"]
        assert lossy > 20
    found = keyed(base.agg(**aggregates).shed(rate=0.9).to_df().collect(), "k")
    assert {values["quality"]["mode"] for values in found.values()} == {"incremental"}
    assert all(values["total"] == truth[place]["total"] for place, values in found.items())


def test_an_error_decides_how_much_is_shed(files: Feed) -> None:
    frame = files.table()
    base = muntin.over(frame, W.tumbling("20 seconds"), time="t", by="k").agg(mean=A.mean("x"), trips=A.count())
    found = keyed(base.shed(error=0.1, incremental=False).to_df().collect(), "k")
    means = frame.groupBy(F.window("t", "20 seconds").alias("window"), "k").agg(F.avg("x").alias("mean"))
    truth = keyed(means.collect(), "k")
    assert found.keys() == truth.keys()
    off = [abs(values["mean"] / truth[place]["mean"] - 1) for place, values in found.items()]
    assert np.mean(np.array(off) <= 0.1) >= 0.95
    kept, size = (sum(values["quality"][name] for values in found.values()) for name in ("sampled", "size"))
    assert kept < 0.5 * size


def test_variances_are_estimated_without_an_interval(files: Feed) -> None:
    frame = files.table()
    base = muntin.over(frame, W.tumbling("10 seconds"), time="t", by="k")
    query = base.agg(variance=A.var_samp("x"), deviation=A.stddev_samp("x"))
    found = keyed(query.shed(rate=0.8, incremental=False).to_df().collect(), "k")
    cells = F.var_samp("x").alias("variance"), F.stddev_samp("x").alias("deviation")
    truth = keyed(frame.groupBy(F.window("t", "10 seconds").alias("window"), "k").agg(*cells).collect(), "k")
    assert found.keys() == truth.keys()
    ratios = [
        values["variance"] / truth[place]["variance"]
        for place, values in found.items()
        if values["quality"]["mode"] == "approximate" and values["quality"]["sampled"] >= 30
    ]
    assert len(ratios) > 50
    assert np.mean(ratios) == pytest.approx(1, abs=0.1)
    shed = [values["quality"] for values in found.values() if values["quality"]["mode"] == "approximate"]
    assert not any(quality["low"][name] for quality in shed for name in ("variance", "deviation"))


def test_uniform_shedding_tells_every_group_and_its_size(files: Feed) -> None:
    """Of most there is nothing left to tell the mean from, which is null then."""
    frame = files.table()
    found = keyed(query(frame, rate=0.98, method="uniform").to_df().collect(), "k")
    truth = keyed(exact(frame).collect(), "k")
    assert found.keys() == truth.keys()
    silent = 0
    for place, values in found.items():
        quality = values["quality"]
        assert values["trips"] == quality["size"] == truth[place]["trips"]
        if not quality["sampled"]:
            silent += 1
            assert values["mean"] is values["total"] is quality["error"] is None
    assert silent > len(truth) / 2


def test_quality_does_not_reassure_falsely(spark: SparkSession) -> None:
    signs = [(0, "signs", float(each)) for each in np.random.default_rng(1).permutation([-1, 1] * 500)]
    zeros = [(0, "zeros", 0.0)] * 99 + [(0, "zeros", 100.0)]
    frame = spark.createDataFrame(signs + zeros, "t long, k string, x double")
    base = muntin.over(frame.withColumn("t", F.timestamp_seconds("t")), W.tumbling("1 minute"), time="t", by="k")
    shed = base.agg(n=A.count(), m=A.mean("x")).shed(rate=0.9, incremental=False)
    found = {values["k"]: values for values in map(Row.asDict, shed.to_df().collect())}
    assert found["signs"]["quality"]["error"] is None
    for name, mean in (("signs", 0), ("zeros", 1)):
        low, high = (found[name]["quality"][side]["m"] for side in ("low", "high"))
        assert low <= mean <= high
        assert low < high


def test_a_function_gets_what_was_kept_by_chance_and_every_window_is_there(spark: SparkSession) -> None:
    frame = spark.range(0, 200, numPartitions=1).select(F.timestamp_seconds(F.expr("id div 4")).alias("t"), "id")
    base = muntin.over(frame, W.tumbling("1 second"), time="t").apply(counted, "n long")
    found = base.shed(rate=0.98, method="uniform").to_df().collect()
    assert len(found) == 50
    assert sum(row["n"] or 0 for row in found) == sum(row["quality"]["sampled"] for row in found) == 4
    assert {row["quality"]["size"] for row in found} == {4}
    assert all((row["n"] is None) == (row["quality"]["sampled"] == 0) for row in found)


def test_a_stream_counts_what_it_sheds_and_goes_on_after_a_restart(spark: SparkSession, here: Path) -> None:
    source = Feed(spark, here / "in", SCHEMA)
    source.add(made(0), made(60))
    shed = query(source.stream(), rate=0.9).to_df()
    first = run(shed, here)
    told = muntin.progress(first)
    assert told.rows == 2 * ROWS
    assert 0.5 * told.rows < told.shed_rows < told.rows
    rates = [(metrics_of(each) or {})["shed_rate"] for each in first.recentProgress if each["numInputRows"]]
    assert rates == [900_000, 900_000]
    drifts = [metrics_of(each) or {} for each in first.recentProgress]
    assert any(0 < each["drift_common"] <= each["drift_union"] for each in drifts)
    source.add(made(120), made(400, rows=10))
    told = muntin.progress(run(query(source.stream(), rate=0.9).to_df(), here))
    assert told.rows == 3 * ROWS + 10
    found = spark.read.parquet(str(here / "out")).collect()
    check(found, keyed(exact(source.table()).collect(), "k"), only_closed=True)


def test_it_works_beside_samples_and_compression(files: Feed) -> None:
    base = muntin.over(files.table(), W.tumbling("1 minute"), time="t", by="k").agg(
        trips=A.count(), middle=A.median("x"), mean=A.mean("x")
    )
    window = F.window("t", "1 minute").alias("window")
    middles = files.table().groupBy(window, "k").agg(F.expr("percentile(x, 0.5)").alias("m"))
    truth = keyed(middles.collect(), "k")
    found = keyed(base.shed(rate=0.8).approximate(2000, 0.1).compress(after="0 seconds").to_df().collect(), "k")
    assert found.keys() == truth.keys()
    large = [place for place, values in found.items() if values["trips"] > 1000]
    assert len(large) > 5
    for place in large:
        assert found[place]["middle"] == pytest.approx(truth[place]["m"], rel=0.1)
        low, high = (found[place]["quality"][side]["middle"] for side in ("low", "high"))
        assert low <= found[place]["middle"] <= high


def test_ranks_say_what_could_be_otherwise(files: Feed) -> None:
    """The paper's query: the groups with the highest mean, of one row in ten."""
    found = query(files.table(), rate=0.9).top(3, by="mean").to_df().collect()
    windows = {row["window"] for row in found}
    assert sorted(row["rank"] for row in found) == sorted([1, 2, 3] * len(windows))
    for row in found:
        assert row["quality"]["first_rank"] <= row["rank"] <= row["quality"]["last_rank"]
    assert any(row["quality"]["first_rank"] < row["quality"]["last_rank"] for row in found)


def both(spark: SparkSession, here: Path, rows: int = ROWS) -> tuple[Feed, Feed]:
    """Two sides with the same keys."""
    feeds = []
    for name, seed in (("left", 0), ("right", 7)):
        feed = Feed(spark, here / name, SCHEMA)
        feed.add(*(made(begin, rows, seed) for begin in (0, 60)))
        feeds.append(feed)
    return feeds[0], feeds[1]


def joined(left: DataFrame, right: DataFrame, **others: Any) -> muntin.Join:
    right = right.select("t", "k", F.col("n").alias("m"))
    return muntin.join(left, right, W.tumbling("20 seconds"), on="k", time="t", **others)


MULTIPLIED = {"pairs": A.count(), "total": A.sum("x"), "mean": A.mean("m"), "few": A.count(where="m < 20")}
OVER_PAIRS = {
    "pairs": A.count(),
    "above": A.count(where="n > m"),
    "total": A.sum("x", where="n > m"),
    "mean": A.mean("m", where="n > m"),
    "largest": A.max("m", where="n > m"),
    "middle": A.median("x", where="n > m"),
}


@pytest.mark.parametrize(
    ("aggregated", "rows", "least", "judged_ones"),
    [(MULTIPLIED, ROWS, 20, ("total", "mean", "few")), (OVER_PAIRS, 6000, 15, ("above",))],
    ids=["multiplied", "over pairs"],
)
def test_a_join_is_scaled_back_from_both_sides(
    spark: SparkSession,
    here: Path,
    aggregated: dict[str, A.Aggregate],
    rows: int,
    least: int,
    judged_ones: tuple[str, ...],
) -> None:
    """The number of pairs is exact; sums over them are in their intervals about as often as those say.

    That is 95 %, of about 20 or 40 windows for each of four seeds: below 88 % it would be by chance once in a hundred
    times, or in a thousand.
    """
    pairs = joined(*(feed.table() for feed in both(spark, here, rows)))
    truth = keyed(pairs.agg(**aggregated).to_df().collect(), "k")
    covered: dict[str, list[bool]] = {name: [] for name in judged_ones}
    for seed in range(4):
        found = keyed(pairs.shed(rate=0.9, seed=seed, incremental=False).agg(**aggregated).to_df().collect(), "k")
        assert found.keys() == truth.keys()
        judged = [place for place in truth if found[place]["quality"]["sampled"] >= 20]
        assert len(judged) > least
        for place, values in found.items():
            assert values["pairs"] == truth[place]["pairs"]
            if values["quality"]["mode"] != "approximate":
                assert values["total"] == pytest.approx(truth[place]["total"])
        for name, each in covered.items():
            told = [place for place in judged if found[place]["quality"]["low"][name] is not None]
            assert len(told) == len(judged)
            each += [
                found[place]["quality"]["low"][name] <= truth[place][name] <= found[place]["quality"]["high"][name]
                for place in told
            ]
    for name, each in covered.items():
        assert np.mean(each) > 0.88, name


def test_aggregates_of_one_side_of_a_join_stay_exact(spark: SparkSession, here: Path) -> None:
    pairs = joined(*(feed.table() for feed in both(spark, here, 6000)))
    truth = keyed(pairs.agg(**MULTIPLIED).to_df().collect(), "k")
    found = keyed(pairs.shed(rate=0.9).agg(**MULTIPLIED).to_df().collect(), "k")
    assert found.keys() == truth.keys()
    assert {values["quality"]["error"] for values in found.values()} == {0}
    for place, values in found.items():
        assert (values["pairs"], values["few"]) == (truth[place]["pairs"], truth[place]["few"])
        assert values["total"] == pytest.approx(truth[place]["total"])


def test_the_pairs_of_streams_are_scaled_back(spark: SparkSession, here: Path) -> None:
    left, right = both(spark, here, 4000)
    truth = keyed(joined(left.table(), right.table()).agg(**OVER_PAIRS).to_df().collect(), "k")
    only_left = left.table().where("k <= 'k3'").withColumn("k", F.concat(F.lit("only "), "k"))
    left.add(only_left.toArrow())
    frame = joined(left.stream(), right.stream(), watermark="1 second").shed(rate=0.9).agg(**OVER_PAIRS).to_df()
    stream = run(frame, here)
    told = muntin.progress(stream)
    assert 0 < told.shed_rows < told.rows
    found = keyed(results(spark, frame, here), "k")
    reports = [metrics_of(each) or {} for each in stream.recentProgress]
    window = F.window("t", "20 seconds").alias("window")
    sides = [feed.table().groupBy(window, "k").count() for feed in (left, right)]
    common = [row for row in sides[0].union(sides[1]).collect() if (*row["window"], row["k"]) in found]
    assert sum(each["window_rows"] for each in reports) == sum(row["count"] for row in common)
    assert 0 < sum(each["window_kept_rows"] for each in reports) < sum(row["count"] for row in common)
    assert len(found) > 0.8 * len(truth)  # the last window is still open
    approximate = 0
    for place, values in found.items():
        assert values["pairs"] == truth[place]["pairs"] == values["quality"]["size"]
        approximate += values["quality"]["mode"] == "approximate"
        if values["quality"]["mode"] != "approximate":
            assert values["above"] == truth[place]["above"]
    assert approximate > 10


def slowly(table: pa.Table) -> pa.Table:
    """A function that takes a millisecond for every tuple."""
    time.sleep(table.num_rows / 1000)
    return pa.table({"n": [table.num_rows]})


def counted(table: pa.Table) -> pa.Table:
    return pa.table({"n": [table.num_rows]})


def test_a_function_gets_the_share_of_a_window_however_short_panes_are(files: Feed) -> None:
    """k5 has about three rows in a second: too few to shed any. In a minute it has its share like the others."""
    frequent = files.table().where("k IN ('k1', 'k2', 'k5')")
    base = muntin.over(frequent, W.sliding("1 minute", "1 second"), time="t", by="k").apply(counted, "n long")
    found, truth = (keyed(each.to_df().collect(), "k") for each in (base.shed(rate=0.9), base))
    assert found.keys() == truth.keys()
    for place, values in found.items():
        assert values["quality"]["size"] == truth[place]["n"]
        assert values["n"] == values["quality"]["sampled"]
    whole = [place for place, values in truth.items() if place[2] == "k5" and values["n"] > 100]
    assert len(whole) > 50
    kept = [found[place]["n"] / truth[place]["n"] for place in whole]
    assert 0.05 < np.mean(kept) < 0.35  # small groups get more than their proportion


def test_the_controller_sheds_while_batches_take_too_long(spark: SparkSession, here: Path) -> None:
    """Every batch closes a window of a thousand tuples, which takes a second; half a second is what it may take."""
    source = Feed(spark, here / "in", SCHEMA)
    source.add(*(made(begin, rows=1000) for begin in range(0, 60 * 12, 60)))
    base = muntin.over(source.stream(), W.tumbling("1 minute"), time="t", watermark="1 second")
    stream = run(base.apply(slowly, "n long").shed(target_latency="500 milliseconds").to_df(), here)
    reports = [metrics_of(each) or {} for each in stream.recentProgress if each["numInputRows"]]
    rates = [each["shed_rate"] / 1e6 for each in reports]
    assert rates[0] == 0
    assert max(rates) > 0.3
    found = spark.read.parquet(str(here / "out")).collect()
    assert any(row["quality"]["mode"] == "approximate" for row in found)
    assert all(row["quality"]["size"] == 1000 for row in found)
    told = muntin.progress(stream)
    assert told.rows == 12_000
    assert 0 < told.shed_rows < told.rows


def test_bad_input(files: Feed) -> None:
    base = muntin.over(files.table(), W.tumbling("1 minute"), time="t", by="k")
    with pytest.raises(MuntinError, match="target_latency is for streams"):
        base.agg(n=A.count()).shed(target_latency="1 second")
    with pytest.raises(MuntinError, match="all cannot be computed under shed"):
        base.agg(all=A.collect("x")).shed(rate=0.5)
    with pytest.raises(MuntinError, match="early cannot be computed under shed"):
        base.shed(rate=0.5, incremental=False).agg(early=A.first("x"))
    with pytest.raises(MuntinError, match="cannot tell how many rows top needs"):
        base.shed(error=0.1).agg(top=A.mode("x"))
    with pytest.raises(MuntinError, match="nothing is known of a function"):
        base.apply(counted, "n long").shed(error=0.1).to_df()


def test_explain_says_what_is_shed(files: Feed, capsys: pytest.CaptureFixture[str]) -> None:
    query(files.table(), rate=0.98).explain()
    said = capsys.readouterr().out
    assert "Shedding: 98% of the tuples" in said
    assert (
        "no fewer than 2 tuples if it has them: with 3 panes per window, a group in all of them keeps at least 6."
        in said
    )
    base = muntin.over(files.table(), W.tumbling("1 minute"), time="t", by="k")
    base.agg(n=A.count()).shed(rate=0.5).explain()
    assert "nothing is shed, because panes answer every aggregate" in capsys.readouterr().out
    base.agg(n=A.count(), middle=A.median("x")).shed(rate=0.5).explain()
    assert "Panes answer n from all tuples, exactly" in capsys.readouterr().out
    base.apply(slowly, "n long").shed(rate=0.5).explain()
    assert "1 pane per window, a group in all of them keeps at least 2; the function gets" in capsys.readouterr().out
