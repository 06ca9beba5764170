"""Holistic aggregates and `.apply()`: the same values as Spark's exact functions, on tables and on streams.

Spark has no distinct aggregation on streams, and over sessions it counts wrongly: there `collect_set` is the judge. Its
lists come in any order, so they are sorted as Muntin promises: by time, and equal times by the columns that the query
reads.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

import muntin
from muntin import aggregates as A
from muntin import windows as W
from tests.spark.streams import Feed, assert_same, keyed, results, run
from tests.spark.test_values import VALUES

SCHEMA = "ts timestamp, k string, n int, x double, price decimal(10,2), name string, day date"
READ = ("n", "x", "price", "name", "day")
"""The columns that the aggregates read, in their order: what equal times go by."""
SECOND = 1_000_000

OURS: dict[str, A.Aggregate] = {
    "rows": A.count(),
    "total": A.sum("n"),
    "mid_n": A.median("n"),
    "mid_x": A.median("x"),
    "mid_price": A.median("price"),
    "late_n": A.quantile("n", 0.9),
    "tails": A.quantile("x", [0.0, 0.1, 0.5, 0.95, 1.0]),
    "price_tails": A.quantile("price", (0.25, 1)),
    "common_n": A.mode("n"),
    "common_x": A.mode("x"),
    "common_price": A.mode("price"),
    "common_name": A.mode("name"),
    "common_day": A.mode("day"),
    "ns": A.count_distinct("n"),
    "xs": A.count_distinct("x"),
    "prices": A.count_distinct("price"),
    "names": A.count_distinct("name"),
    "days": A.count_distinct("day"),
    "times": A.count_distinct("ts"),
    "all_n": A.collect("n"),
    "all_x": A.collect("x"),
    "all_names": A.collect("name"),
    "top": A.top_k("name", 3),
    "some_mid": A.median("x", where="n > 3"),
    "some_names": A.count_distinct("name", where="n > 3"),
    "no_price": A.mode("price", where="false"),
    "mean_n": A.mean("n"),
}


def sparks(sets: bool) -> dict[str, Column]:
    """The same in Spark's words, but for `top`; distinct values as sets where Spark cannot count them."""
    many = F.col("n") > 3
    # To Muntin 0.0 and -0.0 are one value, as to Spark's groups and joins.
    x = F.col("x") + F.lit(0.0)

    def distinct(column: Column | str) -> Column:
        return F.size(F.collect_set(column)) if sets else F.count_distinct(column)

    return {
        "rows": F.count(F.lit(1)),
        "total": F.sum("n"),
        "mid_n": F.median("n"),
        "mid_x": F.median(x),
        "mid_price": F.median("price"),
        "late_n": F.percentile("n", 0.9),
        "tails": F.percentile(x, [0.0, 0.1, 0.5, 0.95, 1.0]),
        "price_tails": F.percentile("price", [0.25, 1.0]),
        "common_n": F.mode("n", True),
        "common_x": F.mode(x, True),
        "common_price": F.mode("price", True),
        "common_name": F.mode("name", True),
        "common_day": F.mode("day", True),
        "ns": distinct("n"),
        "xs": distinct(x.cast("string")),  # in the sets of Spark 4.1 no NaN is equal to another
        "prices": distinct("price"),
        "names": distinct("name"),
        "days": distinct("day"),
        "times": distinct("ts"),
        "all_n": in_order("n"),
        "all_x": in_order("x"),
        "all_names": in_order("name"),
        "some_mid": F.median(F.when(many, x)),
        "some_names": distinct(F.when(many, F.col("name"))),
        "no_price": F.mode(F.when(F.lit(False), F.col("price")), True),
        "mean_n": F.avg("n"),
    }


def in_order(column: str, read: Sequence[str] = READ) -> Column:
    rows = F.array_sort(F.collect_list(F.struct("ts", *read)))
    return F.transform(F.filter(rows, lambda row: row[column].isNotNull()), lambda row: row[column])


def grouped(frame: DataFrame, window: W.Window, *keys: str) -> Any:
    if isinstance(window, W.SessionWindow):
        return frame.groupBy(F.session_window("ts", f"{window.gap} microseconds").alias("window"), *keys)
    assert isinstance(window, W.TimeWindow)
    size, slide, offset = (f"{length} microseconds" for length in (window.size, window.slide, window.offset))
    return frame.groupBy(F.window("ts", size, slide, offset), *keys)


def judge(frame: DataFrame, window: W.Window, *keys: str) -> DataFrame:
    sets = frame.isStreaming or isinstance(window, W.SessionWindow)
    cells = [expression.alias(name) for name, expression in sparks(sets).items()]
    judged: DataFrame = grouped(frame, window, *keys).agg(*cells)
    return judged


def random_rows(rng: np.random.Generator, count: int, first: int, last: int, keys: int = 5) -> pa.Table:
    """Seconds `[first, last)` in quarters. Few different values, so that they repeat, and all awkward ones."""

    def some(values: Sequence[Any], nulls: float = 0.1) -> list[Any]:
        return [None if rng.random() < nulls else values[int(i)] for i in rng.integers(0, len(values), count)]

    special = [0.0, -0.0, float("nan"), float("inf"), 1e100, -1e100]
    return pa.table(
        {
            "ts": pa.array(some([t * 250_000 for t in range(first * 4, last * 4)], 0.02), pa.int64()).cast(
                pa.timestamp("us", tz="UTC")
            ),
            "k": pa.array(some([f"key-{k}" for k in range(keys)], 0.05), pa.string()),
            "n": pa.array(some(range(-5, 10)), pa.int32()),
            "x": pa.array(some([*special, *(quarter / 4 for quarter in range(-12, 13))]), pa.float64()),
            "price": pa.array(
                some([Decimal(cents).scaleb(-2) for cents in range(-500, 500, 77)]), pa.decimal128(10, 2)
            ),
            "name": pa.array(some(["a", "B", "é", "", "zz"]), pa.string()),
            "day": pa.array(some([dt.date(1969, 12, 30) + dt.timedelta(days) for days in range(4)]), pa.date32()),
        }
    )


def check(ours: Sequence[Row], judged: Sequence[Row], *keys: str, only: str) -> None:
    found, expected = keyed(ours, *keys, only=only), keyed(judged, *keys)
    assert expected, "the example closes no window and shows nothing"
    assert_same(found, expected)
    for place, values in expected.items():
        top = [(each["item"], each["count"]) for each in found[place]["top"]]
        assert top == most_frequent(values["all_names"], 3)


def most_frequent(values: Iterable[str], k: int) -> list[tuple[str, int]]:
    return sorted(Counter(values).items(), key=lambda each: (-each[1], each[0].encode()))[:k]


@pytest.mark.parametrize("keys", [(), ("k",), ("k", "n", "name")])
def test_holistic_aggregates_on_a_table(spark: SparkSession, keys: tuple[str, ...]) -> None:
    frame = spark.createDataFrame(random_rows(np.random.default_rng(len(keys)), 600, -20, 40)).repartition(3).cache()
    windows = [
        W.sliding("10 seconds", "3 seconds", offset="1 second", name="sliding"),
        W.session("500 milliseconds", name="session"),
    ]
    ours = muntin.over(frame, *windows, time="ts", by=keys).agg(**OURS).to_df().collect()
    for window in windows:
        check(ours, judge(frame, window, *keys).collect(), *keys, only=window.title)


def test_holistic_aggregates_of_every_type(spark: SparkSession) -> None:
    names = {kind: f"c{index}" for index, kind in enumerate(VALUES)}
    rows = [(i, *(values[i * i % len(values)] for values in VALUES.values())) for i in range(40)]
    schema = ", ".join(f"{name} {kind}" for kind, name in names.items())
    frame = spark.createDataFrame(rows, f"i int, {schema}").withColumn("ts", F.timestamp_seconds(F.col("i") % 11))
    ours: dict[str, A.Aggregate] = {}
    judges: list[Column] = []
    for name in names.values():
        ours |= {f"{name}_mode": A.mode(name), f"{name}_count": A.count_distinct(name), f"{name}_all": A.collect(name)}
        judges += [F.mode(name, True).alias(f"{name}_mode"), F.count_distinct(name).alias(f"{name}_count")]
        judges.append(in_order(name, read=["i", name]).alias(f"{name}_all"))
    query = muntin.over(frame, W.sliding("4 seconds", "2 seconds"), time="ts").agg(first=A.collect("i"), **ours)
    result = query.to_df()
    for kind, name in names.items():
        assert result.schema[f"{name}_mode"].dataType == frame.schema[name].dataType, kind
    judged = frame.groupBy(F.window("ts", "4 seconds", "2 seconds")).agg(*judges)
    assert_same(keyed(result.collect()), keyed(judged.collect()))


def test_quantiles_beside_infinities(spark: SparkSession) -> None:
    """Between minus infinity and a number Spark 4.1 says minus infinity, and 4.3 NaN; all else is as in both."""
    inf, nan = float("inf"), float("nan")
    values = {
        "a": [-inf, 1.0],
        "b": [1.0, inf],
        "c": [-inf, inf],
        "d": [-inf, -inf],
        "e": [inf, nan],
        "f": [-inf] * 3 + [5.0],
    }
    rows = [(key, value) for key, of_key in values.items() for value in of_key]
    frame = spark.createDataFrame(rows, "k string, x double").withColumn("ts", F.timestamp_seconds(F.lit(1)))
    query = muntin.over(frame, W.tumbling("5 seconds"), time="ts", by="k").agg(
        mid=A.median("x"), tails=A.quantile("x", [0, 0.25, 1])
    )
    expected = {
        "a": {"mid": -inf, "tails": [-inf, -inf, 1.0]},
        "b": {"mid": inf, "tails": [1.0, inf, inf]},
        "c": {"mid": nan, "tails": [-inf, nan, inf]},
        "d": {"mid": -inf, "tails": [-inf, -inf, -inf]},
        "e": {"mid": nan, "tails": [inf, nan, nan]},
        "f": {"mid": -inf, "tails": [-inf, -inf, 5.0]},
    }
    found = keyed(query.to_df().collect(), "k")
    assert_same({place[-1:]: values for place, values in found.items()}, {(key,): v for key, v in expected.items()})


def test_holistic_aggregates_on_a_stream_with_a_restart(spark: SparkSession, here: Path) -> None:
    """Out of order, with rows that are late for some windows or for all of them."""
    rng = np.random.default_rng(5)
    parts = [
        [random_rows(rng, 150, 0, 15), random_rows(rng, 150, 5, 30)],
        [pa.concat_tables([random_rows(rng, 40, 0, 25), random_rows(rng, 100, 25, 45)]), random_rows(rng, 100, 38, 70)],
    ]
    windows = [
        W.sliding("10 seconds", "3 seconds", offset="1 second", name="sliding"),
        W.session("500 milliseconds", name="session"),
    ]
    feed = Feed(spark, here / "in", SCHEMA)
    for part in parts:
        feed.add(*part)
        query = muntin.over(feed.stream(), *windows, time="ts", watermark="5 seconds", by="k").agg(**OURS).to_df()
        handle = run(query, here / "ours")
        judges = [judge(feed.stream().withWatermark("ts", "5 seconds"), window, "k") for window in windows]
        for window, frame in zip(windows, judges, strict=True):
            run(frame, here / window.title)
    assert muntin.progress(handle).late_rows > 0
    ours = results(spark, query, here / "ours")
    for window, frame in zip(windows, judges, strict=True):
        check(ours, results(spark, frame, here / window.title), "k", only=window.title)


Function = Callable[[Any], Any]
Place = tuple[Any, ...]
TAGS = "tag string, place long, tuples long, total long, latest timestamp"
MODELS: list[W.Window] = [
    W.tumbling("5 seconds", name="tumbling"),
    W.sliding("8 seconds", "2 seconds", name="sliding"),
    W.session("750 milliseconds", name="session"),
    W.count(4, 2, name="count"),
]


def by_tag(form: str) -> Function:
    """A row for each name in a window of two tuples or more: where it comes first, how often, the total, the latest.

    The functions are made here, so that Spark sends them as they are and its workers need not import the tests.
    """

    def of_arrow(tuples: pa.Table) -> pa.Table:
        assert isinstance(tuples, pa.Table)
        assert tuples.column_names == ["ts", "k", "n", "name"]
        numbered = tuples.append_column("place", pa.array(range(tuples.num_rows), pa.int64()))
        cells = [("place", "min"), ("place", "count"), ("n", "sum"), ("ts", "max")]
        found = numbered.group_by("name", use_threads=False).aggregate(cells)
        names = ["name", "place_min", "place_count", "n_sum", "ts_max"]
        table = found.select(names).rename_columns(["tag", "place", "tuples", "total", "latest"])
        return table if tuples.num_rows > 1 else table.slice(0, 0)

    def of_pandas(tuples: pd.DataFrame) -> pd.DataFrame:
        assert isinstance(tuples, pd.DataFrame)
        assert list(tuples) == ["ts", "k", "n", "name"]
        found = [
            {
                "latest": group["ts"].max(),  # the columns may come in any order
                "tag": None if pd.isna(tag) else tag,
                "place": int(group.index[0]),
                "tuples": len(group),
                "total": group["n"].sum(min_count=1),
            }
            for tag, group in tuples.groupby("name", dropna=False)
            if len(tuples) > 1
        ]
        return pd.DataFrame(found, columns=["latest", "tag", "place", "tuples", "total"])

    return of_arrow if form == "arrow" else of_pandas


def contents(frame: DataFrame, window: W.Window) -> dict[Place, list[Row]]:
    """What each window of a key holds, in order; the windows by Spark, those of a count by their definition."""
    rows = F.array_sort(F.collect_list(F.struct("ts", "n", "name"))).alias("rows")
    if not isinstance(window, W.CountWindow):
        judged = grouped(frame, window, "k").agg(rows).collect()
        return {(window.title, row.window.start, row.window.end, row.k): row.rows for row in judged}
    found: dict[Place, list[Row]] = {}
    for key, tuples in frame.where("ts IS NOT NULL").groupBy("k").agg(rows).collect():
        for begin in range(0, len(tuples) - window.size + 1, window.slide):
            found[window.title, begin // window.slide, key] = tuples[begin : begin + window.size]
    return found


def tagged(frame: DataFrame, windows: Sequence[W.Window]) -> dict[Place, tuple[Any, ...]]:
    """What the functions have to say."""
    expected = {}
    for window in windows:
        for place, rows in contents(frame, window).items():
            for tag in {row.name for row in rows} if len(rows) > 1 else ():
                own = [row for row in rows if row.name == tag]
                known = [row.n for row in own if row.n is not None]
                first = next(index for index, row in enumerate(rows) if row.name == tag)
                expected[(*place, tag)] = first, len(own), sum(known) if known else None, max(row.ts for row in own)
    return expected


def by_place(rows: Iterable[Row]) -> dict[Place, tuple[Any, ...]]:
    found = {}
    for row in rows:
        window = (row.window_id,) if row.window_name == "count" else tuple(row.window)
        place = (row.window_name, *window, row.k, row.tag)
        assert place not in found, f"{place} came twice"
        found[place] = row.place, row.tuples, row.total, row.latest
    return found


def test_a_function_of_whole_windows(spark: SparkSession, here: Path) -> None:
    """As an Arrow function and as a pandas function: of a table, and of a stream of the same rows.

    The stream begins with the one and goes on with the other; its last batch closes every window before it.
    """
    rng = np.random.default_rng(3)
    feed = Feed(spark, here / "in", SCHEMA)
    end = random_rows(rng, 3, 1000, 1001).set_column(1, "k", pa.array(["end"] * 3))
    parts = {
        "arrow": [random_rows(rng, 80, 0, 10), random_rows(rng, 80, 5, 20)],
        "pandas": [random_rows(rng, 80, 16, 30), end],
    }

    def applied(frame: DataFrame, form: str) -> DataFrame:
        query = muntin.over(frame, *MODELS, time="ts", watermark="15 seconds", by="k")
        return query.apply(by_tag(form), TAGS, columns=["ts", "k", "n", "name"]).to_df()

    results_before = 0
    for form, part in parts.items():
        feed.add(*part)
        stream = applied(feed.stream(), form)
        progress = muntin.progress(run(stream, here / "ours"))
        assert progress.results > results_before, "each of the functions has something to say"
        results_before = progress.results
    expected = tagged(feed.table(), MODELS)
    assert {place[0] for place in expected} == {window.title for window in MODELS}, "some show nothing"
    for form in parts:
        assert by_place(applied(feed.table(), form).collect()) == expected
    rows = results(spark, stream, here / "ours")
    assert by_place(rows) == {place: values for place, values in expected.items() if place[-2] != "end"}
    assert (progress.late_rows, progress.results) == (0, len(rows))


def test_what_a_function_gets_and_returns(spark: SparkSession) -> None:
    """All columns if none are named; nested values; a Spark schema; no rows at all; no key."""
    frame = spark.createDataFrame(random_rows(np.random.default_rng(4), 50, 0, 20))
    query = muntin.over(frame, W.tumbling("10 seconds"), time="ts")

    def whole(tuples: pa.Table) -> pa.Table:
        pairs = tuples.select(["x", "price"])
        rows = pa.array([pairs.to_pylist()], pa.list_(pa.struct(pairs.schema)))
        return pa.table({"rows": rows, "read": [tuples.column_names]})

    def nothing(tuples: pa.Table) -> pa.Table:
        return tuples.select(["n"]).slice(0, 0)

    result = query.apply(whole, "read array<string>, rows array<struct<x: double, price: decimal(10,2)>>").to_df()
    assert result.columns == ["window", "window_id", "read", "rows", "window_time"]
    found = {row.window: row for row in result.collect()}
    assert found.keys() == {
        window for (window,) in frame.groupBy(F.window("ts", "10 seconds")).count().select("window").collect()
    }
    assert all(row.read == frame.columns for row in found.values())
    judged = frame.groupBy(F.window("ts", "10 seconds")).agg(
        F.sort_array(F.collect_list(F.struct("x", "price"))).alias("rows")
    )
    for row in judged.collect():
        assert sorted(map(repr, found[row.window].rows)) == sorted(map(repr, row.rows))
    none = query.apply(nothing, frame.select("n").schema).to_df()
    assert (none.columns, none.collect()) == (["window", "window_id", "n", "window_time"], [])
