"""Bad arguments fail when the query is built, and the message names the argument, the value and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

import muntin
from muntin import MuntinError
from muntin import aggregates as A
from muntin import windows as W
from muntin.spark.session import PROVIDER


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    return spark.range(3).select(
        F.timestamp_seconds("id").alias("ts"),
        F.lit("a").alias("route"),
        F.lit(1.5).alias("fare"),
        F.lit(1).cast("decimal(10,2)").alias("price"),
        F.array(F.lit(1)).alias("tags"),
        F.lit("x").alias("window"),
        F.lit("x").alias("Late"),
        F.lit("x").alias("partial"),
    )


FIVE = W.tumbling("5 seconds")
Build = Callable[[DataFrame], Any]

MISTAKES: dict[str, tuple[Build, str]] = {
    "unknown time": (lambda t: muntin.over(t, FIVE, time="tz"), "time column 'tz' is not in the data.*'ts'"),
    "unknown key": (lambda t: muntin.over(t, FIVE, time="ts", by="rout"), "by column 'rout'.*mean 'route'"),
    "unknown column": (lambda t: agg(t, n=A.sum("fair")), "'fair' is not in the data.*mean 'fare'"),
    "time of a wrong type": (lambda t: muntin.over(t, FIVE, time="route"), "'route' is of type string.*to_timestamp"),
    "sum of a string": (lambda t: agg(t, n=A.sum("route")), "n: sum needs a number, but column 'route'"),
    "min of an array": (lambda t: agg(t, n=A.min("tags")), "column 'tags' is of type array<int>"),
    "keys that are none": (lambda t: muntin.over(t, FIVE, time="ts", by=None), "by must be a column or a list of col"),  # type: ignore[arg-type]
    "array as a key": (lambda t: muntin.over(t, FIVE, time="ts", by="tags"), "'tags'.*cannot be a key"),
    "zero size": (lambda t: W.tumbling("0 seconds"), "size must be longer than zero, got '0 seconds'"),
    "negative size": (lambda t: W.sliding("-5 seconds", "1 second"), "size must be longer.*'-5 seconds'"),
    "zero slide": (lambda t: W.sliding("5 seconds", "0 seconds"), "slide must be longer than zero"),
    "a month": (lambda t: W.tumbling("1 month"), "size is '1 month'.*'30 days'"),
    "a number as a size": (lambda t: W.tumbling(5), "size must be a duration.*got 5"),  # type: ignore[call-overload]
    "nonsense": (lambda t: W.tumbling("5 parsecs"), "size is '5 parsecs'"),
    "zero gap": (lambda t: W.session("0 seconds"), "gap must be longer than zero"),
    "zero step": (lambda t: W.cumulative("5 seconds", "0 seconds"), "step must be longer than zero"),
    "a broken step": (
        lambda t: W.cumulative("10 seconds", "3 seconds"),
        "size must be a whole number of steps.*'10 seconds'.*'3 seconds'",
    ),
    "zero tuples": (lambda t: W.count(0), "size must be a whole number of tuples, at least 1 and below"),
    "fewer than no tuples": (lambda t: W.count(5, -1), "slide must be a whole number of tuples.*got -1"),
    "half a tuple": (lambda t: W.count(2.5), "size must be a whole number of tuples.*got 2.5"),  # type: ignore[arg-type]
    "true tuples": (lambda t: W.slide_by_tuple("5 seconds", True), "every must be a whole number.*got True"),
    "the last zero": (lambda t: W.slide_by_time(0, "5 seconds"), "last must be a whole number.*got 0"),
    "a time for tuples": (lambda t: W.slide_by_time("5 seconds", "5 seconds"), "last must be.*'5 seconds'"),  # type: ignore[arg-type]
    "tuples for a time": (lambda t: W.slide_by_tuple(5, 5), "size must be a duration.*got 5"),  # type: ignore[arg-type]
    "no wait": (lambda t: W.count(5, max_wait="0 seconds"), "max_wait must be longer than zero"),
    "a wait in tuples": (lambda t: W.count(5, 5, 5), "max_wait must be a duration.*got 5"),  # type: ignore[arg-type]
    "zero delta": (lambda t: W.delta("fare", 0, 1), "size must be a positive number.*an amount of 'fare', got 0"),
    "endless delta": (lambda t: W.delta("fare", 1, float("inf")), "slide must be a positive number.*got inf"),
    "delta in time": (lambda t: W.delta("fare", "1 day", 1), "size must be a positive number.*'1 day'"),  # type: ignore[arg-type]
    "delta of nothing": (lambda t: W.delta("", 1, 1), "column must be the name of a column.*got ''"),
    "unknown delta column": (lambda t: over(t, W.delta("fair", 1, 1)), "delta's column 'fair'.*mean 'fare'"),
    "delta of a string": (lambda t: over(t, W.delta("route", 1, 1)), "delta's column 'route' is of type string"),
    "delta of a decimal": (lambda t: over(t, W.delta("price", 1, 1)), "delta's column 'price'.*cast it to a double"),
    "delta of a time": (lambda t: over(t, W.delta("ts", 1, 1)), "delta's column 'ts' is of type timestamp"),
    "no name": (lambda t: W.session("5 seconds", name=""), "name must be a non-empty string, got ''"),
    "two models of a name": (
        lambda t: over(t, W.session("5 seconds", name="mine"), W.count(5, name="mine")),
        "Two windows are called 'mine'",
    ),
    "a model twice": (lambda t: over(t, W.count(5), W.count(5, 5)), r"Two windows are called 'count\(5\)'"),
    "negative watermark": (
        lambda t: muntin.over(t, FIVE, time="ts", watermark="-1 day"),
        "watermark must not be less than zero.*'-1 day'",
    ),
    "no window": (lambda t: muntin.over(t, time="ts"), "windows is empty"),
    "no window at all": (lambda t: muntin.over(t, "5 minutes", time="ts"), "'5 minutes' is not a window"),  # type: ignore[arg-type]
    "two windows of a name": (lambda t: muntin.over(t, FIVE, FIVE, time="ts"), "Two windows are called"),
    "no data": (lambda t: muntin.over([1], FIVE, time="ts"), "data must be a Spark DataFrame.*got list"),  # type: ignore[arg-type]
    "nothing to compute": (lambda t: muntin.over(t, FIVE, time="ts").to_df(), "call .agg"),
    "no name for an aggregate": (
        lambda t: keyed(t).agg(A.mean("fare")),
        r"agg\(\) got A.mean\(\"fare\"\) without a name.*agg\(n=A.mean\(\"fare\"\)\)",
    ),
    "an aggregate that was not called": (
        lambda t: agg(t, n=A.count),
        r"n=A.count is a function; call it: agg\(n=A.cou",
    ),
    "windows as a list": (lambda t: muntin.over(t, [FIVE], time="ts"), r"is a list; .*unpack.*over\(data, \*windows"),  # type: ignore[arg-type]
    "a window that was not called": (lambda t: over(t, W.tumbling), r"W.tumbling is a function; call it"),  # type: ignore[arg-type]
    "windows of a join as a list": (
        lambda t: muntin.join(t, t, [FIVE], on="route", time="ts"),  # type: ignore[arg-type]
        "a join has a single one; give it as it is, without brackets",
    ),
    "progress of a table": (lambda t: muntin.progress(t), "takes the StreamingQuery.*got a DataFrame. A table has no"),
    "progress of a query": (lambda t: muntin.progress(agg(t, n=A.count())), "takes the StreamingQuery.*got a Query"),
    "progress of nothing": (lambda t: muntin.progress(None), "takes the StreamingQuery.*got None; start.. returns it"),
    "late rows of NA": (lambda t: keyed(t).late(pd.NA), "late policy is <NA>; it can be 'drop', 'emit' or 'update'"),  # type: ignore[arg-type]
    "late rows of an array": (lambda t: keyed(t).late(np.array([1, 2])), r"late policy is array\(\[1, 2\]\)"),  # type: ignore[arg-type]
    "late rows, almost": (lambda t: keyed(t).late("Drop"), "late policy is 'Drop'.*Did you mean 'drop'"),  # type: ignore[arg-type]
    "workers of NA": (lambda t: keyed(t).parallel(pd.NA), "model is <NA>; it can be 'auto', 'keyed', 'active' or 'agn"),  # type: ignore[arg-type]
    "half a pair in a filter": (lambda t: agg(t, n=A.count(where="\ud800")), r"where is '\\ud800'.*surrogate pair"),
    "half a pair in a name": (lambda t: agg(t, **{"\ud800": A.count()}), r"a name is '\\ud800'.*surrogate pair"),
    "half a pair in a window": (lambda t: W.count(5, name="\ud800"), r"name is '\\ud800'.*surrogate pair"),
    "half a pair in a column": (lambda t: agg(t, n=A.sum("\ud800")), r"column is '\\ud800'.*surrogate pair"),
    "half a pair in a schema": (lambda t: apply(keyed(t), "\ud800 long"), "schema"),
    "half a pair in a field": (
        lambda t: apply(keyed(t), T.StructType([T.StructField("\ud800", T.LongType())])),
        r"schema's column is '\\ud800'.*surrogate pair",
    ),
    "a filter that Spark cannot parse": (
        lambda t: agg(t, n=A.count(where="fare >")),
        "where='fare >' is not a condition",
    ),
    "a function of no list": (
        lambda t: apply(keyed(t), columns=5),
        "columns must be a column or a list of columns, got 5",
    ),
    "no session": (lambda t: muntin.configure(None), "spark must be a Spark session, got NoneType.*muntin.session"),  # type: ignore[arg-type]
    "a session without a name": (lambda t: muntin.session(""), "name must be a non-empty string, got ''"),
    "true shards": (lambda t: muntin.configure(t.sparkSession, True), "shards must be a whole number from 1, got True"),
    "too many shards": (
        lambda t: muntin.configure(t.sparkSession, 2**70),
        "shards must be a whole number from 1 to 100,",
    ),
    "no aggregate": (lambda t: agg(t, n=F.count("fare")), "n=.*is not an aggregate"),
    "a reserved name": (lambda t: agg(t, window_id=A.count()), "'window_id' is a column that Muntin adds to results"),
    "a name of a key": (lambda t: agg(t, route=A.count()), "'route' is a key column already"),
    "the name of an incomplete window": (
        lambda t: agg(t, partial=A.count()),
        "'partial' is a column that Muntin adds to results",
    ),
    "a key that looks incomplete": (lambda t: muntin.over(t, FIVE, time="ts", by="partial"), "'partial' has the name"),
    "a key with a reserved name": (lambda t: muntin.over(t, FIVE, time="ts", by="window"), "'window' has the name"),
    "a key twice": (lambda t: muntin.over(t, FIVE, time="ts", by=["route", "route"]), "'route' twice"),
    "an aggregate twice": (lambda t: agg(t, n=A.count()).agg(n=A.count()), "aggregate 'n' already"),
    "a filter over an unknown column": (lambda t: agg(t, n=A.count(where="fair > 1")), "where='fair > 1'"),
    "a filter that is no condition": (lambda t: agg(t, n=A.count(where="fare + 1")), "where='fare.*true or false"),
    "a filter of another type": (lambda t: agg(t, n=A.count(where=7)), "where must be a SQL condition.*got 7"),
    "a late policy": (lambda t: agg(t, n=A.count()).late("keep"), "late policy is 'keep'"),  # type: ignore[arg-type]
    "an unknown emission": (
        lambda t: agg(t, n=A.count()).emit("on_chang"),  # type: ignore[arg-type]
        "emit's mode is 'on_chang'; it can be 'on_close', once.*Did you mean 'on_change'",
    ),
    "how often windows close": (
        lambda t: agg(t, n=A.count()).emit("on_close", every="1 second"),
        r"every='1 second' limits how often open windows are emitted.*use emit\('on_change', every",
    ),
    "a table, often": (
        lambda t: agg(t, n=A.count()).emit("on_change", every="1 second"),
        "every='1 second' is a time between batches, and the data are a table",
    ),
    "as often as possible": (
        lambda t: agg(t, n=A.count()).emit("on_change", every="0 seconds"),
        "every must be longer than zero, got '0 seconds'",
    ),
    "corrections without an end": (
        lambda t: agg(t, n=A.count()).late("update"),
        r"late\('update'\) needs within=.*such as within='1 hour'",
    ),
    "a negative allowance": (
        lambda t: agg(t, n=A.count()).late("update", within="-1 hour"),
        "within must be longer than zero, got '-1 hour'",
    ),
    "an allowance for dropped rows": (
        lambda t: agg(t, n=A.count()).late("emit", within="1 hour"),
        r"within='1 hour' is how long late rows correct windows, and late\('emit'\) corrects none",
    ),
    "corrections of a join": (
        lambda t: muntin.join(t, t, FIVE, on="route", time="ts").late("update"),
        "late policy is 'update'; it can be 'drop' or 'emit'",
    ),
    "updates of ranks": (
        lambda t: agg(t, n=A.count()).emit("on_change").top(3, by="n"),
        r"top\(\) compares all groups of a window, and a batch of updates has only those that have changed.*emit",
    ),
    "updates of samples": (
        lambda t: median(t).late("update", within="1 hour").approximate(100, 0.1),
        r"approximate\(\) answers from samples.*does not go with late\('update'\)",
    ),
    "updates as jobs": (
        lambda t: agg(t, n=A.count()).emit("on_change").parallel("agnostic"),
        "The agnostic model hands out windows as they close.*parallel.model='active'",
    ),
    "updates of a function": (
        lambda t: apply(keyed(t)).emit("on_change"),
        r"emit\('on_change'\) emits a row again when it has changed, and a function",
    ),
    "updates of forgetful windows": (
        lambda t: over(t, W.count(5, forget_after="1 day")).late("update", within="1 hour"),
        r"forget_after lets the numbers.*late\(.update.\) tells the rows",
    ),
    "samples of forgetful windows": (
        lambda t: over(t, W.count(5, forget_after="1 day")).agg(n=A.median("fare")).approximate(100, 0.1),
        "forget_after lets the numbers.*samples",
    ),
    "updates of incomplete windows": (
        lambda t: over(t, W.count(5, max_wait="1 second")).emit("on_change"),
        "max_wait emits parts of count windows",
    ),
    "a timing of one's own": (
        lambda t: agg(t, timing=A.count()).emit("on_change").to_df(),
        "'timing' is a column that this query adds to results; give the column of that name.*another",
    ),
    "a revision for a key": (
        lambda t: (
            muntin.over(t, FIVE, time="ts", by=F.col("fare").alias("revision"))
            .agg(n=A.count())
            .emit("on_change")
            .to_df()
        ),
        "'revision' is a column that this query adds to results",
    ),
    "a lateness of one's own": (
        lambda t: agg(t, lateness=A.count()).late("emit").to_df(),
        "'lateness' is a column that this query adds to results",
    ),
    "a custom aggregate that changes shape": (
        lambda t: agg(t, n=A.custom(lambda fare: (fare, fare), lambda a, b: (a[0],), lambda s: s[0])),
        "combine of a custom aggregate must return the same state.*2 arrays.*1 arrays",
    ),
    "a custom aggregate with an unknown column": (
        lambda t: agg(t, n=A.custom(lambda fair: fair, lambda a, b: a, lambda s: s)),
        "'fair' is not in the data",
    ),
    "a median of a string": (lambda t: agg(t, n=A.median("route")), "n: a quantile needs numbers, but column 'route'"),
    "a quantile of a time": (lambda t: agg(t, n=A.quantile("ts", 0.5)), "quantile needs numbers.*'ts'.*cast it first"),
    "a quantile of nothing": (lambda t: A.quantile("fare", []), r"probability must be a number.*got \[\]"),
    "a quantile in percent": (lambda t: A.quantile("fare", 95), "from 0 to 1, such as 0.95, got 95"),
    "one quantile of several": (lambda t: A.quantile("fare", [0.5, -0.1]), "from 0 to 1, such as 0.95, got -0.1"),
    "a quantile in words": (lambda t: A.quantile("fare", "0.5"), "probability must be.*got '0.5'"),  # type: ignore[arg-type]
    "a quantile of an unknown column": (lambda t: agg(t, n=A.quantile("fair", 0.5)), "'fair'.*mean 'fare'"),
    "a mode of an array": (lambda t: agg(t, n=A.mode("tags")), "column 'tags' is of type array<int>"),
    "distinct arrays": (lambda t: agg(t, n=A.count_distinct("tags")), "n: column 'tags' is of type array<int>"),
    "the top of arrays": (lambda t: agg(t, n=A.top_k("tags", 1)), "n: column 'tags' is of type array<int>"),
    "the top none": (lambda t: A.top_k("fare", 0), "k must be a whole number from 1, got 0"),
    "the top half": (lambda t: A.top_k("fare", 0.5), "k must be a whole number from 1, got 0.5"),  # type: ignore[arg-type]
    "a collected number": (lambda t: A.collect(7), "column must be.*got 7"),  # type: ignore[arg-type]
    "a filter of a median": (lambda t: agg(t, n=A.median("fare", where="fare")), "where='fare'.*true or false"),
    "nothing to compress": (
        lambda t: agg(t, n=A.count()).compress("1 minute").to_df(),
        r"compress\(\) is for the rows that holistic aggregates and functions of windows need.*such as A.median",
    ),
    "nothing to compress, nor to explain": (
        lambda t: agg(t, n=A.count()).compress(None).explain(),
        r"compress\(\) is for the rows that holistic aggregates and functions of windows need",
    ),
    "after and memory": (lambda t: median(t).compress("1 minute", memory="1 GB"), "both after= and memory="),
    "never and memory": (lambda t: median(t).compress(None, memory="1 GB"), "both after= and memory="),
    "neither after nor memory": (lambda t: median(t).compress(), "neither after= nor memory=.*after='1 minute'"),
    "a negative after": (lambda t: median(t).compress("-1 seconds"), "after must not be negative, got '-1 seconds'"),
    "an after in words": (lambda t: median(t).compress("soon"), "after is 'soon'"),
    "an after in numbers": (lambda t: median(t).compress(0), "after must be a duration.*got 0"),  # type: ignore[arg-type]
    "an unknown codec": (lambda t: median(t).compress(None, codec="zst"), "codec is 'zst'.*mean 'zstd'"),  # type: ignore[arg-type]
    "no codec": (lambda t: median(t).compress(None, codec=None), "codec is None; it can be"),  # type: ignore[arg-type]
    "a level too high": (
        lambda t: median(t).compress(None, level=23),
        "level must be .* from 1 to 22 for zstd, got 23",
    ),
    "a level too low": (lambda t: median(t).compress(None, codec="lz4", level=0), "from 1 to 12 for lz4, got 0"),
    "a level in words": (lambda t: median(t).compress(None, level="best"), "level must be.*got 'best'"),  # type: ignore[arg-type]
    "a level of a codec without": (lambda t: median(t).compress(None, codec="snappy", level=1), "snappy has no levels"),
    "a memory in words": (lambda t: median(t).compress(memory="plenty"), "memory is 'plenty', which is not a size"),
    "no memory": (lambda t: median(t).compress(memory="0 GB"), "memory must be greater than zero, got '0 GB'"),
    "an unknown unit": (lambda t: median(t).compress("1 minute", unit="keys"), "unit is 'keys'.*mean 'key'"),  # type: ignore[arg-type]
    "a key within memory": (lambda t: median(t).compress(memory="1 GB", unit="key"), r"unit='key'\) needs after="),
    "half a byte": (lambda t: median(t).compress(memory=0.5), "memory must be a size such as '2 GB'.*got 0.5"),  # type: ignore[arg-type]
    "apply after agg": (lambda t: apply(agg(t, n=A.count())), "computes something already.*two queries for both"),
    "agg after apply": (lambda t: apply(keyed(t)).agg(n=A.count()), "applies a function already.*two queries for both"),
    "apply twice": (lambda t: apply(apply(keyed(t))), "computes something already"),
    "a schema that is none": (lambda t: apply(keyed(t), "n lonk"), "schema 'n lonk' cannot be.*'n long, mean double'"),
    "an empty schema": (lambda t: apply(keyed(t), ""), "schema.*'n long, mean double'"),
    "a schema of no columns": (lambda t: apply(keyed(t), "long"), "schema.*'n long, mean double'"),
    "a schema of another type": (lambda t: apply(keyed(t), 7), "schema must be a string such as.*got 7"),
    "a schema with a variant": (lambda t: apply(keyed(t), "v variant"), "schema's column 'v' is of type variant"),
    "a schema with a key": (lambda t: apply(keyed(t), "route string"), "'route' is a key column already"),
    "a schema with a reserved name": (lambda t: apply(keyed(t), "window string"), "'window' is a column that Muntin"),
    "a schema with a name twice": (lambda t: apply(keyed(t), "n long, n long"), "schema names the column 'n' twice"),
    "a function of an unknown column": (
        lambda t: apply(keyed(t), columns=["ts", "fair"]),
        "apply's column 'fair' is not in the data.*mean 'fare'",
    ),
    "a function of a number": (lambda t: apply(keyed(t), columns=[7]), "apply's column must be the name.*got 7"),
    "no function": (lambda t: keyed(t).apply("median", "n long"), "apply.. needs a function.*got 'median'"),  # type: ignore[arg-type]
}


def keyed(table: DataFrame) -> muntin.Query:
    return muntin.over(table, FIVE, time="ts", by="route")


def median(table: DataFrame) -> muntin.Query:
    return keyed(table).agg(mid=A.median("fare"))


def apply(query: muntin.Query, schema: Any = "n long", columns: Any = None) -> muntin.Query:
    return query.apply(lambda tuples: tuples, schema, columns=columns)


def over(table: DataFrame, *windows: W.Window) -> muntin.Query:
    return muntin.over(table, *windows, time="ts")


def agg(table: DataFrame, **named: Any) -> muntin.Query:
    return muntin.over(table, FIVE, time="ts", by="route").agg(**named)


@pytest.mark.parametrize("mistake", list(MISTAKES))
def test_a_mistake_is_named(table: DataFrame, mistake: str) -> None:
    build, message = MISTAKES[mistake]
    with pytest.raises(MuntinError, match=f"(?s){message}"):
        build(table)


def test_a_stream_needs_a_watermark(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load()
    with pytest.raises(MuntinError, match=r"watermark is missing.*'10 minutes'"):
        muntin.over(stream, FIVE, time="timestamp")


def test_a_stream_needs_a_configured_session(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load()
    query = muntin.over(stream, FIVE, time="timestamp", watermark="1 second").agg(n=A.count())
    configured = spark.conf.get(PROVIDER)
    spark.conf.unset(PROVIDER)
    try:
        with pytest.raises(
            MuntinError, match=rf"not configured.*{PROVIDER} is not set.*Call muntin\.configure\(spark\)"
        ):
            query.to_df()
        spark.conf.set(PROVIDER, "org.example.Store")
        with pytest.raises(MuntinError, match=rf"{PROVIDER} is 'org.example.Store'"):
            query.to_df()
    finally:
        spark.conf.set(PROVIDER, str(configured))
    assert query.to_df().isStreaming


def test_a_query_is_a_value(table: DataFrame) -> None:
    base = muntin.over(table, FIVE, time="ts", by="route")
    one = base.agg(a=A.count())
    two = one.agg(b=A.mean("fare"))
    assert (list(base.aggregates), list(one.aggregates), list(two.aggregates)) == ([], ["a"], ["a", "b"])


def test_a_query_is_shown_as_it_is_written(table: DataFrame) -> None:
    base = muntin.over(table, W.sliding("15 minutes", "5 minutes"), time="ts", by=["route"])
    start = 'over(<table: 8 columns>, W.sliding("15 minutes", "5 minutes"), time="ts", by=["route"])'
    assert repr(base) == start
    query = base.agg(trips=A.count(), mean=A.mean("fare", where="fare > 1")).shed(rate=0.9).late("emit")
    shown = '.agg(trips=A.count(), mean=A.mean("fare", where="fare > 1")).shed(rate=0.9).late("emit")'
    assert repr(query) == start + shown
    assert 'n=A.count(where="' in repr(base.agg(n=A.count(where=F.col("fare") > 1)))
    many = median(table).compress("1 minute", level=3).approximate("1 MB", 0.1, seed=7).top(3, by="mid")
    assert repr(many.parallel("keyed", workers=2)).endswith(
        '.agg(mid=A.median("fare")).compress(after="1 minute", level=3).approximate(budget="1 MB", error=0.1, seed=7)'
        '.top(3, by="mid").parallel("keyed", workers=2)'
    )
    assert repr(apply(keyed(table))).endswith('.apply(<lambda>, "n bigint")')
    updated = base.agg(n=A.count()).late("update", within="1 hour").emit("on_change")
    assert repr(updated) == start + '.agg(n=A.count()).emit("on_change").late("update", within="1 hour")'
    assert repr(updated.late("drop").emit()) == start + ".agg(n=A.count())"
    joined = muntin.join(
        table.drop("window", "Late", "partial"), table.select("ts", "route"), FIVE, on="route", time="ts"
    )
    start = 'join(<table: 5 columns>, <table: 2 columns>, W.tumbling("5 seconds"), on=["route"], time="ts")'
    assert repr(joined.agg(pairs=A.count()).shed(rate=0.5)) == start + ".agg(pairs=A.count()).shed(rate=0.5)"
    assert repr(joined.rows(["fare"])) == start + '.rows(["fare"])'


def test_progress_is_shown_in_a_line() -> None:
    assert repr(muntin.Progress()) == "Progress(no batch yet)"
    shown = muntin.Progress(
        batch_id=7, rows=12_000, late_rows=3, results=40, batch_rows=1000, batch_results=5, batch_seconds=0.84,
        state_bytes=2_500_000,
    )  # fmt: skip
    assert repr(shown) == (
        "Progress(batch 7: 1,000 rows in 0.8 s, 5 results; in all: 12,000 rows, 3 late, 40 results; state: 2 MB)"
    )


def test_explain_says_what_will_happen(table: DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    query = muntin.over(table, W.sliding("1 hour", "1 minute", name="hour"), FIVE, time="ts", by="route")
    query.agg(n=A.count(), m=A.mean("fare")).explain()
    said = capsys.readouterr().out
    for fact in ("Panes of 5 seconds", "hour: 720 panes per window", "forward-context-free", "copy every row 61 times"):
        assert fact in said


def test_explain_shows_every_model(table: DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    free = [W.sliding("1 hour", "1 minute"), W.cumulative("1 day", "1 hour"), W.session("5 minutes"), W.count(100, 20)]
    aware = [W.slide_by_tuple("1 hour", 10), W.slide_by_time(50, "1 minute"), W.delta("fare", 100, 10)]
    over(table, *free, *aware).agg(n=A.count()).explain()
    lines = capsys.readouterr().out.splitlines()
    for context, windows in (("free", free), ("aware", aware)):
        for window in windows:
            (line,) = (line for line in lines if line.startswith(f"  {window.title}: "))
            assert f"forward-context-{context}; {window.extent_formula}" in line
            assert "E(w) = " in line
    over(table, W.count(100, 20)).agg(n=A.count()).explain()
    assert "panes of 20 rows" in capsys.readouterr().out
