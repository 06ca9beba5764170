"""Worker models on Spark: the same results from all of them, on tables and streams, with restarts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

import muntin
from muntin import MuntinError
from muntin import aggregates as A
from muntin import windows as W
from muntin.features.workers.policy import Wish
from muntin.spark.metrics import metrics_of
from tests.spark.streams import Feed, assert_same, keyed, results, run

SCHEMA = "t timestamp, k string, x double, n long"
MODELS: dict[str, dict[str, Any]] = {
    "keyed": {"model": "keyed", "workers": 3},
    "active": {"model": "active", "workers": 3},
    "active in batches": {"model": "active", "workers": 2, "batch": 4},
    "agnostic": {"model": "agnostic"},
    "auto": {"skewed": True},
}


def made(begin: int, rows: int = 3000, seed: int = 0) -> pa.Table:
    """Over a minute from `begin` seconds on; one key has most of the rows."""
    random = np.random.default_rng(seed + begin)
    times = random.integers(begin * 1_000_000, (begin + 60) * 1_000_000, rows)
    key = np.where(random.random(rows) < 0.8, 0, random.integers(1, 6, rows))
    return pa.table(
        {
            "t": pa.array(times).cast(pa.timestamp("us", tz="UTC")),
            "k": pa.array([f"k{each}" for each in key]),
            "x": pa.array(random.normal(100, 20, rows)),
            "n": pa.array(random.integers(0, 100, rows)),
        }
    )


WINDOWS = W.sliding("30 seconds", "5 seconds", name="slide"), W.count(100, 25, name="count")


def query(frame: DataFrame, **parallel: Any) -> muntin.Query:
    base = muntin.over(frame, *WINDOWS, time="t", watermark="5 seconds", by="k")
    query = base.agg(rows=A.count(), total=A.sum("n"), mean=A.mean("x"), middle=A.median("x"), top=A.max("n"))
    return query.parallel(**parallel) if parallel else query


def by_window(rows: list[Row]) -> dict[Any, dict[str, Any]]:
    return keyed(rows, "window_name", "window_id", "k")


@pytest.fixture
def files(spark: SparkSession, here: Path) -> Feed:
    source = Feed(spark, here / "in", SCHEMA)
    source.add(*(made(begin) for begin in (0, 60, 120)))
    return source


def test_all_models_give_the_same_on_a_table(files: Feed) -> None:
    expected = by_window(query(files.table()).to_df().collect())
    assert len(expected) > 300
    for name in ("active", "active in batches", "agnostic", "auto"):
        assert_same(by_window(query(files.table(), **MODELS[name]).to_df().collect()), expected)


@pytest.mark.filterwarnings("ignore:191 of the 192 rows:muntin.MuntinWarning")
def test_streams_give_the_same_and_go_on_after_a_restart(spark: SparkSession, here: Path) -> None:
    source = Feed(spark, here / "in", SCHEMA)
    source.add(made(0), made(60))
    models = ["active in batches", "agnostic"]
    for name in models:
        (here / name).mkdir()
        run(query(source.stream(), **MODELS[name]).to_df(), here / name)
    late = made(0, rows=500)
    source.add(late.filter(pc.less(late["t"].cast(pa.int64()), 25_000_000)), made(1000, rows=1))
    plain = query(source.stream()).to_df()
    expected = muntin.progress(run(plain, here))
    assert 100 < expected.late_rows < 500
    for name in models:
        finished = run(query(source.stream(), **MODELS[name]).to_df(), here / name)
        told = muntin.progress(finished)
        assert_same(by_window(results(spark, plain, here / name)), by_window(results(spark, plain, here)))
        assert (told.rows, told.late_rows, told.results) == (expected.rows, expected.late_rows, expected.results)
        observed = [metrics for each in finished.recentProgress if (metrics := metrics_of(each))]
        assert sum(each["arrived_bytes"] for each in observed) > 0
        assert (sum(each.get("job_bytes", 0) for each in observed) > 0) == (name == "agnostic")


def fitted(window: pa.Table) -> pa.Table:
    """A straight line through a window's values, by its ends: enough to tell windows apart."""
    x = np.asarray(window.column("x"))
    return pa.table({"first": [x[0]], "last": [x[-1]], "size": [len(x)]})


def test_a_function_without_keys_uses_all_workers(files: Feed) -> None:
    base = muntin.over(files.table(), W.sliding("20 seconds", "10 seconds"), time="t").apply(
        fitted, "first double, last double, size long"
    )
    expected = keyed(base.to_df().collect())
    models: list[Wish] = ["active", "agnostic", "auto"]
    for model in models:
        frame = base.parallel(model).to_df()
        assert_same(keyed(frame.collect()), expected)
        sizes = [len(part) for part in frame.rdd.glom().collect() if part]
        assert len(sizes) >= 2
        assert max(sizes) < len(expected)


def test_ordered_results_come_in_one_order(here: Path, files: Feed) -> None:
    for name in ("keyed", "agnostic"):
        ordered = query(files.table(), **MODELS[name], ordered=True).to_df().collect()
        places = [(row.window.end, row.window.start) for row in ordered]
        assert places == sorted(places)
        assert len(places) > 300
    batches: list[list[Row]] = []

    def keep(batch: DataFrame, _: int) -> None:
        batches.append(batch.collect())

    stream = query(files.stream(), model="agnostic", ordered=True).to_df()
    stream.writeStream.foreachBatch(keep).option("checkpointLocation", str(here / "c")).trigger(
        availableNow=True
    ).start().awaitTermination()
    assert sum(map(len, batches)) > 100
    for batch in batches:
        places = [(row.window.end, row.window.start) for row in batch]
        assert places == sorted(places)


def test_ranks_and_shedding_go_with_every_model(files: Feed) -> None:
    base = muntin.over(files.table(), W.sliding("30 seconds", "10 seconds"), time="t", by="k")
    ranked = base.agg(rows=A.count(), middle=A.median("n")).top(2, by="rows")
    shed = base.agg(rows=A.count(), middle=A.median("n")).shed(rate=0.5)
    for plain in (ranked, shed):
        expected = keyed(plain.to_df().collect(), "k")
        for name in ("active", "agnostic"):
            assert_same(keyed(plain.parallel(**MODELS[name]).to_df().collect(), "k"), expected)


def test_samples_go_with_active_workers(files: Feed) -> None:
    base = muntin.over(files.table(), W.sliding("30 seconds", "10 seconds"), time="t").agg(middle=A.median("x"))
    exact = keyed(base.to_df().collect())
    found = keyed(base.approximate(500, 0.1).parallel(model="active").to_df().collect())
    assert found.keys() == exact.keys()
    judged = [each for each in found.values() if each["quality"]["size"] > 1000]
    assert len(judged) > 10
    assert {each["quality"]["mode"] for each in judged} == {"approximate"}
    assert all(abs(each["middle"] - exact[key]["middle"]) < 20 for key, each in found.items())


def test_compressed_chunks_and_late_rows_go_with_agnostic_workers(spark: SparkSession, here: Path) -> None:
    source = Feed(spark, here / "in", SCHEMA)
    source.add(made(0), made(60), made(0, rows=50, seed=7), made(120), made(1000, rows=1))
    base = muntin.over(source.stream(), W.sliding("30 seconds", "5 seconds"), time="t", watermark="5 seconds", by="k")
    frame = base.agg(middle=A.median("x")).compress(after="10 seconds").late("emit").parallel("agnostic").to_df()
    told = muntin.progress(run(frame, here))
    rows = results(spark, frame, here)
    late = [row.late for row in rows if row.late is not None]
    assert len(late) == told.late_rows > 0
    over = muntin.over(source.table(), W.sliding("30 seconds", "5 seconds"), time="t", by="k")
    table = over.agg(middle=A.median("x"))
    in_time = {key: each for key, each in keyed(table.to_df().collect(), "k").items() if key[0].minute in (1, 2)}
    ours = keyed([row for row in rows if row.late is None], "k")
    judged = [key for key in ours if key in in_time]
    assert len(judged) > 30
    assert all(ours[key]["middle"] == in_time[key]["middle"] for key in judged)


def test_another_number_of_workers_is_refused(spark: SparkSession, here: Path) -> None:
    source = Feed(spark, here / "in", SCHEMA)
    source.add(made(0))
    run(query(source.stream(), model="active", workers=3).to_df(), here)
    source.add(made(60))
    with pytest.raises(Exception, match=r"workers of \.parallel\(\)|3 shards"):
        run(query(source.stream(), model="active", workers=2).to_df(), here)


def test_wrong_wishes_are_refused_while_the_query_is_built(files: Feed) -> None:
    base = muntin.over(files.table(), W.slide_by_tuple("30 seconds", 5), time="t").agg(n=A.count())
    with pytest.raises(MuntinError, match="forward-context-aware"):
        base.parallel("active")
    over_time = muntin.over(files.table(), W.tumbling("30 seconds"), time="t").agg(m=A.median("x"))
    with pytest.raises(MuntinError, match="samples"):
        over_time.parallel("agnostic").approximate(100, 0.1)


def test_explain_tells_the_model_and_why(files: Feed, capsys: pytest.CaptureFixture[str]) -> None:
    base = muntin.over(files.table(), W.sliding("30 seconds", "1 second"), time="t")
    base.agg(n=A.count()).explain()
    told = capsys.readouterr().out
    assert "Workers: keyed; every key belongs to one shard, and there is only one; .parallel()" in told
    base.agg(n=A.count()).parallel().explain()
    told = capsys.readouterr().out
    assert "Workers: active, 2 workers; there is only one group" in told
    assert "Windows are dealt out 30 consecutive ones at a time" in told
    base.agg(m=A.median("x")).parallel(ordered=True).explain()
    told = capsys.readouterr().out
    assert (
        "Workers: agnostic, 2 workers; there is only one group, and windows that need the rows themselves differ"
        in told
    )
    assert "up to 4 tasks compute them" in told
    assert "puts the results of a batch in window order" in told
