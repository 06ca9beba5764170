"""Every builder of queries and joins takes any value, or refuses it with a MuntinError."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import muntin
from muntin import MuntinError
from muntin import aggregates as A
from muntin import windows as W
from tests.nasty import NASTY

FIVE = W.tumbling("5 seconds")
Build = Callable[[DataFrame, Any], Any]


def base(table: DataFrame) -> muntin.Query:
    return muntin.over(table, FIVE, time="ts", by="route")


def median(table: DataFrame) -> muntin.Query:
    return base(table).agg(mid=A.median("fare"))


def joined(table: DataFrame, **others: Any) -> muntin.Join:
    return muntin.join(table, table, others.pop("window", FIVE), **({"on": "route", "time": "ts"} | others))


@cache
def a_join(table: DataFrame) -> muntin.Join:
    return joined(table)


BUILDERS: dict[str, Build] = {
    "over, data": lambda t, v: muntin.over(v, FIVE, time="ts"),
    "over, window": lambda t, v: muntin.over(t, v, time="ts"),
    "over, time": lambda t, v: muntin.over(t, FIVE, time=v),
    "over, watermark": lambda t, v: muntin.over(t, FIVE, time="ts", watermark=v),
    "over, by": lambda t, v: muntin.over(t, FIVE, time="ts", by=v),
    "agg, without a name": lambda t, v: base(t).agg(v),
    "agg": lambda t, v: base(t).agg(n=v),
    "agg, where": lambda t, v: base(t).agg(n=A.count(where=v)),
    "agg, column": lambda t, v: base(t).agg(n=A.count(v)),
    "apply, function": lambda t, v: base(t).apply(v, "n long"),
    "apply, schema": lambda t, v: base(t).apply(len, v),
    "apply, columns": lambda t, v: base(t).apply(len, "n long", columns=v),
    "device, name": lambda t, v: base(t).device(v),
    "device, library": lambda t, v: base(t).device("cuda", library=v),
    "compress, after": lambda t, v: median(t).compress(v),
    "compress, memory": lambda t, v: median(t).compress(memory=v),
    "compress, codec": lambda t, v: median(t).compress(None, codec=v),
    "compress, unit": lambda t, v: median(t).compress(None, unit=v),
    "compress, level": lambda t, v: median(t).compress(None, level=v),
    "approximate, budget": lambda t, v: median(t).approximate(v, 0.1),
    "approximate, error": lambda t, v: median(t).approximate(100, v),
    "approximate, confidence": lambda t, v: median(t).approximate(100, 0.1, v),
    "approximate, groups": lambda t, v: median(t).approximate(100, 0.1, groups=v),
    "approximate, combine": lambda t, v: median(t).approximate(100, 0.1, combine=v),
    "approximate, metric": lambda t, v: median(t).approximate(100, 0.1, metric=v),
    "approximate, incremental": lambda t, v: median(t).approximate(100, 0.1, incremental=v),
    "approximate, seed": lambda t, v: median(t).approximate(100, 0.1, seed=v),
    "shed, rate": lambda t, v: median(t).shed(v),
    "shed, latency": lambda t, v: median(t).shed(target_latency=v),
    "shed, method": lambda t, v: median(t).shed(0.5, method=v),
    "shed, seed": lambda t, v: median(t).shed(0.5, seed=v),
    "shed, confidence": lambda t, v: median(t).shed(0.5, confidence=v),
    "top, k": lambda t, v: median(t).top(v, by="mid"),
    "top, by": lambda t, v: median(t).top(3, by=v),
    "top, descending": lambda t, v: median(t).top(3, by="mid", descending=v),
    "parallel, model": lambda t, v: median(t).parallel(v),
    "parallel, workers": lambda t, v: median(t).parallel(workers=v),
    "parallel, batch": lambda t, v: median(t).parallel("active", batch=v),
    "parallel, ordered": lambda t, v: median(t).parallel(ordered=v),
    "parallel, keys": lambda t, v: median(t).parallel(keys=v),
    "parallel, skewed": lambda t, v: median(t).parallel(skewed=v),
    "late": lambda t, v: median(t).late(v),
    "late, within": lambda t, v: median(t).late("update", within=v),
    "emit": lambda t, v: median(t).emit(v),
    "emit, every": lambda t, v: median(t).emit("on_change", every=v),
    "join, left": lambda t, v: muntin.join(v, t, FIVE, on="route", time="ts"),
    "join, right": lambda t, v: muntin.join(t, v, FIVE, on="route", time="ts"),
    "join, window": lambda t, v: joined(t, window=v),
    "join, on": lambda t, v: joined(t, on=v),
    "join, time": lambda t, v: joined(t, time=v),
    "join, watermark": lambda t, v: joined(t, watermark=v),
    "join, agg": lambda t, v: a_join(t).agg(n=v),
    "join, rows": lambda t, v: a_join(t).rows(v),
    "join, late": lambda t, v: a_join(t).late(v),
    "progress": lambda t, v: muntin.progress(v),
    "drift": lambda t, v: muntin.drift(v),
    "drift, by": lambda t, v: muntin.drift(t, by=v),
    "drift, count": lambda t, v: muntin.drift(t, by="route", count=v),
    "configure": lambda t, v: muntin.configure(v),
}


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    return spark.range(3).select(
        F.timestamp_seconds("id").alias("ts"), F.lit("a").alias("route"), F.lit(1.5).alias("fare")
    )


@pytest.mark.parametrize("builder", list(BUILDERS))
def test_any_value_is_taken_or_refused(table: DataFrame, builder: str) -> None:
    windowed = (
        table.selectExpr("window(ts, '1 second') window", "1L window_id", "route") if "drift," in builder else table
    )
    for value in [*NASTY, table, F.col("fare"), F.col("fare") > 1, "\ud800 long"]:
        try:
            made = BUILDERS[builder](windowed, value)
        except MuntinError as error:
            str(error).encode()  # it can be printed
        else:
            repr(made).encode()
