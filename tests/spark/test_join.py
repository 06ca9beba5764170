"""Joins: the pairs of Spark's own equality join with a window on both sides, on tables and on streams.

Aggregates are held against Spark's, over its joined rows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
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
from tests.spark.streams import Feed, assert_same, keyed, results, run

SECOND = 1_000_000
LEFT_SCHEMA = "ts timestamp, k string, f double, n long, name string"
RIGHT_SCHEMA = "at timestamp, k string, f double, n int, tag string"
NUMBERS = {False: pa.int64(), True: pa.int32()}


def table(times: Sequence[int | None], keys: Sequence[str | None], right: bool = False, **others: Any) -> pa.Table:
    """A side with these times, in microseconds, and keys; what is not given is made of their places."""
    places = range(len(times))
    columns = {
        "at" if right else "ts": pa.array(times, pa.int64()).cast(pa.timestamp("us", tz="UTC")),
        "k": pa.array(keys, pa.string()),
        "f": pa.array(others.get("f", [0.5] * len(times)), pa.float64()),
        "n": pa.array(others.get("n", [None if i % 5 == 4 else i for i in places]), NUMBERS[right]),
        "tag" if right else "name": pa.array([None if i % 7 == 6 else "abc"[i % 3] for i in places], pa.string()),
    }
    return pa.table(columns)


def made_up(seed: int, rows: int, first: int, last: int, right: bool = False) -> pa.Table:
    """Rows in any order, some at the same time, some without a time or a key."""
    random = np.random.default_rng(seed)
    times: list[int | None] = (random.integers(first, last, rows) * (SECOND // 2)).tolist()
    keys: list[str | None] = [f"k{i}" for i in random.integers(0, 6, rows)]
    floats: list[float | None] = random.choice([0.0, -0.0, math.nan, 1.5], rows).tolist()
    for i in range(0, rows, 11):
        keys[i] = None
        floats[i - 3] = None
        times[i - 5] = None
    return table(times, keys, right, f=floats)


@pytest.fixture
def tables(spark: SparkSession, here: Path) -> tuple[DataFrame, DataFrame]:
    # Times before 1970, too: a table has no watermark that would call them late.
    left, right = feeds(spark, here)
    left.add(made_up(1, 150, -60, 60), made_up(2, 10, 60, 300))
    right.add(made_up(3, 120, -50, 70, right=True))
    return left.table(), right.table()


def feeds(spark: SparkSession, here: Path) -> tuple[Feed, Feed]:
    return Feed(spark, here / "left", LEFT_SCHEMA), Feed(spark, here / "right", RIGHT_SCHEMA)


NAMES = ("left_f", "left_n", "name", "right_f", "right_n", "tag")


def sparks(
    left: DataFrame, right: DataFrame, on: Sequence[str], size: str, slide: str, offset: str = "0 seconds"
) -> DataFrame:
    """Spark's own join: every row once per window, then equality of window and keys."""
    shared = [name for name in ("f", "n", "k") if name not in on]
    one, two = _windowed(left, "ts", size, slide, offset), _windowed(right, "at", size, slide, offset)
    for name in shared:
        one, two = one.withColumnRenamed(name, f"left_{name}"), two.withColumnRenamed(name, f"right_{name}")
    return one.join(two, ["window", *on])


def _windowed(frame: DataFrame, time: str, size: str, slide: str, offset: str) -> DataFrame:
    if not W.sliding(size, slide).has_gaps:
        return frame.withColumn("window", F.window(time, size, slide, offset))
    # Spark has no windows with gaps; each is the beginning of a longer one.
    start = F.window(time, slide, slide, offset)["start"]
    ends = frame.withColumn("window", F.struct(start.alias("start"), (start + F.expr(f"INTERVAL {size}")).alias("end")))
    return ends.where(F.col(time) < F.col("window.end"))


def compared(rows: Iterable[Row], names: Sequence[str]) -> Counter[str]:
    return Counter(repr([_plain(row[name]) for name in ("window", *names)]) for row in rows)


def _plain(value: Any) -> Any:
    return 0.0 if value == 0.0 and isinstance(value, float) else value


CASES = [
    (["k"], "10 seconds", "10 seconds", "0 seconds"),
    (["k", "f"], "7 seconds", "3 seconds", "1 second"),
    (["f"], "2 seconds", "5 seconds", "0 seconds"),
]
"""One after the other, overlapping with a size that is no multiple of the slide, and with gaps."""


MUNTINS = ("window", "window_id", "window_time")
"""The columns that only Muntin has."""


@pytest.mark.parametrize(("on", "size", "slide", "offset"), CASES)
def test_the_rows_of_tables_are_sparks(
    tables: tuple[DataFrame, DataFrame], on: list[str], size: str, slide: str, offset: str
) -> None:
    left, right = tables
    window = W.sliding(size, slide, offset=offset)
    ours = muntin.join(left, right, window, on=on, time=("ts", "at")).rows().to_df()
    names = [name for name in ours.columns if name not in MUNTINS]
    assert ours.columns[:2] == ["window", "window_id"]
    assert names[: len(on)] == on
    theirs = sparks(left, right, on, size, slide, offset)
    found = compared(ours.collect(), names)
    assert found == compared(theirs.collect(), names)
    assert sum(found.values()) > 50
    kinds = {field.name: field.dataType for field in theirs.schema}
    assert all(field.dataType == kinds[field.name] for field in ours.schema if field.name not in MUNTINS)


def test_cumulative_windows_and_chosen_columns(tables: tuple[DataFrame, DataFrame]) -> None:
    left, right = tables
    window = W.cumulative("20 seconds", "5 seconds")
    ours = muntin.join(left, right, window, on="k", time=("ts", "at")).rows(columns=["tag", "ts"])
    assert ours.columns == ["window", "window_id", "k", "tag", "ts", "window_time"]
    # The pairs of the last step of each are those of a tumbling window.
    last = ours.where("window_id % 4 = 3 OR window_id % 4 = -1").withColumn("window", F.window("ts", "20 seconds"))
    theirs = sparks(left, right, ["k"], "20 seconds", "20 seconds")
    assert compared(last.collect(), ["k", "tag", "ts"]) == compared(theirs.collect(), ["k", "tag", "ts"])


def test_small_and_empty_sides(spark: SparkSession, here: Path) -> None:
    left, right = feeds(spark, here)
    left.add(table([SECOND], ["a"]))
    right.add(table([2 * SECOND], ["a"], right=True))

    def counted(one: DataFrame, two: DataFrame) -> int:
        return int(muntin.join(one, two, W.tumbling("10 seconds"), on="k", time=("ts", "at")).rows().count())

    assert counted(left.table(), right.table()) == 1
    assert counted(left.table().where("false"), right.table()) == 0
    assert counted(left.table().where("false"), right.table().where("false")) == 0
    # A side may be joined with itself.
    both = muntin.join(left.table(), left.table(), W.tumbling("10 seconds"), on="k", time="ts").rows()
    sides = [f"{side}_{name}" for side in ("left", "right") for name in ("ts", "f", "n", "name")]
    assert both.columns == ["window", "window_id", "k", *sides, "window_time"]
    assert [(row.left_name, row.right_name) for row in both.collect()] == [("a", "a")]


# Aggregates

Named = dict[str, tuple[A.Aggregate, str]]
"""Aggregates, and what they are in SQL."""
MULTIPLIED: Named = {
    "pairs": (A.count(), "count(*)"),
    "some": (A.count("left_n"), "count(left_n)"),
    "total": (A.sum("left_n"), "sum(left_n)"),
    "other": (A.sum("right_n"), "sum(right_n)"),
    "floats": (A.sum("left_f"), "sum(left_f)"),
    "mean": (A.mean("right_n"), "avg(right_n)"),
    "low": (A.min("name"), "min(name)"),
    "high": (A.max("at"), "max(at)"),
    "spread": (A.var_samp("left_n"), "var_samp(left_n)"),
    "deviation": (A.stddev_samp("right_n"), "stddev_samp(right_n)"),
    "population": (A.stddev_pop("left_n"), "stddev_pop(left_n)"),
    "names": (A.count_distinct("name"), "count(DISTINCT name)"),
    "common": (A.mode("tag"), "mode(tag, true)"),
    "middle": (A.median("left_n"), "median(left_n)"),
    "tails": (A.quantile("right_n", [0.1, 0.9]), "percentile(right_n, array(0.1, 0.9))"),
    "of_left": (A.sum("left_n", where="left_n > 10"), "sum(left_n) FILTER (WHERE left_n > 10)"),
    "of_right": (A.sum("left_n", where="tag = 'a'"), "sum(left_n) FILTER (WHERE tag = 'a')"),
    "of_key": (A.count(where="k = 'k1'"), "count_if(k = 'k1')"),
    "none": (A.mean("left_n", where="false"), "avg(CAST(NULL AS bigint))"),
}
PAIRED: Named = {
    **MULTIPLIED,
    "of_both": (A.count(where="left_n > right_n"), "count_if(left_n > right_n)"),
    "all": (A.collect("name"), "collect_list(name)"),
}


def aggregated(joined: DataFrame, on: Sequence[str], named: Named) -> DataFrame:
    return joined.groupBy("window", *on).agg(*(F.expr(sql).alias(name) for name, (_, sql) in named.items()))


def in_order(found: dict[Any, dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    """Lists in one order: equal times are in the order of columns that Spark's list does not have."""
    return {
        key: {name: sorted(value) if name == "all" else value for name, value in values.items()}
        for key, values in found.items()
    }


@pytest.mark.parametrize("named", [MULTIPLIED, PAIRED], ids=["multiplied", "over pairs"])
def test_aggregates_over_tables_are_sparks(
    tables: tuple[DataFrame, DataFrame],
    named: Named,
    capsys: pytest.CaptureFixture[str],
) -> None:
    left, right = tables
    join = muntin.join(left, right, W.sliding("9 seconds", "4 seconds"), on="k", time=("ts", "at"))
    query = join.agg(**{name: aggregate for name, (aggregate, _) in named.items()})
    ours = query.to_df()
    theirs = aggregated(sparks(left, right, ["k"], "9 seconds", "4 seconds"), ["k"], named)
    assert_same(in_order(keyed(ours.collect(), "k")), in_order(keyed(theirs.collect(), "k")))
    kinds = {field.name: field.dataType.simpleString() for field in theirs.schema}
    assert {f.name: f.dataType.simpleString() for f in ours.schema if f.name in kinds} == kinds
    query.explain()
    told = capsys.readouterr().out
    assert "join of two tables on 'k', within sliding(9 seconds, 4 seconds)" in told
    assert "Panes of 1 second" in told
    if named is MULTIPLIED:
        assert "Pairs: not made" in told
        assert "total: multiplied; that of one side, times the number of partners (left)" in told
    else:
        assert "of_both: over the pairs, because its condition needs both sides" in told
        assert "all: over the pairs, because it lists a value for every pair" in told
        assert "pairs: over the pairs, since they are made anyway" in told


def test_times_of_pairs(spark: SparkSession, here: Path) -> None:
    left, right = feeds(spark, here)
    left.add(table([1 * SECOND, 5 * SECOND], ["a", "a"], n=[10, 20]))
    right.add(table([3 * SECOND, 4 * SECOND], ["a", "a"], right=True, n=[1, 2]))
    join = muntin.join(left.table(), right.table(), W.tumbling("10 seconds"), on="k", time=("ts", "at"))
    # The pairs by their times: (10, 1) at 3, (10, 2) at 4, (20, 1) and (20, 2) at 5.
    (row,) = join.agg(first=A.first("right_n"), last=A.last("right_n"), when=A.argmax("left_n")).to_df().collect()
    assert (row["first"], row["last"], row["when"].timestamp()) == (1, 2, 5.0)
    (row,) = (
        join.agg(both=A.argmax("right_n", "left_n"), top=A.top_k("left_n", 1), most=A.max_count("left_n"))
        .to_df()
        .collect()
    )
    assert row["both"] == 1
    assert [tuple(each) for each in row["top"]] == [(10, 2)]
    assert row["most"] == 2


def test_a_condition_may_be_a_column_of_a_side(spark: SparkSession, here: Path) -> None:
    left, right = feeds(spark, here)
    left.add(table([SECOND, SECOND], ["a", "a"], n=[10, 20]))
    right.add(table([SECOND, SECOND], ["a", "a"], right=True, n=[1, 2]))
    one, two = left.table(), right.table()
    join = muntin.join(one, two, W.tumbling("10 seconds"), on="k", time=("ts", "at"))
    query = join.agg(a=A.count(where=one["name"] == "b"), b=A.sum("left_n", where=two["tag"] == "a"))
    assert [(row["a"], row["b"]) for row in query.to_df().collect()] == [(2, 30)]


def test_a_product_that_overflows_is_the_error_of_a_sum(spark: SparkSession, here: Path) -> None:
    left, right = feeds(spark, here)
    left.add(table([SECOND], ["a"], n=[1 << 62]))
    right.add(table([SECOND, SECOND], ["a", "a"], right=True))
    join = muntin.join(left.table(), right.table(), W.tumbling("10 seconds"), on="k", time=("ts", "at"))
    for query in (join.agg(s=A.sum("left_n")), join.agg(s=A.sum("left_n"), all=A.collect("name"))):
        with pytest.raises(Exception, match="sum of column 'left_n' overflows a 64-bit integer"):
            query.to_df().collect()


# Streams


def stream_batches(left: Feed, right: Feed, part: int) -> None:
    """Out of order; the right side lags behind, some rows are late, and at the end all windows close."""
    if part == 0:
        left.add(made_up(11, 40, 0, 60), made_up(12, 40, 20, 120))
        right.add(made_up(21, 40, 0, 30, right=True), made_up(22, 40, 0, 70, right=True))
    else:
        left.add(made_up(14, 60, 60, 180), made_up(16, 12, 0, 20), table([500 * SECOND], ["nobody's"]))
        right.add(made_up(23, 60, 60, 170, right=True), made_up(25, 12, 0, 20, right=True))
        right.add(table([500 * SECOND], ["nobody else's"], right=True))


DELAYS = ("10 seconds", "15 seconds")
SLIDING = W.sliding("12 seconds", "5 seconds")


def stream_join(left: Feed, right: Feed) -> muntin.Join:
    return muntin.join(left.stream(), right.stream(), SLIDING, on="k", time=("ts", "at"), watermark=DELAYS)


def spark_rows(left: DataFrame, right: DataFrame) -> DataFrame:
    if left.isStreaming:
        left, right = left.withWatermark("ts", DELAYS[0]), right.withWatermark("at", DELAYS[1])
    # A stream of Spark's must not have two times with a watermark: the windows have it.
    return sparks(left, right, ["k"], "12 seconds", "5 seconds").drop("ts", "at")


def test_streams_are_as_sparks_across_a_restart(spark: SparkSession, here: Path) -> None:
    left, right = feeds(spark, here)
    for part in (0, 1):
        stream_batches(left, right, part)
        rows = stream_join(left, right).compress(after="5 seconds").rows().to_df()
        theirs = spark_rows(left.stream(), right.stream())
        handle = run(rows, here / "ours")
        run(theirs, here / "spark")
    # Spark tells pairs at once; ours come when their window closes, and at the end all have.
    pairs = results(spark, rows, here / "ours")
    found = compared(pairs, ("k", *NAMES))
    assert found == compared(results(spark, theirs, here / "spark"), ("k", *NAMES))
    everything = spark_rows(left.table(), right.table()).count()
    assert 200 < sum(found.values()) < everything, "some rows are late"
    progress = muntin.progress(handle)
    assert progress.results == sum(found.values())
    assert progress.late_rows > 0
    assert progress.invalid_rows > 0

    joined = spark.createDataFrame(pairs, rows.schema)
    named = {**MULTIPLIED, **PAIRED}  # all over the pairs, then; tables have those that are multiplied
    ours = stream_join(left, right).agg(**{name: each for name, (each, _) in named.items()}).late("emit").to_df()
    run(ours, here / "aggregates")
    told = results(spark, ours, here / "aggregates")
    windows = keyed([row for row in told if row["window"] is not None], "k")
    assert_same(in_order(windows), in_order(keyed(aggregated(joined, ["k"], named).collect(), "k")))
    check_late([row.late for row in told if row["window"] is None])


def check_late(late: Sequence[Row]) -> None:
    """Whole rows, as they came, of both sides."""
    assert {row.left is None for row in late} == {True, False}
    assert all((row.left is None) != (row.right is None) for row in late)
    some = next(row.right for row in late if row.right is not None)
    assert list(some.asDict()) == ["at", "k", "f", "n", "tag"]
    assert some["at"].timestamp() < 10


def test_a_side_that_has_not_come_yet_holds_the_windows_open(spark: SparkSession, here: Path) -> None:
    left, right = feeds(spark, here)
    left.add(table([SECOND], ["a"]), table([100 * SECOND], ["a"]), table([200 * SECOND], ["a"]))

    def counted() -> DataFrame:
        window = W.tumbling("10 seconds")
        join = muntin.join(left.stream(), right.stream(), window, on="k", time=("ts", "at"), watermark="1 second")
        return join.agg(n=A.count()).to_df()

    run(counted(), here / "ours")
    left.add(table([300 * SECOND], ["b"]))  # after a restart, Spark's watermark waits for both sides
    right.add(table([2 * SECOND, 3 * SECOND], ["a", "a"], right=True), table([300 * SECOND], ["b"], right=True))
    built = counted()
    handle = run(built, here / "ours")
    assert [(row.window.start.timestamp(), row.n) for row in results(spark, built, here / "ours")] == [(0.0, 2)]
    assert muntin.progress(handle).late_rows == 0


# Bad input

TEN = W.tumbling("10 seconds")
Mistake = Callable[[DataFrame, DataFrame], Any]


def join(left: DataFrame, right: DataFrame, window: W.Window = TEN, **others: Any) -> muntin.Join:
    return muntin.join(left, right, window, **{"on": "k", "time": ("ts", "at"), **others})


MISTAKES: dict[str, tuple[Mistake, str]] = {
    "no key": (lambda a, b: join(a, b, on=[]), "on is empty; name at least one column that both sides have"),
    "no on": (lambda a, b: muntin.join(a, b, TEN, time=("ts", "at")), "on is empty; name at least one column"),
    "on that is none": (lambda a, b: join(a, b, on=None), "on must be a column or a list of columns, got None"),
    "no time": (
        lambda a, b: muntin.join(a, b, TEN, on="k"),
        "time is missing; name the time column",
    ),
    "a key that left lacks": (lambda a, b: join(a, b, on="tag"), "on column 'tag' is not in left"),
    "a key that right lacks": (lambda a, b: join(a, b, on=["k", "name"]), "on column 'name' is not in right"),
    "a key twice": (lambda a, b: join(a, b, on=["k", "k"]), "on names the column 'k' twice"),
    "a number as a key": (lambda a, b: join(a, b, on=[3]), "on column must be the name of a column.*got 3"),
    "keys of two types": (lambda a, b: join(a, b, on="n"), "'n' is of type bigint on the left and int on the right"),
    "a key of a result's name": (
        lambda a, b: join(a.withColumn("late", a.k), b.withColumn("late", b.k), on="late"),
        "on column 'late' has the name of a column that Muntin adds to results",
    ),
    "an array as a key": (
        lambda a, b: join(a.withColumn("l", F.array("k")), b.withColumn("l", F.array("k")), on="l"),
        "on column 'l' is of type array<.*cannot be a key",
    ),
    "time that right lacks": (lambda a, b: join(a, b, time="ts"), "time column 'ts' is not in right.*'at'"),
    "time that left lacks": (lambda a, b: join(a, b, time=("at", "at")), "time column 'at' is not in left"),
    "three times": (lambda a, b: join(a, b, time=("ts", "at", "at")), r"time must be one.*or a pair \(left, right\)"),
    "no timestamp": (
        lambda a, b: join(a, b, time=("n", "at")),
        "time column 'n' of left is of type bigint, not a time",
    ),
    "times of two types": (
        lambda a, b: join(a, b.withColumn("at", b["at"].cast("timestamp_ntz"))),
        "time is of type timestamp on the left and timestamp_ntz on the right",
    ),
    "no window": (lambda a, b: join(a, b, "10 seconds"), "'10 seconds' is not a window"),  # type: ignore[arg-type]
    "sessions": (lambda a, b: join(a, b, W.session("10 seconds")), r"window is session\(10 seconds\).*depend on the"),
    "a count": (lambda a, b: join(a, b, W.count(10)), r"window is count\(10\).*use W.tumbling, W.sliding or W.cumul"),
    "a bad watermark": (lambda a, b: join(a, b, watermark="-1 day"), "watermark must not be less than zero"),
    "no frame": (lambda a, b: join(a, [1]), "right must be a Spark DataFrame.*got list"),  # type: ignore[arg-type]
    "an unknown column": (lambda a, b: join(a, b).agg(s=A.sum("nam")), "s's column 'nam' is not in the joined.*'name'"),
    "a column of both sides": (
        lambda a, b: join(a, b).agg(s=A.sum("n")),
        "s's column 'n' is not in the joined rows. Both sides have it: give 'left_n' or 'right_n'",
    ),
    "a sum of a string": (lambda a, b: join(a, b).agg(s=A.sum("name")), "s: sum needs a number"),
    "no aggregate": (lambda a, b: join(a, b).agg(s=F.count("k")), "s=.*is not an aggregate"),  # type: ignore[arg-type]
    "no aggregates": (lambda a, b: join(a, b).agg(), r"agg\(\) got nothing to compute"),
    "the name of a key": (lambda a, b: join(a, b).agg(k=A.count()), "'k' is a key column already"),
    "a reserved name": (
        lambda a, b: join(a, b).agg(window=A.count()),
        "'window' is a column that Muntin adds",
    ),
    "a name twice": (lambda a, b: join(a, b).agg(n=A.count()).agg(n=A.count()), "There is an aggregate 'n' already"),
    "an unknown condition": (
        lambda a, b: join(a, b).agg(s=A.count(where="n > 1")),
        "s: where='n > 1' is not a condition over these columns.*names that .rows\\(\\) gives",
    ),
    "no condition": (lambda a, b: join(a, b).agg(s=A.count(where="left_n")), "s: where='left_n' is of type bigint"),
    "nothing to compute": (lambda a, b: join(a, b).to_df(), r"The join computes nothing yet; call .agg"),
    "rows after aggregates": (lambda a, b: join(a, b).agg(n=A.count()).rows(), "use .agg\\(\\) or .rows\\(\\)"),
    "an unknown column of rows": (lambda a, b: join(a, b).rows(columns=["n"]), "column 'n' is not in the joined rows"),
    "a column of rows twice": (lambda a, b: join(a, b).rows(columns=["tag", "tag"]), "columns names 'tag' twice"),
    "a string of columns": (lambda a, b: join(a, b).rows(columns="tag"), r"columns must be a list.*\['tag'\]"),
    "a column of a result's name": (
        lambda a, b: join(a.withColumn("window", a.n), b).rows(),
        "column 'window' has the name of a column that Muntin adds to results; rename it first, or leave it out",
    ),
    "names that collide": (
        lambda a, b: join(a.withColumn("right_n", a.n), b),
        "right's column 'n' is called 'right_n' in the joined rows, and so is left's column 'right_n'",
    ),
    "a column that cannot be read": (
        lambda a, b: join(a.withColumn("v", F.parse_json(F.lit("1"))), b).rows(),
        "column 'v' cannot be used: variant",
    ),
    "compressed panes": (
        lambda a, b: join(a, b).agg(n=A.count()).compress(after="1 second").to_df(),
        r"compress\(\) is for the rows that holistic aggregates and functions of windows need",
    ),
    "samples of pairs": (
        lambda a, b: join(a, b).agg(n=A.median("left_n")).approximate(100, 0.1),
        r"the pairs of two samples are not a sample of the pairs.*Use .shed\(rate=...\)",
    ),
    "samples of rows": (
        lambda a, b: join(a, b).rows().approximate(100, 0.1),
        r"approximate\(\) is not available for joins",
    ),
    "pairs of what is left": (
        lambda a, b: join(a, b).shed(rate=0.5).agg(early=A.first("name")).to_df(),
        r"early cannot be computed under shed\(\): it returns single tuples",
    ),
    "an odd policy": (lambda a, b: join(a, b).late("keep"), "late policy is 'keep'"),  # type: ignore[arg-type]
}


@pytest.fixture(scope="module")
def two_tables(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    return spark.createDataFrame([], LEFT_SCHEMA), spark.createDataFrame([], RIGHT_SCHEMA)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_told_where_they_are_made(two_tables: tuple[DataFrame, DataFrame], mistake: str) -> None:
    build, message = MISTAKES[mistake]
    with pytest.raises(MuntinError, match=message):
        build(*two_tables)


def test_mistakes_with_streams(spark: SparkSession, here: Path, two_tables: tuple[DataFrame, DataFrame]) -> None:
    left, right = feeds(spark, here)
    with pytest.raises(MuntinError, match="left is a stream and right is a table; join two streams or two tables"):
        join(left.stream(), two_tables[1], watermark="1 second")
    with pytest.raises(MuntinError, match="left is a table and right is a stream"):
        join(two_tables[0], right.stream(), watermark="1 second")
    with pytest.raises(MuntinError, match=r"watermark is missing for left.*such as watermark='10 minutes'"):
        join(left.stream(), right.stream())
    with pytest.raises(MuntinError, match="watermark is missing for right"):
        join(left.stream(), right.stream(), watermark=("1 second", None))


def test_rows_stand_for_their_frame(
    two_tables: tuple[DataFrame, DataFrame], capsys: pytest.CaptureFixture[str]
) -> None:
    rows = join(*two_tables).rows()
    assert rows.columns == rows.to_df().columns
    assert join(*two_tables).rows(columns=["tag", "k"]).columns == ["window", "window_id", "k", "tag", "window_time"]
    assert rows.isEmpty()
    assert not hasattr(rows, "nothing_of_this_name")
    assert not hasattr(rows, "_nor_this")
    rows.explain()
    told = capsys.readouterr().out
    assert (
        "Pairs: made in the worker as windows close, at most 1,048,576 at a time, because they are the result." in told
    )
    assert "with 'left_f', 'left_n', 'name', 'right_f', 'right_n', 'tag' beside key and time" in told
