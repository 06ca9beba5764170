"""Columns as they are given, where no Spark is."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from muntin import MuntinError
from muntin import aggregates as A
from muntin import windows as W
from muntin.expressions import Opaque, check_given, computed_name, shown
from muntin.query.time_column import check_time


class FakeColumn:
    """As Spark's: comparing makes another column, which is neither true nor false."""

    def alias(self, name: str) -> FakeColumn:
        return self

    def cast(self, kind: str) -> FakeColumn:
        return self

    def isNull(self) -> FakeColumn:  # noqa: N802
        return self

    def __eq__(self, other: object) -> Any:
        return FakeColumn()

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise ValueError("neither true nor false")

    def __repr__(self) -> str:
        return "Column<'x'>"


def test_an_expression_is_told_by_its_text_and_named_by_its_digest() -> None:
    assert shown(computed_name("fare * 2")) == "fare * 2"
    assert shown("fare") == "fare"
    assert computed_name("fare * 2") != computed_name("fare * 3")
    long, longer = "x" * 500, "x" * 500 + "y"
    assert computed_name(long) != computed_name(longer)
    assert len(computed_name(longer)) < 120


def test_the_name_of_an_expression_never_changes() -> None:
    # Checkpoints know it.
    assert computed_name("fare * 2") == "__muntin_expression_4ba66ffe8f8e99bd fare * 2"


@pytest.mark.parametrize("given", [7, None, "", "  ", ["a"], FakeColumn])
def test_what_is_no_column_is_refused_at_once(given: object) -> None:
    with pytest.raises(MuntinError, match=r"x must be the name of a column, a SQL expression or a Spark column, got"):
        check_given(given, "x")


def test_aggregates_and_windows_with_columns_are_well_behaved_values() -> None:
    column = FakeColumn()
    total = A.sum(column)
    assert total == total
    assert total != A.sum(column)
    assert len({total, A.sum(column)}) == 2
    assert repr(total) == 'A.sum("x")'
    window = W.delta(column, 10, 1)
    assert window == W.delta(column, 10, 1)
    assert window != W.delta(FakeColumn(), 10, 1)
    assert window != W.delta("x", 10, 1)
    assert hash(window) == hash(W.delta(column, 10, 1))
    assert repr(Opaque(column)) == "Column<'x'>"


def test_columns_stand_for_those_that_were_given() -> None:
    one, two = FakeColumn(), FakeColumn()
    assert A.sum(one).reading(["a"]).columns == ("a",)
    assert A.count().reading([]).columns == ()
    assert A.count(one).reading(["a"]).columns == ("a",)
    assert A.argmax(one, by=two).reading(["a", "b"]).columns == ("a", "b")
    assert A.argmax(two).reading(["b"]).columns == ("b",)
    assert A.count_distinct(one, two, "c").reading(["a", "b", "c"]).columns == ("a", "b", "c")
    custom = A.custom(lambda x, y: x + y, lambda a, b: a + b, lambda s: s, columns=[one, two])
    assert custom.reading(["a", "b"]).columns == ("a", "b")


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        (pa.int64(), "of type bigint.*timestamp_seconds.'t'.*timestamp_millis.'t'.*timestamp_micros.'t'"),
        (pa.int32(), "of type int,.*seconds since 1970"),
        (pa.float64(), "of type double.*timestamp_seconds.'t'.*milliseconds.*/ 1000"),
        (pa.decimal128(10, 2), r"of type decimal\(10,2\).*timestamp_seconds"),
        (pa.string(), "of type string.*F.to_timestamp.'t', 'yyyy-MM-dd HH:mm:ss'"),
        (pa.date32(), "of type date.*F.to_timestamp.'t'.*midnight"),
        (pa.struct([("at", pa.timestamp("us")), ("n", pa.int64())]), r"name one of its fields: 't.at'\."),
        (pa.struct([("n", pa.int64())]), r"struct<n:bigint>.*name one of its fields: 't.n'\."),
        (pa.list_(pa.int32()), "of type array<int>.*of type timestamp"),
    ],
)
def test_a_time_column_of_another_type_gets_advice_that_fits(kind: pa.DataType, advice: str) -> None:
    with pytest.raises(MuntinError, match=f"time column 't' is.*{advice}"):
        check_time(kind, "t")


def test_the_advice_names_functions_that_spark_has() -> None:
    for name in ("timestamp_seconds", "timestamp_millis", "timestamp_micros", "to_timestamp"):
        assert callable(getattr(F, name))
