"""Scans of each format: the rows are those that Spark reads from the same files, with the same filters."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fsspec.implementations.dirfs import DirFileSystem
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import muntin
from muntin import MuntinError
from muntin import aggregates as A
from muntin import windows as W
from muntin.query.scan import Scan
from tests.spark.streams import results, run
from tests.spark.test_scan import sorted_rows

COLUMNS = """t timestamp, local timestamp_ntz, k string, n int, big long, x double, small float, d decimal(12,3),
    day date, flag boolean"""
CSV: dict[str, Any] = {"header": True, "escape": '"'}


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """Rows of all types, with nulls, NaN, quotes, line breaks, and times around a change of the clocks."""
    random = np.random.default_rng(3)
    count = 500

    def some(values: Any) -> list[Any]:
        return [None if no else value for value, no in zip(values.tolist(), random.random(count) < 0.1, strict=True)]

    texts = ["a", 'say "so"', "two\nlines", "a, b", "", "ü\t'", "\\n"]
    seconds = 1_710_050_000 + random.integers(-90_000, 90_000, count)  # New York's clocks go forward in between
    table = pa.table(
        {
            "t": pa.array(some(seconds * 1_000_000 + random.integers(0, 10**6, count)), pa.timestamp("us", tz="UTC")),
            "local": pa.array(some(seconds * 1_000_000), pa.timestamp("us")),
            "k": pa.array(some(random.choice(texts, count)), pa.string()),
            "n": pa.array(some(random.integers(-3, 4, count)), pa.int32()),
            "big": pa.array(some(random.integers(-(10**17), 10**17, count)), pa.int64()),
            "x": pa.array(some(random.choice([0.5, -0.0, 2.0, float("nan"), float("-inf")], count)), pa.float64()),
            "small": pa.array(some(random.choice([0.5, 0.1, 3.0, float("nan")], count)), pa.float32()),
            "d": pa.array(
                [None if n is None else Decimal(n) / 1000 for n in some(random.integers(-5_000, 5_000, count))],
                pa.decimal128(12, 3),
            ),
            "day": pa.array(some(random.integers(19_790, 19_795, count)), pa.int32()).cast(pa.date32()),
            "flag": pa.array(some(random.random(count) < 0.5), pa.bool_()),
        }
    )
    return spark.createDataFrame(table, COLUMNS).repartition(3)


CONDITIONS = (
    "n > 1", "n <= 1.5", "n IN (0, 2)", "n NOT IN (1, 2.5)", "big BETWEEN -5000000000 AND 50000000000000000", "n < big",
    "x > 1", "x <= 0", "x != 2", "x = 0", "NOT x < 2", "small = 0.1", "small >= 3", "d > 1.0005", "d = 2", "k = 'a'",
    "k <> '' AND k < 'b'", "k IN ('a', 'a, b')", "day >= '2024-03-10'", "day = DATE '2024-03-11'", "flag", "NOT flag",
    "flag = false", "t > '2024-03-10 03:30:00'", "t < TIMESTAMP '2024-03-10'", "local <= '2024-03-10 02:30:00'",
    "x IS NULL OR n IS NOT NULL", "NOT (n > 0 AND x > 0)", "n = 1 OR flag AND d < 0", "`K` >= 'a'",
)  # fmt: skip


def counted(data: Any) -> muntin.Query:
    query = muntin.over(data, W.tumbling("6 hours"), time="t", by="day")
    return query.agg(**{f"c{place}": A.count(where=where) for place, where in enumerate(CONDITIONS)})


def test_filters_are_those_of_spark(spark: SparkSession, rows: DataFrame, here: Path) -> None:
    rows.write.parquet(str(here / "in"))
    query = counted(muntin.scan(spark, here / "in"))
    assert not query.computed_by_spark
    frame = spark.read.parquet(str(here / "in"))
    assert sorted_rows(query.to_df()) == sorted_rows(counted(frame).to_df())
    totals = query.to_df().agg(*(F.sum(f"c{place}") for place in range(len(CONDITIONS)))).collect()[0]
    assert sum(total > 0 for total in totals) > 25
    for where in CONDITIONS[::5]:
        scan = muntin.scan(spark, here / "in", where=where)
        assert sorted_rows(scan.to_df()) == sorted_rows(frame.where(where))
    with pytest.raises(MuntinError, match=r"where='n % 2 = 1' is not a condition that scan can compute"):
        muntin.scan(spark, here / "in", where="n % 2 = 1")


def written(rows: DataFrame, form: str, folder: Path) -> None:
    if form == "arrow":
        table = rows.toArrow()
        folder.mkdir()
        with pa.ipc.new_file(folder / "0.arrow", table.schema) as writer:
            writer.write_table(table, max_chunksize=70)
        return
    writer = rows.write.options(**(CSV if form == "csv" else {})).options(
        timestampFormat="yyyy-MM-dd HH:mm:ss.SSSSSSXXX"
    )
    writer.format(form).save(str(folder))


def read(spark: SparkSession, form: str, folder: Path, schema: str) -> DataFrame:
    """The files, as Spark reads them."""
    options = {**CSV, "multiLine": True} if form == "csv" else {}
    return spark.read.schema(schema).options(**options).format(form).load(str(folder))


NESTED = ", s struct<a: int, b: array<double>>, words array<string>"


@pytest.mark.parametrize("form", ["parquet", "csv", "json", "arrow"])
def test_rows_are_those_of_spark(spark: SparkSession, rows: DataFrame, here: Path, form: str) -> None:
    schema = COLUMNS
    if form != "csv":
        schema += NESTED
        nested = F.struct(F.col("n").alias("a"), F.array(F.col("d").cast("double")).alias("b"))
        nested = nested if form == "arrow" else F.when(F.col("flag"), nested)  # toArrow() does not take null structs
        rows = rows.withColumns({"s": nested, "words": F.array("k")})
    if form == "json":
        rows = rows.where("x IS NULL OR abs(x) < 9").where("small IS NULL OR small < 9")  # JSON has no infinity
    written(rows, form, here / "in")
    scan = muntin.scan(spark, here / "in", format=form, schema=schema)
    frame = rows if form == "arrow" else read(spark, form, here / "in", schema)
    assert frame.count() > 200
    assert sorted_rows(scan.to_df()) == sorted_rows(frame)
    assert sorted_rows(counted(scan).to_df()) == sorted_rows(counted(frame).to_df())


def test_columns_in_paths(spark: SparkSession, rows: DataFrame, here: Path) -> None:
    parted = rows.withColumns({"text": F.concat(F.lit("v "), "n"), "half": F.col("n") / 2})
    parted.where("n IN (-3, 1) OR n IS NULL").coalesce(1).write.partitionBy("day", "n", "text", "half").parquet(
        str(here / "in")
    )
    frame = spark.read.parquet(str(here / "in"))
    for path in (here / "in", here / "in" / "day=2024-03-10"):
        ours, theirs = muntin.scan(spark, path).to_df(), spark.read.parquet(str(path))
        assert ours.schema == theirs.schema
        assert sorted_rows(ours) == sorted_rows(theirs)
    scan = muntin.scan(spark, here / "in", where="day > '2024-03-09' AND text = 'v 1'")
    assert sorted_rows(scan.to_df()) == sorted_rows(frame.where("day > '2024-03-09' AND text = 'v 1'"))
    assert scan.to_df().count() > 0


def test_csv_as_a_stream(spark: SparkSession, rows: DataFrame, here: Path) -> None:
    """With a column in the path, and what the files do not fit."""
    rows.where("t IS NOT NULL").withColumn("part", F.col("n")).coalesce(1).write.partitionBy("part").options(**CSV).csv(
        str(here / "in"), timestampFormat="yyyy-MM-dd HH:mm:ss.SSSSSSXXX"
    )
    schema = f"{COLUMNS}, part int"

    def query(data: Any) -> DataFrame:
        over = muntin.over(data, W.tumbling("1 hour"), time="t", by="part", watermark="400 days")
        return over.agg(n=A.count(), flags=A.count(where="flag"), last=A.max("d")).late("emit").to_df()

    scan = muntin.scan(spark, here / "in", format="csv", schema=schema, streaming=True, max_files_per_batch=4)
    stream = spark.readStream.schema(schema).options(**CSV, multiLine=True, maxFilesPerTrigger=4).csv(str(here / "in"))
    last = "2026-01-01 00:00:00,,,,,,,,,\n"  # moves the watermark behind all others
    found = {}
    for name, data in (("files", scan), ("spark", stream)):
        (here / "in" / "part=9").mkdir(exist_ok=True)
        run(query(data), here / name)
        (here / "in" / "part=9" / f"{name}.csv").write_text(f"{','.join(rows.columns)}\n{last}")
        run(query(data), here / name)
        found[name] = sorted(repr(row) for row in results(spark, query(data), here / name) if row["part"] != 9)
    assert found["files"] == found["spark"]
    assert len(found["files"]) > 50


Place = Callable[[Path], tuple[Any, Any]]
PLACES: dict[str, Place] = {
    "of Arrow": lambda here: ("in", fs.SubTreeFileSystem(str(here), fs.LocalFileSystem())),
    "of fsspec": lambda here: ("in/*.parquet", DirFileSystem(str(here))),
    "in the path": lambda here: (f"file://{here}/in", None),
    "found by fsspec": lambda here: (f"local://{here}/in", None),
}


@pytest.mark.parametrize("name", PLACES)
def test_file_systems(spark: SparkSession, rows: DataFrame, here: Path, name: str) -> None:
    rows.write.parquet(str(here / "in"))
    path, filesystem = PLACES[name](here)
    scan = muntin.scan(spark, path, filesystem=filesystem)
    assert isinstance(scan, Scan)
    assert counted(scan).to_df().count() == counted(rows).to_df().count()
