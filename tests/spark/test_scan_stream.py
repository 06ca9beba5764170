"""Scans as streams: the results are those of a stream of the same files, with files that appear between and in runs."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import muntin
from muntin import MuntinError
from muntin import aggregates as A
from muntin import windows as W
from tests.spark.streams import results, run

SCHEMA = "t timestamp, key string, n long, x double"
ROWS = 300


def write(folder: Path, name: str, second: int, seed: int, age: int | None = None) -> None:
    """Rows of about ten seconds."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    times = second * 1_000_000 + random.integers(0, 10_000_000, ROWS)
    table = pa.table(
        {
            "t": pa.array(times, mask=random.random(ROWS) < 0.02).cast(pa.timestamp("us", tz="UTC")),
            "key": pa.array([f"k{n}" for n in random.integers(0, 5, ROWS)]),
            "n": pa.array(random.integers(-9, 9, ROWS), mask=random.random(ROWS) < 0.1),
            "x": random.normal(size=ROWS).round(3),
            "unused": ["-"] * ROWS,
        }
    )
    pq.write_table(table, folder / name, row_group_size=100)
    if age is not None:
        os.utime(folder / name, (age, age))


def query(data: Any, **others: Any) -> DataFrame:
    over = muntin.over(data, W.sliding("6 seconds", "2 seconds"), time="t", by="key", watermark="3 seconds", **others)
    return over.agg(rows=A.count(), n=A.sum("n"), low=A.min("x"), last=A.last("n")).to_df()


def shown(rows: Any) -> list[str]:
    return sorted(str(row.asDict(recursive=True)) for row in rows)


Streams = dict[str, Callable[[], DataFrame]]


@pytest.fixture
def both(spark: SparkSession, here: Path) -> Streams:
    def of_spark() -> DataFrame:
        frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 2).parquet(str(here / "in"))
        return query(frame)

    def of_files() -> DataFrame:
        scan = muntin.scan(spark, here / "in", schema=SCHEMA, streaming=True, max_files_per_batch=2)
        return query(scan)

    return {"spark": of_spark, "files": of_files}


def test_runs_with_files_in_between(spark: SparkSession, here: Path, both: Streams) -> None:
    """Late files, among them one that is older than all that were read, and batches of the same size as Spark's."""
    folder = here / "in"
    for number in range(3):
        write(folder, f"{number}.parquet", 10 * number, number, age=1_000 + number)
    for name, frame in both.items():
        run(frame(), here / name)
    write(folder, "b.parquet", 35, 7, age=900)
    write(folder, "a.parquet", 10, 6, age=2_000)  # late rows
    found = {}
    for name, frame in both.items():
        query = run(frame(), here / name)
        found[name] = shown(results(spark, frame(), here / name))
        state = muntin.progress(query)
        found[name] += [f"{state.rows} rows, {state.late_rows} late, {state.invalid_rows} invalid"]
    assert found["files"] == found["spark"]
    assert len(found["files"]) > 50
    offsets = [json.loads(path.read_text().splitlines()[-1]) for path in (here / "files/checkpoint/offsets").glob("?")]
    assert max(offset["files"] for offset in offsets) == 5


def test_a_batch_that_failed_is_repeated_with_the_same_files(spark: SparkSession, here: Path, both: Streams) -> None:
    """The sink fails; older and newer files have appeared when the batch is repeated."""
    folder, found = here / "in", dict[int, list[list[str]]]()
    for number in range(4):
        write(folder, f"{number}.parquet", 10 * number, number, age=1_000 + number)

    def attempt(fails: bool) -> None:
        def sink(frame: DataFrame, batch: int) -> None:
            found.setdefault(batch, []).append(shown(frame.collect()))
            if fails and batch == 1:
                raise RuntimeError("the sink fails")

        stream = both["files"]().writeStream.foreachBatch(sink).trigger(availableNow=True)
        stream.option("checkpointLocation", str(here / "checkpoint")).start().awaitTermination()

    with pytest.raises(StreamingQueryException, match="the sink fails"):
        attempt(fails=True)
    write(folder, "8.parquet", 30, 8, age=500)
    write(folder, "9.parquet", 40, 9, age=1_001)
    attempt(fails=False)
    first, second = found[1]
    assert first == second
    assert first
    last = max((here / "checkpoint").glob("offsets/[0-9]*"), key=lambda path: int(path.name))
    assert json.loads(last.read_text().splitlines()[-1])["files"] == 6


def test_files_appear_while_it_runs(spark: SparkSession, here: Path) -> None:
    folder = here / "in"
    folder.mkdir()
    scan = muntin.scan(spark, folder, schema=SCHEMA, streaming=True, log=here / "log", max_rows_per_batch=200)
    frame = query(scan, max_ahead="1 hour")  # Spark computes the clock, so the rows go through it
    stream = (
        frame.writeStream.format("memory").queryName("appear").option("checkpointLocation", str(here / "c")).start()
    )
    try:
        for number in range(3):
            write(here / "hidden", f"{number}.parquet", 20 * number, number)
            (here / "hidden" / f"{number}.parquet").rename(folder / f"{number}.parquet")
            deadline = time.monotonic() + 60
            while muntin.progress(stream).rows + muntin.progress(stream).invalid_rows < ROWS * (number + 1):
                assert time.monotonic() < deadline
                assert stream.isActive, stream.exception()
                time.sleep(0.1)
        stream.processAllAvailable()
        batches = [report["numInputRows"] for report in stream.recentProgress if report["numInputRows"]]
        assert max(batches) <= 200
    finally:
        stream.stop()
    table = spark.read.parquet(str(folder))
    expected = shown(row for row in query(table).collect() if row["window"].end.timestamp() <= 45)
    assert [row for row in shown(spark.table("appear").collect()) if row in expected] == expected
    assert not (folder / "_muntin_scan").exists()


def test_bad_files_are_an_error_or_counted(spark: SparkSession, here: Path) -> None:
    folder = here / "in"
    for number in range(3):
        write(folder, f"{number}.parquet", 10 * number, number, age=number)
    path = folder / "1.parquet"
    path.write_bytes(b"PAR1" + bytes(path.stat().st_size - 4))

    def stream(**others: Any) -> DataFrame:
        return query(muntin.scan(spark, folder, schema=SCHEMA, streaming=True, **others))

    with pytest.raises(Exception, match=r"The file .*1.parquet' cannot be read"):
        run(stream(), here / "error")
    state = muntin.progress(run(stream(bad_files="skip"), here / "skip"))
    assert (state.skipped_files, state.rows + state.invalid_rows) == (1, 2 * ROWS)
    assert "1 files skipped" in repr(state)


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "no files": ({"path": "empty"}, "There are no files at .* to take the columns from; give schema="),
    "nothing there": ({"path": "none", "schema": SCHEMA}, "There is nothing at .*none'; check the path"),
    "no rows": ({"max_rows_per_batch": 0}, "max_rows_per_batch must be a whole number from 1"),
    "no files in a batch": ({"max_files_per_batch": -1}, "max_files_per_batch must be a whole number from 1"),
    "rows of csv": ({"format": "csv", "schema": SCHEMA, "max_rows_per_batch": 3}, "csv files do not say how many rows"),
    "limits of a table": ({"streaming": False, "max_files_per_batch": 3}, "max_files_per_batch is for streams"),
    "a log of a table": ({"streaming": False, "log": "x"}, "log is for streams"),
    "no flag": ({"streaming": "yes"}, "streaming must be True or False, got 'yes'"),
    "bad files": ({"bad_files": "ignore"}, "bad_files is 'ignore'; it can be 'error' or 'skip'"),
    "a log": ({"log": 3}, "log must be a folder, got 3"),
    "options": ({"options": {"header": True}}, "options has 'header', but parquet files have none"),
    "a file system": ({"filesystem": "s3"}, "filesystem must be one of pyarrow.fs or of fsspec, got str"),
    "memory": ({"path": "memory://rides"}, "which each process has for itself"),
    "a nested column": ({"format": "csv", "schema": "a array<int>"}, "column 'a' is of type array<int>.*from csv"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(spark: SparkSession, here: Path, name: str) -> None:
    arguments, message = MISTAKES[name]
    (here / "empty").mkdir()
    write(here / "in", "0.parquet", 0, 0)
    given: dict[str, Any] = {"path": "in", "streaming": True} | arguments
    path = str(given.pop("path"))
    with pytest.raises(MuntinError, match=message):
        muntin.scan(spark, path if "://" in path else here / path, **given)


def test_a_stream_needs_a_watermark(spark: SparkSession, here: Path) -> None:
    write(here / "in", "0.parquet", 0, 0)
    scan = muntin.scan(spark, here / "in", streaming=True)
    assert 'format="parquet", streaming=True)' in repr(scan)
    assert scan.to_df().isStreaming
    with pytest.raises(MuntinError, match="watermark is missing"):
        muntin.over(scan, W.tumbling("1 second"), time="t")
