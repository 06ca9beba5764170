"""Panes that Spark makes are those that the pane stage makes, whatever is in the rows."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql import DataFrame, SparkSession

import muntin
from muntin import aggregates as A
from muntin import windows as W

NAN, INFINITY = math.nan, math.inf
POOLS: dict[str, list[Any]] = {
    "x": [NAN, -0.0, 0.0, 5e-324, -1.5, 2.25, 1e9 + 0.1, None],
    "wild": [NAN, INFINITY, -INFINITY, 1e150, -0.0, None],
    "f": [NAN, -0.0, 0.0, 1.5, -2.25, None],
    "b": [-128, 127, 0, None],
    "i": [-(1 << 31), (1 << 31) - 1, 0, 7, None],
    "n": [-(1 << 63), (1 << 63) - 1, -1, 0, 1 << 40, None],
    "small": [Decimal("-0.05"), Decimal("99999.99"), Decimal("0.00"), None],
    "dec": [Decimal("-9999999999999999.99"), Decimal("9999999999999999.99"), Decimal("0.01"), None],
    "long_dec": [Decimal("-" + "9" * 28), Decimal("9" * 28), Decimal("1"), None],
    "d": [date(1969, 12, 31), date(2024, 2, 29), None],
    "flag": [True, False, None],
    "at": [datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2024, 1, 1), None],
    "k": ["a", "b", "", None],
    "fk": [NAN, -0.0, 0.0, 1.5, None],
}
SCHEMA = (
    "t {time}, x double, wild double, f float, b byte, i int, n long, small decimal(7,2), dec decimal(18,2), "
    "long_dec decimal(28,0), d date, flag boolean, at timestamp_ntz, k string, fk double, "
    "s struct<a: double, b: string>"
)
EXACT: dict[str, A.Aggregate] = {
    "rows": A.count(),
    "known": A.count("x"),
    "some": A.count(where="n > 0"),
    "low": A.min("x"),
    "high": A.max("x"),
    "low_f": A.min("f"),
    "high_f": A.max("f"),
    "low_n": A.min("n"),
    "high_n": A.max("n", where="flag"),
    "low_d": A.min("d"),
    "high_at": A.max("at"),
    "low_flag": A.min("flag"),
    "low_dec": A.min("dec"),
    "high_dec": A.max("dec", where="flag"),
    "low_small": A.min("small"),
    "bytes": A.sum("b"),
    "ints": A.sum("i"),
    "small_sum": A.sum("small"),
    "dec_sum": A.sum("dec"),
    "long_sum": A.sum("long_dec", where="flag"),
    "dec_mean": A.mean("dec"),
    "wild_low": A.min("wild"),
    "latest": A.max("t"),
    "first_b": A.first("b"),
    "last_i": A.last("i", where="flag"),
    "first_small": A.first("small"),
    "last_small": A.last("small"),
    "last_d": A.last("d"),
    "first_flag": A.first("flag"),
    "when_low": A.argmin("i"),
    "when_high": A.argmax("small"),
    "arg": A.argmin("i", "b"),
    "arg_small": A.argmax("small", "b", where="flag"),
    "arg_null": A.argmax("b", "flag"),
}
ROUNDED: dict[str, A.Aggregate] = {
    "total": A.sum("x"),
    "total_f": A.sum("f"),
    "wild_sum": A.sum("wild"),
    "mean": A.mean("x", where="flag"),
    "mean_n": A.mean("n"),
    "var": A.var_pop("x"),
    "dev": A.stddev_samp("i"),
    "dec_var": A.var_samp("small"),
    "wild_var": A.var_pop("wild"),
}


def nasty_rows(seed: int, count: int) -> list[tuple[Any, ...]]:
    """Times around 1970, of which some are null; many groups of few rows, so that every combination occurs."""
    chance = random.Random(seed)
    rows = []
    for _ in range(count):
        micros = chance.choice([chance.randrange(-60_000_000, 60_000_000), chance.randrange(-60, 60) * 1_000_000])
        time = None if chance.random() < 0.03 else datetime(1970, 1, 1) + timedelta(microseconds=micros)
        values = [chance.choice(pool) for pool in POOLS.values()]
        struct = None if chance.random() < 0.2 else (chance.choice(POOLS["fk"]), chance.choice(POOLS["k"]))
        rows.append((time, *values, struct))
    return rows


def both(query: muntin.Query) -> tuple[list[Any], list[Any]]:
    """The results with panes made by Spark, and with panes made in Python."""
    native = query.to_df().collect()
    with patch("muntin.spark.build.native_panes", return_value="a test compares"):
        return native, query.to_df().collect()


def by_window(rows: list[Any], keys: tuple[str, ...]) -> dict[Any, Mapping[str, Any]]:
    found = {repr((row["window_id"], *(row[key] for key in keys))): row.asDict() for row in rows}
    assert len(found) == len(rows)
    return found


def assert_equal(native: list[Any], python: list[Any], keys: tuple[str, ...]) -> None:
    ours, others = by_window(native, keys), by_window(python, keys)
    assert ours.keys() == others.keys()
    for window, row in ours.items():
        for name, value in row.items():
            other = others[window][name]
            if name in ROUNDED and value is not None and math.isfinite(value):
                assert value == pytest.approx(other, rel=1e-9, abs=1e-9 if "wild" not in name else 0), (window, name)
            else:
                assert repr(value) == repr(other), (window, name)


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(nasty_rows(1, 3000), SCHEMA.format(time="timestamp_ntz")).repartition(3)


def test_native_panes_answer_as_those_of_the_pane_stage(
    spark: SparkSession, rows: DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    query = muntin.over(rows, W.sliding("3 seconds", "1 second", offset="300 milliseconds"), time="t", by=["k", "fk"])
    query = query.agg(**EXACT, **ROUNDED)
    query.explain()
    assert (
        "Panes are made by Spark's own groupBy(keys, pane); only panes are sent to Python." in capsys.readouterr().out
    )
    assert_equal(*both(query), ("k", "fk"))


def test_keys_and_windows(spark: SparkSession, rows: DataFrame) -> None:
    """Struct keys, no key, computed columns, several windows, gaps, a time with a zone, columns of odd names."""
    zoned = rows.withColumn("t", rows.t.cast("timestamp")).withColumnRenamed("n", "an odd `na.me`").alias("r")
    odd = muntin.over(zoned, W.sliding("2 seconds", "5 seconds"), time="t", by="s")
    assert_equal(*both(odd.agg(high_n=A.max("an odd `na.me`"), rows=A.count(), total=A.sum("x + 1"))), ("s",))
    single = muntin.over(rows, W.tumbling("7 seconds"), W.cumulative("6 seconds", "2 seconds"), time="t")
    native, python = both(single.agg(rows=A.count(), mean=A.mean("x")))
    assert_equal(native, python, ("window_name",))
    top = muntin.over(rows, W.tumbling("7 seconds"), time="t", by="k").agg(rows=A.count()).top(2, by="rows")
    assert_equal(*both(top), ("k",))
    assert both(single.agg(n=A.sum("i")))[0]
    empty = muntin.over(rows.where("false"), W.tumbling("7 seconds"), time="t", by="k").agg(rows=A.count())
    assert both(empty) == ([], [])


def test_sums_overflow_only_in_answers(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [(datetime(2024, 1, 1, 0, 0, second % 2), (1 << 63) - 1 if second < 2 else -(1 << 62)) for second in range(4)],
        "t timestamp_ntz, n long",
    )
    fits = muntin.over(rows, W.tumbling("2 seconds"), time="t").agg(n=A.sum("n"))
    assert fits.to_df().collect()[0]["n"] == (1 << 63) - 2
    two = muntin.over(rows.where("n > 0"), W.tumbling("2 seconds"), time="t").agg(n=A.sum("n"))
    with pytest.raises(Exception, match="sum of column 'n' overflows a 64-bit integer"):
        two.to_df().collect()


@pytest.mark.parametrize(
    ("aggregate", "why"),
    [
        (A.first("x"), "no counterpart of 'a'"),
        (A.max("k"), "no counterpart of 'a'"),
        (A.last("n"), "no counterpart of 'a'"),
        (A.last("i"), None),
        (A.argmax("flag", "small"), None),
        (A.sum("long_dec"), None),
        (A.median("x"), "some answers need the rows"),
        (A.custom(lambda x: x, lambda a, b: a + b, lambda s: s, columns=["x"], returns="double"), "custom aggregates"),
    ],
)
def test_what_falls_back(
    rows: DataFrame, aggregate: A.Aggregate, why: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    muntin.over(rows, W.tumbling("1 second"), time="t", by="k").agg(a=aggregate).explain()
    shown = capsys.readouterr().out
    assert ("Panes are made in Python: " in shown) == (why is not None)
    assert why is None or why in shown
