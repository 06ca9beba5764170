"""What the holistic aggregates answer with, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from muntin import aggregates as A
from muntin.errors import MuntinError
from tests import builders
from tests.builders import bind

TYPES = builders.TYPES | {
    "d": pa.decimal128(10, 2),
    "day": pa.date32(),
    "short": pa.int16(),
    "single": pa.float32(),
    "blob": pa.binary(),
    "many": pa.list_(pa.int64()),
    "map": pa.map_(pa.string(), pa.int64()),
}
OF_ONE_COLUMN: dict[str, Callable[..., A.Aggregate]] = {
    "median": A.median,
    "quantile": lambda column, **others: A.quantile(column, 0.5, **others),
    "mode": A.mode,
    "count_distinct": A.count_distinct,
    "collect": A.collect,
    "top_k": lambda column, **others: A.top_k(column, 2, **others),
}


def pairs_of(kind: pa.DataType) -> pa.DataType:
    return pa.list_(pa.struct([("item", kind), ("count", pa.int64())]))


@pytest.mark.parametrize(
    ("aggregate", "result"),
    [
        (A.median("n"), pa.float64()),
        (A.median("single"), pa.float64()),
        (A.median("d"), pa.float64()),
        (A.quantile("short", 1), pa.float64()),
        (A.quantile("x", [0.5]), pa.list_(pa.float64())),
        (A.quantile("x", (0, 0.5, 1)), pa.list_(pa.float64())),
        (A.mode("w"), pa.string()),
        (A.mode("d"), pa.decimal128(10, 2)),
        (A.mode("t"), builders.TIME),
        (A.mode("kept"), pa.bool_()),
        (A.count_distinct("day"), pa.int64()),
        (A.count_distinct("blob"), pa.int64()),
        (A.collect("short"), pa.list_(pa.int16())),
        (A.collect("many"), pa.list_(pa.list_(pa.int64()))),
        (A.collect("s"), pa.list_(TYPES["s"])),
        (A.top_k("single", 3), pairs_of(pa.float32())),
        (A.top_k("day", 1), pairs_of(pa.date32())),
    ],
)
def test_results(aggregate: A.Aggregate, result: pa.DataType) -> None:
    bound = bind(aggregate, TYPES)
    assert bound.result == result
    assert bound.partials == ()
    assert bound.holistic is not None


@pytest.mark.parametrize("name", OF_ONE_COLUMN)
def test_what_they_read(name: str) -> None:
    assert OF_ONE_COLUMN[name]("n").columns == ("n",)
    assert bind(OF_ONE_COLUMN[name]("n")).inputs == ("n",)
    assert bind(OF_ONE_COLUMN[name]("n", where="kept")).inputs == ("n", "kept")


@pytest.mark.parametrize("name", OF_ONE_COLUMN)
@pytest.mark.parametrize("column", [None, 3, "", ["n"]])
def test_what_is_not_the_name_of_a_column(name: str, column: Any) -> None:
    with pytest.raises(MuntinError, match=r"column must be the name of a column.*got "):
        OF_ONE_COLUMN[name](column)


@pytest.mark.parametrize("name", OF_ONE_COLUMN)
def test_an_unknown_column_gets_a_hint(name: str) -> None:
    with pytest.raises(MuntinError, match=r"There is no column 'singel' in the data\. Did you mean 'single'\?"):
        bind(OF_ONE_COLUMN[name]("singel"), TYPES)


@pytest.mark.parametrize("name", OF_ONE_COLUMN)
def test_an_empty_filter(name: str) -> None:
    with pytest.raises(MuntinError, match="where is an empty string"):
        OF_ONE_COLUMN[name]("n", where=" ")


@pytest.mark.parametrize("column", ["w", "day", "kept", "t", "many", "s"])
def test_a_quantile_needs_numbers(column: str) -> None:
    message = f"a quantile needs numbers, but column '{column}' is of type "
    for aggregate in (A.median(column), A.quantile(column, [0.1, 0.9])):
        with pytest.raises(MuntinError, match=message):
            bind(aggregate, TYPES)


@pytest.mark.parametrize("name", ["mode", "count_distinct", "top_k"])
@pytest.mark.parametrize("column", ["many", "s", "map"])
def test_values_that_have_no_order(name: str, column: str) -> None:
    with pytest.raises(MuntinError, match=f"column '{column}' is of type .*, whose values cannot be compared here"):
        bind(OF_ONE_COLUMN[name](column), TYPES)


@pytest.mark.parametrize("wrong", [-0.1, 1.01, float("nan"), True, None, [0.5, 2], [0.5, "1"], [True]])
def test_a_probability_is_from_0_to_1(wrong: Any) -> None:
    with pytest.raises(MuntinError, match=r"probability must be a number from 0 to 1, such as 0\.95, got "):
        A.quantile("x", wrong)


@pytest.mark.parametrize("wrong", [[], (), "0.5", ""])
def test_probabilities_are_numbers(wrong: Any) -> None:
    with pytest.raises(MuntinError, match="probability must be a number from 0 to 1, or several of them, got "):
        A.quantile("x", wrong)


@pytest.mark.parametrize("wrong", [0, -1, 1.0, True, "2", None])
def test_k_is_a_whole_number(wrong: Any) -> None:
    with pytest.raises(MuntinError, match="k must be a whole number from 1, got "):
        A.top_k("w", wrong)


def test_a_median_is_a_quantile() -> None:
    assert bind(A.median("x")).holistic == bind(A.quantile("x", 0.5)).holistic
