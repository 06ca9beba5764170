"""Shedding at the source on Spark: tables, streams, files read by tasks, restarts, and what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

import muntin
from muntin import MuntinError
from muntin import aggregates as A
from muntin import windows as W
from tests.spark.streams import Feed, keyed

SCHEMA = "t timestamp, k string, x double"
ROWS, BATCHES = 3000, 3
KEYS = 30


def made(begin: int) -> pa.Table:
    """Many rows that are the same: a value of each key at each of five times, over and over."""
    place = np.arange(ROWS)
    times = (begin + place % 5) * 1_000_000
    return pa.table(
        {
            "t": pa.array(times).cast(pa.timestamp("us", tz="UTC")),
            "k": pa.array([f"k{each}" for each in place % KEYS]),
            "x": pa.array((place % 5).astype(np.float64)),
        }
    )


@pytest.fixture
def files(spark: SparkSession, here: Path) -> Feed:
    source = Feed(spark, here / "in", SCHEMA)
    source.add(*(made(10 * batch) for batch in range(BATCHES)))
    return source


def query(data: Any, rate: float = 0.9, **more: Any) -> muntin.Query:
    base = muntin.over(data, W.tumbling("10 seconds"), time="t", watermark="1 second", by="k")
    base = base.agg(n=A.count(), total=A.sum("x"), middle=A.median("x"))
    return base.shed(rate=rate, method="uniform", at="source", **more)


def check(rows: list[Row], batches: int = BATCHES) -> None:
    """Kept rows are about a tenth, in groups as independent ones would be; counts are covered as promised."""
    found = keyed(rows, "k")
    size = ROWS // KEYS
    kept = [values["quality"]["sampled"] for values in found.values()]
    groups = batches * KEYS
    assert sum(kept) == pytest.approx(groups * size / 10, abs=4 * np.sqrt(groups * size * 0.09))
    spread = np.var(kept + [0] * (groups - len(kept)))
    covered = 0
    for values in found.values():
        quality = values["quality"]
        assert values["n"] == quality["size"] == 10 * quality["sampled"]
        assert (quality["mode"], quality["size_estimated"]) == ("approximate", True)
        assert quality["low"]["total"] is None
        assert quality["error"] is None, "that of the sum is unknown"
        covered += quality["low"]["n"] <= size <= quality["high"]["n"]
    assert 4 < spread < 16, "9 if equal rows are kept independently of each other"
    assert covered >= 0.86 * len(found)


def run(frame: DataFrame, place: Path) -> tuple[dict[int, list[Row]], StreamingQuery]:
    """The results of every batch of a stream that goes on from its checkpoint."""
    found: dict[int, list[Row]] = {}

    def keep(rows: DataFrame, number: int) -> None:
        found[number] = sorted(rows.collect(), key=str)

    writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(place / "checkpoint"))
    stream = writer.trigger(availableNow=True).start()
    stream.awaitTermination()
    return found, stream


def replayed(place: Path) -> Path:
    """A copy of the checkpoint, as if the query had died before it committed its last batch with rows."""
    copy = place / "replayed"
    shutil.copytree(place / "checkpoint", copy / "checkpoint")
    for number in range(BATCHES - 1, BATCHES + 1):
        for log in ["commits"] + ["offsets"] * (number == BATCHES):
            (copy / "checkpoint" / log / str(number)).unlink(missing_ok=True)
            (copy / "checkpoint" / log / f".{number}.crc").unlink(missing_ok=True)
    return copy


def of_last(batches: dict[int, list[Row]]) -> list[Row]:
    """The results that depend on the last batch before the copy."""
    rows = [row for results in batches.values() for row in results]
    return sorted((row for row in rows if row["window"].start.second == 10 * (BATCHES - 1)), key=str)


def test_a_table_and_its_files(spark: SparkSession, files: Feed, here: Path) -> None:
    frame = files.table()
    rows = query(frame).to_df().collect()
    check(rows)
    assert sorted(map(str, query(frame).to_df().collect())) == sorted(map(str, rows))
    assert sorted(map(str, query(frame, seed=1).to_df().collect())) != sorted(map(str, rows))
    # Rows that were made of one row, and are all the same, still do not share their fate.
    copied = spark.createDataFrame(frame.limit(1).collect(), frame.schema).withColumn(
        "k", F.explode(F.array_repeat("k", 1000))
    )
    (values,) = query(copied).to_df().collect()
    assert 60 < values["quality"]["sampled"] < 140
    # Read by tasks, rows are shed after they are decoded; with an expression, Spark does it.
    scan = muntin.scan(spark, str(here / "in"))
    rows = query(scan).to_df().collect()
    check(rows)
    assert sorted(map(str, query(scan).to_df().collect())) == sorted(map(str, rows))
    base = muntin.over(scan, W.tumbling("10 seconds"), time="t", by="k").agg(n=A.count(where="x > 1"))
    found = base.shed(rate=0.5, method="uniform", at="source").parallel("agnostic", workers=2).to_df().collect()
    assert sum(row["n"] for row in found) == pytest.approx(0.6 * ROWS * BATCHES, rel=0.1)


def test_a_stream_of_parquet_files_keeps_the_same_rows_when_it_is_replayed(
    files: Feed, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shed = query(files.stream())
    shed.explain()
    text = capsys.readouterr().out
    assert "90% of the rows are dropped at the source" in text
    assert "intervals of 95%" in text
    found, stream = run(shed.to_df(), here)
    check([row for rows in found.values() for row in rows], BATCHES - 1)  # the last window stays open
    progress = muntin.progress(stream)
    assert progress.rows + progress.source_shed_rows == pytest.approx(ROWS * BATCHES, rel=0.2)
    assert progress.shed_rows == 0
    assert progress.rate == 0.9
    assert "shed at the source by estimate" in repr(progress)
    copy = replayed(here)
    files.add(made(10 * BATCHES))
    # Another rate, or another place, means something else to the state.
    others = query(files.stream(), rate=0.8), query(files.stream()).shed(rate=0.9, method="uniform")
    for other in others:
        with pytest.raises(StreamingQueryException, match="aggregates of shed"):
            run(other.to_df(), here)
    last, again = (run(query(files.stream()).to_df(), place)[0] for place in (here, copy))
    assert len(of_last(last)) > KEYS / 2
    assert of_last(again) == of_last(last)


def test_a_stream_of_files_that_tasks_read(spark: SparkSession, files: Feed, here: Path) -> None:
    def shed() -> muntin.Query:
        return query(muntin.scan(spark, str(here / "in"), streaming=True, max_files_per_batch=1))

    found, _ = run(shed().to_df(), here)
    check([row for rows in found.values() for row in rows], BATCHES - 1)
    copy = replayed(here)
    files.add(made(10 * BATCHES))
    last, again = (run(shed().to_df(), place)[0] for place in (here, copy))
    assert len(of_last(last)) > KEYS / 2
    assert of_last(again) == of_last(last)


def test_a_stream_whose_equal_rows_nothing_tells_apart_has_no_intervals(
    spark: SparkSession, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "csv").mkdir()
    for batch in range(BATCHES):
        csv.write_csv(made(10 * batch), here / "csv" / f"{batch}.csv")
    reader = spark.readStream.schema(SCHEMA).option("header", "true").option("maxFilesPerTrigger", 1)
    stream = reader.csv(str(here / "csv"))
    numbered = stream.withColumn("partition", F.lit(0)).withColumn("offset", F.hash("t", "k"))
    query(stream).explain()
    assert "tells equal rows of a batch apart" in capsys.readouterr().out
    query(numbered).explain()
    assert "intervals of 95%" in capsys.readouterr().out
    found, _ = run(query(stream, 0.5).to_df(), here)
    rows = [row for results in found.values() for row in results]
    # Equal rows go together, and what is kept of them says nothing.
    assert all(row["quality"]["sampled"] % (ROWS // KEYS) == 0 for row in rows)
    assert all(row["quality"]["low"]["n"] is row["quality"]["error"] is None for row in rows)
    assert 0 < len(rows) < 0.9 * KEYS * (BATCHES - 1)
    copy = replayed(here)
    csv.write_csv(made(10 * BATCHES), here / "csv" / f"{BATCHES}.csv")
    last, again = (run(query(stream, 0.5).to_df(), place)[0] for place in (here, copy))
    assert 0 < len(of_last(last)) < KEYS
    assert of_last(again) == of_last(last)


def test_what_is_refused(files: Feed, here: Path) -> None:
    frame = files.table()
    with pytest.raises(MuntinError, match="not available for joins"):
        muntin.join(frame, frame, W.tumbling("10 seconds"), on="k", time="t").shed(
            rate=0.9, method="uniform", at="source"
        )
    with pytest.raises(MuntinError, match=r"top.*at='panes'"):
        query(frame).top(1, by="n")
    with pytest.raises(MuntinError, match=r"approximate.*at='panes'"):
        query(frame).approximate(10, 0.1)
    with pytest.raises(MuntinError, match="Spark's plan is fixed"):
        muntin.over(files.stream(), W.tumbling("10 seconds"), time="t", watermark="1 second").shed(
            target_latency="1 second", method="uniform", at="source"
        )
    writer = query(files.stream()).to_df().writeStream.format("noop")
    stream = (
        writer.option("checkpointLocation", str(here / "checkpoint")).trigger(processingTime="100 milliseconds").start()
    )
    try:
        stream.processAllAvailable()
        with pytest.raises(MuntinError, match="sheds at='source'"):
            muntin.shed_rate(stream, 0.5)
    finally:
        stream.stop()
