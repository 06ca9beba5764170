"""Statements as the queries that they say; no Spark is needed to translate them."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import pytest

import muntin
from muntin import aggregates as A
from muntin import windows as W
from muntin.aggregates.aggregate import Aggregate
from muntin.errors import MuntinError
from muntin.testing import Stream, assert_windows
from muntin.testing.rows import Rows
from muntin.testing.schemas import schema_of
from muntin.windows import Window

SCHEMA = "pickup timestamp, route string, fare double, x long"


@dataclass
class Session:
    """A session whose tables have the same columns."""

    asked: list[str] = field(default_factory=list)

    def table(self, tableName: str) -> Rows:  # noqa: N803
        self.asked.append(tableName)
        return Rows({column.name: column.type for column in schema_of(SCHEMA)})


def query(statement: str) -> muntin.Query:
    return muntin.sql(Session(), statement, watermark="10 minutes")


def over(window: Window, *keys: str) -> muntin.Query:
    rows: Any = Session().table("")
    return muntin.over(rows, window, time="pickup", watermark="10 minutes", by=keys)


def select(
    what: str = "COUNT(*) AS n", window: str = "TUMBLE(TABLE rides, DESCRIPTOR(pickup), INTERVAL '1' HOUR)"
) -> str:
    return f"SELECT window_start, {what}\nFROM TABLE({window})\nGROUP BY window_start, window_end"


FIVE, QUARTER = "INTERVAL '5' MINUTES", "INTERVAL '15' MINUTE"


@pytest.mark.parametrize(
    ("function", "window"),
    [
        (f"TUMBLE(TABLE rides, DESCRIPTOR(pickup), {FIVE})", W.tumbling("5 minutes")),
        (
            f"tumble(table rides, descriptor(pickup), {FIVE}, INTERVAL '1' MINUTE)",
            W.tumbling("5 minutes", offset="1 minute"),
        ),
        (f"HOP(TABLE rides, DESCRIPTOR(pickup), {FIVE}, {QUARTER})", W.sliding("15 minutes", "5 minutes")),
        (
            f"HOP(TABLE rides, DESCRIPTOR(pickup), {FIVE}, {QUARTER}, INTERVAL -1 SECOND)",
            W.sliding("15 minutes", "5 minutes", offset="-1 seconds"),
        ),
        (
            f"HOP(DATA => TABLE rides, TIMECOL => DESCRIPTOR(pickup), SIZE => {QUARTER}, SLIDE => {FIVE})",
            W.sliding("15 minutes", "5 minutes"),
        ),
        (f"CUMULATE(TABLE rides, DESCRIPTOR(pickup), {FIVE}, INTERVAL '1' DAY)", W.cumulative("1 day", "5 minutes")),
        (f"SESSION(TABLE rides, DESCRIPTOR(pickup), {FIVE})", W.session("5 minutes")),
        ("SESSION(TABLE rides, DESCRIPTOR(`pickup`), INTERVAL '5 minutes')", W.session("5 minutes")),
    ],
)
def test_table_functions(function: str, window: Window) -> None:
    expected = over(window).agg(n=A.count())
    assert repr(query(select(window=function))) == repr(expected)
    without = select(window=function).replace("TABLE(" + function + ")", function + " AS t")
    assert repr(query(without)) == repr(expected)


@pytest.mark.parametrize(
    ("group", "window"),
    [
        ("window(pickup, '5 minutes')", W.tumbling("5 minutes")),
        ("WINDOW(pickup, '15 minutes', '5 minutes')", W.sliding("15 minutes", "5 minutes")),
        (f"window(pickup, {QUARTER}, {FIVE}, '1 minute')", W.sliding("15 minutes", "5 minutes", offset="1 minute")),
        ("session_window(pickup, '5 minutes')", W.session("5 minutes")),
    ],
)
def test_windows_of_spark(group: str, window: Window) -> None:
    session = Session()
    text = f"SELECT window.start, window, route, COUNT(*) AS n FROM a.`b c` GROUP BY {group}, route"
    assert repr(muntin.sql(session, text, watermark="10 minutes")) == repr(over(window, "route").agg(n=A.count()))
    assert session.asked == ["`a`.`b c`"]
    with_names = text.replace("pickup", "t.pickup").replace("route", "t.route").replace("`b c`", "`b c` AS t")
    assert repr(muntin.sql(session, with_names, watermark="10 minutes")) == repr(over(window, "route").agg(n=A.count()))


@pytest.mark.parametrize(
    ("text", "aggregate"),
    [
        ("COUNT(*)", A.count()),
        ("count(1)", A.count()),
        ("COUNT(fare)", A.count("fare")),
        ("COUNT(DISTINCT route)", A.count_distinct("route")),
        ("SUM(fare)", A.sum("fare")),
        ("AVG(fare)", A.mean("fare")),
        ("mean(fare)", A.mean("fare")),
        ("MIN(fare) FILTER (WHERE x > 3)", A.min("fare", where="x > 3")),
        ("MAX(`route`)", A.max("route")),
        ("STDDEV(x)", A.stddev_samp("x")),
        ("std(x)", A.stddev_samp("x")),
        ("STDDEV_POP(x)", A.stddev_pop("x")),
        ("VAR_SAMP(x)", A.var_samp("x")),
        ("VARIANCE(x)", A.var_samp("x")),
        ("VAR_POP(x)", A.var_pop("x")),
        ("MAX_BY(route, fare)", A.argmax("route", "fare")),
        ("MIN_BY(route, fare)", A.argmin("route", "fare")),
        ("MEDIAN(fare)", A.median("fare")),
        ("PERCENTILE(fare, 0.9)", A.quantile("fare", 0.9)),
        ("COUNT_IF(fare > 10 AND route = 'it''s')", A.count(where="fare > 10 AND route = 'it\\'s'")),
    ],
)
def test_aggregates(text: str, aggregate: Aggregate) -> None:
    if "it" in str(aggregate.where):  # only Spark reads this condition
        with pytest.raises(MuntinError, match="no condition that is computed without Spark"):
            query(select(f"{text} AS result"))
        return
    expected = over(W.tumbling("1 hour")).agg(result=aggregate)
    assert repr(query(select(f"{text} AS result"))) == repr(expected)


def test_a_statement_in_a_test() -> None:
    """Two keys, one of them by PARTITION BY, and the results."""
    statement = """
        SELECT window_start, window_end, route, COUNT(*) AS trips, SUM(fare) total -- a comment
        FROM TABLE(SESSION(TABLE rides PARTITION BY (route, x), DESCRIPTOR(pickup), INTERVAL '10' MINUTES))
        GROUP BY window_start, window_end, route, x
    """

    class Once:
        def __init__(self, rows: Rows) -> None:
            self.rows = rows

        def table(self, tableName: str) -> Rows:  # noqa: N803
            return self.rows

    stream = Stream(lambda rows: muntin.sql(Once(rows), statement, watermark="1 minute"), SCHEMA)
    stream.batch(
        [("2024-05-01 12:00", "A", 1.5, 1), ("2024-05-01 12:09", "A", 2.0, 1), ("2024-05-01 12:00", "B", 0.5, 2)]
    )
    bounds = {"start": "2024-05-01 12:00"}
    assert_windows(
        stream.watermark("2024-05-01 13:00"),
        [
            bounds | {"end": "2024-05-01 12:19", "route": "A", "x": 1, "trips": 2, "total": 3.5},
            bounds | {"end": "2024-05-01 12:10", "route": "B", "x": 2, "trips": 1, "total": 0.5},
        ],
    )


HOUR = "INTERVAL '1' HOUR"


@pytest.mark.parametrize(
    ("statement", "place", "reason"),
    [
        ("SELECT 1 FROM rides", "line 1, column 1", "the statement has no window; use one of TUMBLE, HOP"),
        (select() + "\nHAVING n > 3", "line 4, column 1, at 'HAVING n > 3'", "HAVING has no counterpart"),
        (select() + " ORDER BY n", "line 3, column 35", "ORDER has no counterpart"),
        (select() + " LIMIT 3", "line 3, column 35", "LIMIT has no counterpart"),
        (select() + " UNION ALL " + select("SUM(x) AS s"), "line 4, column 6", "the statement has a second window"),
        (select("foo(x) AS n"), "line 1, column 22, at 'foo", "no counterpart among Muntin's aggregates"),
        (select("fare"), "line 1, column 22, at 'fare", "neither a key nor the window"),
        (select("SUM(DISTINCT x) AS s"), "line 1, column 22", "no counterpart among"),
        (select("COUNT(x, fare) AS s"), "line 1, column 22", "COUNT has one argument"),
        (select("COUNT(DISTINCT x, fare) AS s"), "line 1, column 22", "COUNT.DISTINCT .* has one argument"),
        (select("SUM(x)"), "line 1, column 22", "an aggregate needs a name"),
        (select("SUM(x) AS n, MAX(x) AS n"), "line 1, column 35", "there is an aggregate 'n' already"),
        (select("*"), "line 1, column 22", "name the columns"),
        (select("window_end"), "line 1, column 1", "has no aggregate"),
        (
            select().replace("window_start, window_end", "route"),
            "line 3, column 1",
            "group by window_start and window_end",
        ),
        (select("COUNT( AS n"), "line 1", "Expect"),
        ("SELECT 'open", "statement cannot be read", "Error tokenizing"),
        (
            select(window=f"TUMBLE(rides, DESCRIPTOR(pickup), {HOUR})"),
            "line 2, column 19, at",
            "is a table: TABLE rides",
        ),
        (
            select(window=f"TUMBLE(TABLE rides, pickup, {HOUR})"),
            "line 2, column 32, at",
            "is a time: DESCRIPTOR",
        ),
        (
            select(window="TUMBLE(TABLE rides, DESCRIPTOR(pickup))"),
            "line 2, column 50",
            "TUMBLE has no SIZE; its arguments",
        ),
        (select(window=f"HOP(TABLE rides, DESCRIPTOR(pickup), {HOUR})"), "line 2", "HOP has no SIZE"),
        (select(window=f"SESSION(TABLE r, DESCRIPTOR(t), {HOUR}, {HOUR})"), "line 2", "SESSION has the arguments"),
        (select(window=f"TUMBLE(TABLE r, DESCRIPTOR(t), WIDTH => {HOUR})"), "line 2", "TUMBLE has the arguments"),
        (select(window="TUMBLE(TABLE r, DESCRIPTOR(t), '1 hour')"), "line 2", "a length is an interval"),
        (select(window="TUMBLE(TABLE r, DESCRIPTOR(t), INTERVAL '1:30' HOUR TO MINUTE)"), "line 2", "a single unit"),
        (
            select(window="TUMBLE(TABLE r, DESCRIPTOR(t), INTERVAL '1' MONTH)"),
            "line 2, column 6",
            "a month has no fixed",
        ),
        (select(window=f"TUMBLE(TABLE r, DESCRIPTOR(t, u), {HOUR})"), "line 2", "DESCRIPTOR has a single column"),
        (select(window=f"SESSION(TABLE r PARTITION BY route, DESCRIPTOR(t), {HOUR})"), "line 2", "have it in GROUP BY"),
        ("SELECT COUNT(*) AS n FROM r GROUP BY window(t)", "line 1, column 38", "window has a time, and a size"),
        ("SELECT window(t, '1 s'), COUNT(*) AS n FROM r", "line 1, column 8", "the window must be in GROUP BY"),
        (
            "SELECT route AS r, COUNT(*) AS n FROM q GROUP BY window(t, '1 s'), route",
            "line 1, column 8",
            "its own name",
        ),
        ("SELECT COUNT(*) AS n FROM (SELECT * FROM r) GROUP BY window(t, '1 s')", "line 1", "FROM must name a table"),
        ("SELECT COUNT(*) AS n FROM r JOIN s ON a = b GROUP BY window(t, '1 s')", "line 1, column 29", "JOIN has no"),
        ("SELECT COUNT(*) AS n FROM r GROUP BY ROLLUP(a, window(t, '1 s'))", "line 1", "groups by columns and"),
        (
            "INSERT INTO a SELECT COUNT(*) AS n FROM r GROUP BY window(t, '1 s')",
            "line 1, column 1",
            "must be one SELECT",
        ),
        (select() + " ; SELECT 1", "line 1, column 1", "must be one SELECT"),
        (select(window=f"TUMBLE(TABLE r, DESCRIPTOR(t), {HOUR})) TABLESAMPLE (9 ROWS"), "line 2", "TABLESAMPLE has no"),
        (select().replace("\nGROUP", " FOR SYSTEM_TIME AS OF x GROUP"), "line 2, column 72, at 'FOR", "FOR has no"),
        (select().replace("\nGROUP", " VERSION AS OF 3 GROUP"), "line 2, column 72, at 'VERSION", "VERSION has no"),
        (select().replace("\nGROUP", " AS t(a, b) GROUP"), "line 2, column 75", "columns have the names of the table"),
        (select().replace("\nGROUP", ", other GROUP"), "line 2, column 73", "JOIN has no counterpart"),
        (select() + " FOR UPDATE", "line 3, column 35", "FOR has no counterpart"),
        (select() + " CLUSTER BY n", "line 3, column 35", "CLUSTER has no counterpart"),
        (select() + " DISTRIBUTE BY n", "line 3, column 35", "DISTRIBUTE has no counterpart"),
        (select("COUNT(*) AS n INTO t"), "line 1, column 36", "INTO has no counterpart"),
        (select("/*+ BROADCAST(r) */ COUNT(*) AS n").replace("window_start, /", "/"), "line 1", "HINT has no counter"),
        (select("SUM(SUM(x)) AS n"), "line 1, column 26", "an aggregate cannot be part of a column"),
        (select("SUM(x) OVER (ORDER BY x) AS n"), "line 1, column 22", "no counterpart among"),
        (select("SUM(x + LAG(x) OVER (ORDER BY x)) AS n"), "line 1, column 30", "a window function has no counterpart"),
        (select().replace("\nGROUP", " WHERE x IN (SELECT y FROM z) GROUP"), "line 2, column 91", "has no subqueries"),
        (select("SUM(x) FILTER (WHERE EXISTS (SELECT 1)) AS n"), "line 1", "has no subqueries"),
        (select() + ", 2", "line 3, column 1, at 'GROUP BY", "GROUP BY has 2, which is no column"),
        (select() + ", nope", "line 3, column 36, at 'nope'", "by column 'nope' is not in the rows"),
        (select("SUM(x) AS s, SUM(nope) AS n"), "line 1, column 35", "n's column 'nope' is not in the rows"),
        (select("SUM(route) AS n"), "line 1, column 22", "sum needs a number"),
        (select("PERCENTILE(x, 2.0) AS n"), "line 1, column 33", "probability must be a number from 0 to 1"),
        (select("COUNT(*) AS route") + ", route", "line 1", "'route' is a key column already"),
        (select(window=f"TUMBLE(TABLE r, DESCRIPTOR(nope), {HOUR})"), "line 2, column 6", "time column 'nope'"),
    ],
)
def test_what_cannot_be_translated_is_refused_with_its_position(statement: str, place: str, reason: str) -> None:
    with pytest.raises(MuntinError, match=reason) as error:
        query(statement)
    assert str(error.value).startswith(place)


def test_bad_arguments() -> None:
    for statement in ("", 3):
        with pytest.raises(MuntinError, match="statement must be the text of a SELECT"):
            muntin.sql(Session(), statement)  # type: ignore[arg-type]
    with pytest.raises(MuntinError, match="watermark is missing"):
        muntin.sql(Session(), select())
    with patch.dict(sys.modules, {"sqlglot": None}), pytest.raises(MuntinError, match=r"pip install 'muntin\[sql\]'"):
        query(select())
