"""Scans: the rows of files are those of a DataFrame of the same files, wherever the panes are made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

import muntin
from muntin import MuntinError
from muntin import aggregates as A
from muntin import windows as W
from muntin.query.scan import Scan
from muntin.spark import build

WINDOW = W.sliding("20 seconds", "5 seconds")
COUNT = 4_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows out of order, with nulls, NaN and times before 1970, in files of several row groups."""
    place = tmp_path_factory.mktemp("rides")
    random = np.random.default_rng(7)
    for number in range(3):
        times = random.integers(-60_000_000, 60_000_000, COUNT)
        pq.write_table(
            pa.table(
                {
                    "t": pa.array(times, mask=random.random(COUNT) < 0.02).cast(pa.timestamp("us", tz="UTC")),
                    "Key": pa.array([None if n == 3 else f"k{n}" for n in random.integers(0, 5, COUNT)]),
                    "n": pa.array(random.integers(-9, 9, COUNT), mask=random.random(COUNT) < 0.1),
                    "x": pa.array(np.where(random.random(COUNT) < 0.1, np.nan, random.normal(size=COUNT))),
                    "s": pa.array([{"a": float(n % 7)} for n in range(COUNT)]),
                    "unused": pa.array(["-"] * COUNT),
                }
            ),
            place / f"{number}.parquet",
            row_group_size=1_500,
        )
    return place


Build = Callable[[Any], muntin.Query]


def over(data: Any, *windows: Any, **others: Any) -> muntin.Query:
    return muntin.over(data, *(windows or (WINDOW,)), **{"time": "t", "by": "key", **others})


QUERIES: dict[str, Build] = {
    "aggregates": lambda d: over(d).agg(n=A.count(), sum=A.sum("n"), mean=A.mean("x"), last=A.last("n")),
    "no key": lambda d: over(d, by=()).agg(n=A.count("x"), low=A.min("n")),
    "holistic": lambda d: over(d, W.tumbling("30 seconds")).agg(median=A.median("x"), kinds=A.count_distinct("n")),
    "rows": lambda d: over(d, W.count(50), W.session("1 second")).agg(n=A.count(), sum=A.sum("n")),
    "function": lambda d: over(d, W.tumbling("1 minute")).apply(lambda t: t.slice(0, 1), "n long", columns="n"),
    "filters as text": lambda d: over(d).agg(n=A.count(where="n > 2"), sum=A.sum("n", where="x < 0 OR key IS NULL")),
    "a filter": lambda d: over(d).agg(n=A.count(where="n > 2"), sum=A.sum("n", where=F.col("x") < 0)),
    "expressions": lambda d: over(d, by=["key", "n % 2"], time="t + INTERVAL 1 HOUR").agg(sum=A.sum("s.a")),
    "the clock": lambda d: over(d, max_ahead="1 hour").agg(n=A.count()),
}


def sorted_rows(frame: DataFrame) -> list[str]:
    """The rows as text: NaN is not equal to itself, and sums differ by rounding."""
    return sorted(map(repr, map(_rounded, frame.collect())))


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 6) + 0.0
    if isinstance(value, Row):
        return {name: _rounded(each) for name, each in value.asDict().items()}
    return value


@pytest.mark.parametrize("name", QUERIES)
def test_rows_are_those_of_a_frame(spark: SparkSession, folder: Path, name: str) -> None:
    query = QUERIES[name]
    ours = query(muntin.scan(spark, folder)).to_df()
    assert sorted_rows(ours) == sorted_rows(query(spark.read.parquet(str(folder))).to_df())


def test_shed_rows(spark: SparkSession, folder: Path) -> None:
    """The rows that are kept depend on the tasks, and counts do not."""

    def shed(data: Any) -> DataFrame:
        return over(data).agg(n=A.count(), mean=A.mean("n")).shed(rate=0.5).to_df().drop("mean", "quality")

    assert sorted_rows(shed(muntin.scan(spark, folder))) == sorted_rows(shed(spark.read.parquet(str(folder))))


def test_panes_are_made_where_files_are_read(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> DataFrame:
        raise AssertionError("the rows went through Spark")

    monkeypatch.setattr(build, "map_in_arrow", never)
    assert QUERIES["aggregates"](muntin.scan(spark, folder)).to_df().count() > 0
    assert QUERIES["filters as text"](muntin.scan(spark, folder)).to_df().count() > 0
    with pytest.raises(AssertionError, match="through Spark"):
        over(muntin.scan(spark, folder)).agg(last=A.last("n", where=F.col("x") < 0)).to_df()


def test_a_join_of_scans(spark: SparkSession, folder: Path) -> None:
    def counted(data: Any) -> DataFrame:
        return muntin.join(data, data, W.tumbling("1 minute"), on="key", time="t").agg(pairs=A.count()).to_df()

    assert sorted_rows(counted(muntin.scan(spark, folder))) == sorted_rows(counted(spark.read.parquet(str(folder))))


def test_the_rows_themselves(spark: SparkSession, folder: Path) -> None:
    scan = muntin.scan(spark, folder / "*.parquet")
    frame = spark.read.parquet(str(folder))
    assert isinstance(scan, Scan)
    assert scan.to_df().schema == frame.schema
    assert sorted_rows(scan.to_df()) == sorted_rows(frame)
    assert repr(scan).startswith(f'scan("{str(folder)[:30]}')
    assert repr(scan).endswith("t timestamp, Key string, n bigint, x double, s struct<a:double>, unused string")


def test_explain(spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scan = muntin.scan(spark, folder)
    QUERIES["aggregates"](scan).explain()
    assert f"Files: parquet at '{folder}', read by tasks with Arrow. Panes are made there" in capsys.readouterr().out
    over(scan, by="n % 2", max_ahead="1 hour").agg(n=A.count(where="n > 0")).explain()
    assert "through Spark's JVM, which computes n % 2, where=, max_ahead=." in capsys.readouterr().out


def test_no_rows(spark: SparkSession, here: Path) -> None:
    for scan in (muntin.scan(spark, here, schema="t timestamp, key string"), empty(spark, here)):
        assert over(scan).agg(n=A.count()).to_df().collect() == []


def empty(spark: SparkSession, here: Path) -> Scan:
    pq.write_table(
        pa.table({"t": pa.array([], pa.timestamp("us")), "key": pa.array([], pa.string())}), here / "0.parquet"
    )
    return muntin.scan(spark, here)


def test_a_schema(spark: SparkSession, folder: Path) -> None:
    scan = muntin.scan(spark, folder, schema="t timestamp, key string, n double, more string")
    rows = over(scan, W.tumbling("1 minute")).agg(sum=A.sum("n"), more=A.count("more")).to_df().collect()
    assert {type(row["sum"]) for row in rows} == {float}
    assert {row["more"] for row in rows} == {0}


MISTAKES: dict[str, tuple[Callable[[SparkSession, Path], Any], str]] = {
    "no session": (lambda s, p: muntin.scan("spark", p), "spark must be a Spark session, got str"),  # type: ignore[arg-type]
    "no path": (lambda s, p: muntin.scan(s, None), "path must be a file, a folder or a pattern.*got None"),
    "nothing there": (lambda s, p: muntin.scan(s, p / "none"), "There is nothing at .*none'; check the path"),
    "no files": (lambda s, p: muntin.scan(s, p / "*.csv"), "no files at .*give schema="),
    "a format": (lambda s, p: muntin.scan(s, p, format="orc"), "format is 'orc'; it can be"),
    "a schema": (lambda s, p: muntin.scan(s, p, schema="t"), "schema 't' cannot be parsed"),
    "elsewhere": (
        lambda s, p: muntin.scan(s, "nowhere://bucket/rides"),
        "'nowhere://bucket/rides', which cannot be op",
    ),
    "a column": (lambda s, p: over(muntin.scan(s, p)).agg(n=A.sum("m")), "'m' is not in the data"),
    "a type": (
        lambda s, p: over(muntin.scan(s, p, schema="t timestamp, key long")).agg(n=A.count()).to_df().count(),
        "Column 'key' of the file .*0.parquet' is of type string and cannot be read as bigint",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(spark: SparkSession, folder: Path, name: str) -> None:
    mistake, message = MISTAKES[name]
    with pytest.raises(Exception, match=message) as raised:
        mistake(spark, folder)
    assert name == "a type" or raised.type is MuntinError
