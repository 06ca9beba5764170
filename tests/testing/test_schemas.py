"""Schemas as texts, and rows in plain Python."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from muntin.errors import MuntinError
from muntin.testing.schemas import schema_of, table_of
from muntin.type_names import spark_name

TIME = pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    "kind",
    [
        *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date"),
        *("timestamp", "timestamp_ntz", "decimal(10,2)", "array<bigint>", "map<string,array<int>>"),
        "struct<a:bigint,b:struct<c:string,d:array<double>>>",
    ],
)
def test_every_type_is_read_as_spark_writes_it(kind: str) -> None:
    assert [spark_name(field.type) for field in schema_of(f"a {kind}, `b c` {kind}")] == [kind, kind]
    assert schema_of(f"a {kind}, `b c` {kind}").names == ["a", "b c"]


def test_other_spellings() -> None:
    assert schema_of("a: LONG, b INTEGER,c decimal") == pa.schema(
        [("a", pa.int64()), ("b", pa.int32()), ("c", pa.decimal128(10, 0))]
    )
    assert schema_of(pa.schema([("a", pa.timestamp("ms", "Europe/Berlin"))])) == pa.schema([("a", TIME)])
    rows = [{"t": datetime(2024, 5, 1), "n": 1}, {"t": None, "n": 2, "x": 1.5, "s": {"d": date(2024, 5, 1)}}]
    struct = pa.struct([("d", pa.date32())])
    assert schema_of(rows) == pa.schema([("t", TIME), ("n", pa.int64()), ("x", pa.float64()), ("s", struct)])


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("a", "cannot be read: a column has no type"),
        ("a lang", "cannot be read: 'lang' is no type"),
        ("a array<lang>", "cannot be read: 'lang' is no type"),
        ("", "schema must be a text"),
        ([], "schema must be a text"),
        (3, "schema must be a text"),
        ([{"a": None}], "type of column 'a' does not follow"),
        ([{"a": 1}, {"a": "x"}], "values of column 'a' are of several types"),
        (pa.schema([("a", pa.month_day_nano_interval())]), "column 'a' is of type month_day_nano_interval"),
    ],
)
def test_a_bad_schema_is_refused(given: Any, reason: str) -> None:
    with pytest.raises(MuntinError, match=reason):
        schema_of(given)


def test_rows_become_columns() -> None:
    schema = schema_of("t timestamp, local timestamp_ntz, price decimal(10,2), k string")
    berlin = timezone(timedelta(hours=2))
    rows = [
        {"t": "2024-05-01 12:00", "local": "2024-05-01 12:00", "price": Decimal("1.50")},
        (datetime(2024, 5, 1, 12, tzinfo=berlin), None, None, "a"),
        {"t": "2024-05-01T12:00:00Z", "k": ""},
        {"t": datetime(1969, 12, 31, 23, 59, 59, 999_999)},
    ]
    utc = timezone.utc
    assert table_of(rows, schema)["t"].to_pylist() == [
        datetime(2024, 5, 1, 12, tzinfo=utc),
        datetime(2024, 5, 1, 10, tzinfo=utc),
        datetime(2024, 5, 1, 12, tzinfo=utc),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=utc),
    ]
    assert table_of(rows, schema)["local"].to_pylist()[0] == datetime(2024, 5, 1, 12)
    assert table_of([], schema).num_rows == 0


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ("abc", "rows must be a list of dicts or tuples"),
        ({"t": 1}, "rows must be a list of dicts or tuples"),
        ([3], "rows must be dicts or tuples, got 3"),
        ([("2024-05-01",)], "has 1 values, and the schema 3 columns"),
        ([{"tt": 1}], "a column 'tt', which is not in the schema. Did you mean 't'"),
        ([{"t": "noon"}], "do not fit column 't' of type timestamp"),
        ([{"t": 3}], "do not fit column 't' of type timestamp.*: 3 is no time"),
        ([{"local": datetime(2024, 5, 1, tzinfo=timezone.utc)}], "has a time zone, and the column has none"),
        ([{"n": "many"}], "do not fit column 'n' of type int8"),
        ([{"n": 200}], "do not fit column 'n' of type int8"),
    ],
)
def test_bad_rows_are_refused(rows: Any, reason: str) -> None:
    with pytest.raises(MuntinError, match=reason):
        table_of(rows, schema_of("t timestamp, local timestamp_ntz, n byte"))
