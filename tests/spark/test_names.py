"""Columns as Spark takes them: names of any kind, nested fields, expressions, and case as the session says.

Spark itself is the judge: the same expressions in `groupBy(window(...), ...).agg(...)`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import muntin
from muntin import MuntinError
from muntin import aggregates as A
from muntin import windows as W
from tests.spark.streams import Feed, assert_same, keyed, results, run

SCHEMA = "s string, ms long, ev struct<at:timestamp,Kind:string,`temp-c`:int>, `a.b` int, `we``ird name` int, x double"
UTC = dt.UTC
HOUR = W.tumbling("1 hour")


def rows(first: int, count: int) -> pa.Table:
    made = []
    for i in range(first, first + count):
        at = dt.datetime(2026, 1, 31, 12, tzinfo=UTC) + dt.timedelta(minutes=7 * i)
        made.append(
            {
                "s": at.strftime("%Y-%m-%d %H:%M:%S+00:00"),
                "ms": int(at.timestamp()) * 1000,
                "ev": {"at": at, "Kind": None if i % 7 == 3 else "aBc"[i % 3], "temp-c": i % 5},
                "a.b": None if i % 11 == 5 else i % 4,
                "we`ird name": i % 3,
                "x": i / 2,
            }
        )
    event = pa.struct([("at", pa.timestamp("us", tz="UTC")), ("Kind", pa.string()), ("temp-c", pa.int32())])
    kinds = {"s": pa.string(), "ms": pa.int64(), "ev": event, "a.b": pa.int32(), "we`ird name": pa.int32()}
    return pa.Table.from_pylist(made, pa.schema([*kinds.items(), ("x", pa.float64())]))


@pytest.fixture(scope="module")
def feed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Feed:
    feed = Feed(spark, tmp_path_factory.mktemp("names") / "in", SCHEMA)
    feed.add(rows(0, 40), rows(40, 40))
    return feed


@pytest.fixture(scope="module")
def table(feed: Feed) -> DataFrame:
    return feed.table().cache()


@contextmanager
def case(spark: SparkSession, sensitive: bool) -> Iterator[None]:
    spark.conf.set("spark.sql.caseSensitive", str(sensitive).lower())
    try:
        yield
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def our_aggregates() -> dict[str, A.Aggregate]:
    return {
        "twice": A.sum(F.col("x") * 2),
        "ratio": A.mean("x / (`a.b` + 1)"),
        "warm": A.max("ev.temp-c"),
        "weird": A.sum("we`ird name"),
        "dotted": A.count("a.b"),
        "by_case": A.max("X"),
        "quoted": A.min("`a.b`"),
        "mid": A.median(F.expr("x + ev.`temp-c`")),
        "coldest": A.argmin("upper(ev.kind)", by=F.col("ev.temp-c") * -1 + F.col("x") / 1000),
        "pairs": A.count_distinct("ev.Kind", "a.b"),
        "some_pairs": A.count_distinct(F.lower("ev.Kind"), "`we``ird name`", where="x > 10"),
        "plain": A.count_distinct("a.b"),
    }


def sparks_aggregates() -> dict[str, Column]:
    return {
        "twice": F.sum(F.col("x") * 2),
        "ratio": F.expr("mean(x / (`a.b` + 1))"),
        "warm": F.max("ev.temp-c"),
        "weird": F.sum("`we``ird name`"),
        "dotted": F.count("`a.b`"),
        "by_case": F.max("X"),
        "quoted": F.min("`a.b`"),
        "mid": F.expr("percentile(x + ev.`temp-c`, 0.5)"),
        "coldest": F.expr("min_by(upper(ev.kind), ev.`temp-c` * -1 + x / 1000)"),
        "pairs": F.count_distinct("ev.Kind", "`a.b`"),
        "some_pairs": F.expr("count(distinct lower(ev.Kind), `we``ird name`) filter (where x > 10)"),
        "plain": F.count_distinct("`a.b`"),
    }


def test_expressions_give_what_spark_gives(table: DataFrame) -> None:
    kind = F.upper("ev.Kind").alias("kind")
    window = W.sliding("2 hours", "1 hour")
    ours = muntin.over(table, window, time="date_trunc('minute', ev.at)", by=["upper(ev.Kind) as kind", "a.b"])
    theirs = table.groupBy(F.window(F.date_trunc("minute", "ev.at"), "2 hours", "1 hour"), kind, "`a.b`")
    expected = theirs.agg(*(column.alias(name) for name, column in sparks_aggregates().items()))
    assert_same(
        keyed(ours.agg(**our_aggregates()).to_df().collect(), "kind", "a.b"), keyed(expected.collect(), "kind", "a.b")
    )


def test_a_stream_of_expressions_goes_on_from_its_checkpoint(
    spark: SparkSession, feed: Feed, table: DataFrame, here: Path
) -> None:
    def query(data: DataFrame, by: Any) -> DataFrame:
        over = muntin.over(data, HOUR, time=F.to_timestamp("s"), watermark="10 minutes", by=by)
        return over.agg(total=A.sum("x * 2"), pairs=A.count_distinct("a.b", "ev.temp-c")).late("emit").to_df()

    own = Feed(spark, here / "in", SCHEMA)
    own.add(rows(0, 40))
    run(query(own.stream(), F.lower("ev.Kind")), here)
    own.add(rows(40, 40), rows(0, 1))
    frame = query(own.stream(), F.lower("ev.Kind"))
    assert frame.columns[:4] == ["window", "window_id", "lower(ev.Kind)", "total"]
    run(frame, here)
    found = results(spark, frame, here)
    (late,) = (row for row in found if row.late is not None)
    assert late["late"].asDict().keys() == set(own.stream().columns)
    assert late["lower(ev.Kind)"] == "a"
    closed = keyed([row for row in found if row.late is None], "lower(ev.Kind)")
    kind = F.lower("ev.Kind")
    spark_rows = table.groupBy(F.window(F.to_timestamp("s"), "1 hour"), kind).agg(
        F.sum(F.expr("x * 2")).alias("total"), F.count_distinct("`a.b`", "ev.temp-c").alias("pairs")
    )
    until = max(end for _, end, _ in closed)
    expected = {key: row for key, row in keyed(spark_rows.collect(), "lower(ev.Kind)").items() if key[1] <= until}
    assert len(expected) > 10
    assert_same(closed, expected)
    own.add(rows(80, 1))
    with pytest.raises(StreamingQueryException, match="checkpoint was made"):
        run(query(own.stream(), F.upper("ev.Kind").alias("lower(ev.Kind)")), here)


NAMES: dict[str, tuple[Any, str]] = {
    "a nested field": ("ev.Kind", "Kind"),
    "its case": ("EV.KIND", "KIND"),
    "a field with a sign": ("ev.temp-c", "temp-c"),
    "a name with a dot": ("a.b", "a.b"),
    "a quoted name": ("`a.b`", "a.b"),
    "a name with anything": ("we`ird name", "we`ird name"),
    "another case": ("S", "S"),
    "a column": (lambda: F.col("S"), "S"),
    "an expression": (lambda: F.col("x") * 2, "(x * 2)"),
    "a cast": (lambda: F.col("x").cast("int"), "x"),
    "an alias": ("x * 2 as twice", "twice"),
    "a literal": (lambda: F.lit("s"), "s"),
}


@pytest.mark.parametrize("name", list(NAMES))
def test_keys_are_called_what_spark_calls_them(table: DataFrame, name: str) -> None:
    given, called = NAMES[name]
    given = given() if callable(given) else given
    theirs = {"a.b": "`a.b`", "we`ird name": "`we``ird name`"}.get(given, given) if isinstance(given, str) else given
    theirs = F.expr(theirs) if name == "an alias" else theirs
    query = muntin.over(table, HOUR, time="ev.at", by=given).agg(n=A.count())
    assert query.to_df().columns == ["window", "window_id", called, "n", "window_time"]
    assert table.groupBy(theirs).count().columns == [called, "count"]


def test_a_column_of_the_data_is_read_as_it_is(table: DataFrame) -> None:
    plain = muntin.over(table, HOUR, time="ev.at", by="s").agg(t=A.sum("x"))
    for by, x in ((F.col("s"), F.col("x")), ("S", "X"), (table["s"], table["x"]), ("`s`", F.expr("X"))):
        same = muntin.over(table, HOUR, time="ev.at", by=by).agg(t=A.sum(x))
        assert same.plan([0]).fingerprint == plain.plan([0]).fingerprint
        assert list(same.computed.columns) == list(plain.computed.columns)


def test_another_expression_is_another_query(table: DataFrame) -> None:
    def fingerprint(column: Any) -> str:
        return muntin.over(table, HOUR, time="ev.at").agg(t=A.sum(column)).plan([0]).fingerprint

    assert fingerprint(F.col("x") * 2) == fingerprint(F.col("x") * 2)
    assert fingerprint("x * 2") == fingerprint("x * 2")
    columns = ("x", "x * 2", "x * 3", F.col("x") * 2, F.col("x").cast("int"), F.col("x").cast("float"), F.lit(1))
    assert len({fingerprint(column) for column in columns}) == 7


def test_functions_of_one_name_are_told_apart(table: DataFrame) -> None:
    def query() -> muntin.Query:
        less, more = (F.udf(each, "double") for each in (lambda x: x - 1, lambda x: x + 1))
        over = muntin.over(table, W.tumbling("30 days"), time="ev.at")
        return over.agg(
            less=A.sum(less("x")),
            more=A.sum(more("x")),
            few=A.count(where=less("x") > 5),
            many=A.count(where=more("x") > 5),
        )

    (row,) = query().to_df().collect()
    assert (row.less, row.more) == (sum(i / 2 - 1 for i in range(80)), sum(i / 2 + 1 for i in range(80)))
    assert (row.few, row.many) == (sum(i / 2 - 1 > 5 for i in range(80)), sum(i / 2 + 1 > 5 for i in range(80)))
    assert query().plan([0]).fingerprint == query().plan([0]).fingerprint


def test_functions_and_windows_take_expressions(table: DataFrame) -> None:
    def told(window: pa.Table) -> pa.Table:
        return pa.table({"said": [",".join(window.column_names)], "n": [window.num_rows]})

    chosen: list[Any] = ["ev.Kind", F.col("x") * 2, "`a.b`", "ev.at"]
    over = muntin.over(table, W.tumbling("30 days"), time="ev.at", by="ev.Kind")
    found = over.apply(told, "said string, n long", columns=chosen).to_df().collect()
    assert {row.said for row in found} == {"Kind,(x * 2),a.b,at"}
    assert sum(row.n for row in found) == 80
    named = {W.delta(given, 10, 5): said for given, said in (("x * 2", "x * 2"), (F.col("x") + 1, "(x + 1)"))}
    for window, said in named.items():
        query = muntin.over(table, window, W.count(5), time="ev.at").agg(n=A.count())
        assert query.windows[0].title == f"delta('{said}', 10, 5)"
        found = [row for row in query.to_df().collect() if row.window_name == query.windows[0].title]
        assert len(found) > 5


def test_case_is_as_the_session_says(spark: SparkSession) -> None:
    made = "timestamp_seconds(id) as ts", "id as a", "id * 10 as A", "struct(id as f, id * 3 as F) as ev"
    with case(spark, sensitive=True):
        both = spark.range(4).selectExpr(*made)
        query = muntin.over(both, W.tumbling("1 day"), time="ts").agg(
            a=A.sum("a"), b=A.sum("A"), f=A.sum("ev.F"), g=A.sum(F.col("A") + 1)
        )
        (row,) = query.to_df().collect()
        assert (row.a, row.b, row.f, row.g) == (6, 60, 18, 64)
        with pytest.raises(MuntinError, match=r"time column 'TS' is not in the data.*'ts'"):
            muntin.over(both, HOUR, time="TS")
        joined = muntin.join(both, both, W.tumbling("1 day"), on="a", time="ts").agg(n=A.sum("left_A"))
        assert sum(row.n for row in joined.to_df().collect()) == 60
    with pytest.raises(MuntinError, match="n's column 'a' cannot be used: ambiguous"):
        muntin.over(both, HOUR, time="TS").agg(n=A.sum("a"))


def test_a_join_takes_expressions(table: DataFrame) -> None:
    left, right = table.where("x < 10"), table.where("x >= 5").withColumnRenamed("x", "y")
    rows = muntin.join(
        left,
        right,
        W.tumbling("1 day"),
        on=["EV.kind", F.col("`we``ird name`") % 2],
        time=("date_trunc('hour', ev.at)", F.timestamp_millis("ms")),
    ).rows(["X", "`y`", "right_ev"])
    day = F.window(F.date_trunc("hour", "ev.at"), "1 day")
    other = F.window(F.timestamp_millis("ms"), "1 day")
    keys = [F.col("ev.Kind").alias("kind"), (F.col("`we``ird name`") % 2).alias("odd")]
    pairs = left.select(day.alias("w"), *keys, "x").join(
        right.select(other.alias("w"), *keys, "y"), ["w", "kind", "odd"]
    )
    assert rows.columns == ["window", "window_id", "kind", "(we`ird name % 2)", "x", "y", "right_ev", "window_time"]
    assert pairs.count() > 50
    assert sorted((r.kind, r.x, r.y) for r in rows.collect()) == sorted((r.kind, r.x, r.y) for r in pairs.collect())
    agg = muntin.join(left, right, W.tumbling("1 day"), on="ev.Kind", time="ev.at").agg(
        total=A.sum(F.col("X")), pairs=A.count_distinct("left_a.b", "right_a.b"), own=A.count_distinct("left_a.b", "x")
    )
    keys = [F.col("ev.Kind").alias("Kind")]
    both = left.select(F.window("ev.at", "1 day").alias("window"), *keys, "x", F.col("`a.b`").alias("l")).join(
        right.select(F.window("ev.at", "1 day").alias("window"), *keys, F.col("`a.b`").alias("r")), ["window", "Kind"]
    )
    expected = both.groupBy("window", "Kind").agg(
        F.sum("x").alias("total"), F.count_distinct("l", "r").alias("pairs"), F.count_distinct("l", "x").alias("own")
    )
    assert_same(keyed(agg.to_df().collect(), "Kind"), keyed(expected.collect(), "Kind"))


def test_combinations_over_every_model_and_from_samples(table: DataFrame) -> None:
    models = [W.session("10 minutes"), W.count(10, 5)]
    for model in models:
        query = muntin.over(table, model, time="ev.at", by="ev.Kind")
        one = query.agg(n=A.count_distinct(F.expr("concat_ws('-', `a.b`, ev.`temp-c`)"), where="`a.b` is not null"))
        two = query.agg(n=A.count_distinct("a.b", "ev.temp-c"))
        assert_same(keyed(two.to_df().collect(), "Kind"), keyed(one.to_df().collect(), "Kind"))
    exact = muntin.over(table, W.tumbling("30 days"), time="ev.at").agg(n=A.count_distinct("a.b", "x"))
    (row,) = exact.approximate(1000, 0.1).to_df().collect()
    assert row.n == exact.to_df().collect()[0].n
    with pytest.raises(MuntinError, match="n cannot be computed under shed"):
        exact.shed(0.5)


Build = Callable[[DataFrame], Any]


def over(table: DataFrame, time: Any = "ev.at", by: Any = ()) -> muntin.Query:
    return muntin.over(table, HOUR, time=time, by=by)


MISTAKES: dict[str, tuple[Build, str]] = {
    "a long": (lambda t: over(t, "ms"), "'ms' is of type bigint.*timestamp_seconds.*milliseconds"),
    "a string": (lambda t: over(t, "s"), "'s' is of type string.*F.to_timestamp"),
    "a struct": (lambda t: over(t, "ev"), "'ev' is of type struct<at:timestamp.*name one of its fields: 'ev.at'"),
    "an expression of a date": (lambda t: over(t, "to_date(s)"), r"'to_date\(s\)' is of type date.*midnight"),
    "a nested field that is none": (lambda t: over(t, "ev.att"), "'ev.att' is not a column.*No such struct field"),
    "an unknown name": (lambda t: over(t, by="mss"), "by column 'mss' is not in the data. Did you mean 'ms'"),
    "an unknown name within": (lambda t: over(t, by="mss + 1"), "'mss . 1' needs a column 'mss'.*mean 'ms'"),
    "a column of nothing": (lambda t: over(t, by=F.col("mss") * 2), "needs a column 'mss', which is not.*mean 'ms'"),
    "a syntax error": (lambda t: over(t, by="ms +"), "by column 'ms .' is not.*Syntax error at or near end of input"),
    "chance": (lambda t: over(t, by=F.rand()), "has another value each time"),
    "chance in SQL": (lambda t: over(t).agg(n=A.sum("x * rand()")), "n's column.*has another value each time"),
    "an aggregate": (lambda t: over(t).agg(n=A.sum("sum(x)")), "n's column 'sum.x.' is an aggregate of many rows"),
    "a window function": (
        lambda t: over(t).agg(n=A.max("lag(x) over (order by ms)")),
        "is a window function over other rows",
    ),
    "an exploded column": (lambda t: over(t, by="explode(array(x))"), "makes several rows of one"),
    "all columns": (lambda t: over(t, by="ev.*"), "'ev.*' is 3 columns; name one of them: 'at', 'Kind', 'temp-c'"),
    "two keys of a name": (lambda t: over(t, by=["x", F.col("x").cast("int")]), "two columns called 'x'.*alias"),
    "a key twice, by case": (lambda t: over(t, by=["x", "X"]), "by names the column 'X' twice"),
    "a reserved alias": (
        lambda t: over(t, by="x as window"),
        "'window' has the name of a column that.*alias",
    ),
    "a key's name": (lambda t: over(t, by="x * 2 as n").agg(n=A.count()), "'n' is a key column already"),
    "a sum of words": (lambda t: over(t).agg(n=A.sum("upper(s)")), r"column 'upper\(s\)' is of type string"),
    "a number for words": (lambda t: over(t, by=[7]), "by column must be the name of a column.*got 7"),
    "applied twice": (
        lambda t: over(t).apply(lambda w: w, "n long", columns=["x", F.col("x").cast("int")]),
        "apply gets the column 'x' twice",
    ),
    "an expression of a join": (
        lambda t: muntin.join(t, t, HOUR, on="ms", time="ev.at").agg(n=A.sum("left_x * 2")),
        "n's column 'left_x . 2' is an expression.*left.withColumn",
    ),
    "a column of both sides": (
        lambda t: muntin.join(t, t, HOUR, on="ms", time="ev.at").agg(n=A.sum("x")),
        "Both sides have it: give 'left_x' or 'right_x'",
    ),
    "a filter with a syntax error": (
        lambda t: over(t).agg(n=A.count(where="x >")),
        "where='x >' is not a condition over these columns: Syntax error",
    ),
}


@pytest.mark.parametrize("mistake", list(MISTAKES))
def test_a_mistake_is_named(table: DataFrame, mistake: str) -> None:
    build, message = MISTAKES[mistake]
    with pytest.raises(MuntinError, match=f"(?s){message}") as caught:
        build(table)
    assert "__muntin" not in str(caught.value)
    assert "SQLSTATE" not in str(caught.value)


def test_explain_shows_expressions_as_they_were_given(table: DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    over(table, "date_trunc('hour', ev.at)", "upper(s)").agg(n=A.median("x * 2")).explain()
    said = capsys.readouterr().out
    assert """windows over "date_trunc('hour', ev.at)" per 'upper(s)'""" in said
    assert "with 'x * 2' beside key and time" in said
    assert "__muntin" not in said


def plain(spark: SparkSession) -> DataFrame:
    return spark.range(3).select(
        F.timestamp_seconds("id").alias("ts"),
        F.lit("a").alias("route"),
        F.lit(1.5).alias("fare"),
        F.lit(1).cast("decimal(10,2)").alias("price"),
        F.lit(2).alias("a.b"),
    )


def test_plain_names_keep_their_checkpoints(spark: SparkSession) -> None:
    """The fingerprints that these queries had before columns could be anything else."""
    t = plain(spark)
    slides, hour = W.sliding("1 hour", "1 minute"), W.tumbling("1 hour")
    by_route = muntin.over(t, hour, time="ts", by="route")
    sums = {"n": A.count(), "m": A.mean("fare"), "s": A.sum("price"), "b": A.argmax("route", by="fare")}
    wholes = {"p": A.quantile("fare", 0.95), "d": A.count_distinct("route"), "c": A.collect("price")}
    filtered = {"n": A.count(where="fare > 10"), "m": A.median("fare", where="route = 'a'")}
    delta = muntin.over(t, W.delta("fare", 10, 1), W.count(5), time="ts", by="route")
    session = muntin.over(t, W.session("1 minute"), time="ts", by="route")
    sampled = {"p": A.median("fare"), "d": A.count_distinct("fare"), "s": A.sum("fare")}
    join = muntin.join(t, t.withColumn("x", F.lit(1)), hour, on="route", time="ts")
    queries = {
        "3f12b91471e95a22": muntin.over(t, slides, time="ts", by="route").agg(**sums, d=A.max("a.b")),
        "03535260f851cbc2": muntin.over(t, hour, time="ts", by=["route", "a.b"]).agg(**wholes),
        "8f0337c109d6a145": muntin.over(t, hour, time="ts").agg(**filtered),
        "26adece8efdaec75": delta.agg(n=A.count(), l=A.last("fare")),
        "29b554e5abbf128c": session.apply(lambda w: w, "n long", columns=["ts", "fare"]),
        "73ec40defdb81303": by_route.agg(**sampled).approximate(100, 0.1),
        "1583b2fd9eb7003f": by_route.agg(p=A.median("fare"), s=A.sum("fare")).shed(0.5),
        "6aa4a26bb11c6447": join.agg(n=A.count(), f=A.sum("left_fare")).prepared().query,
        "9817e084a4774622": join.agg(n=A.count(), f=A.last("left_fare", where="right_fare > 1")).prepared().query,
    }
    assert [query.plan([0]).fingerprint for query in queries.values()] == list(queries)
