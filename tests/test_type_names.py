"""Types are called what Spark calls them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.spark.types import to_spark
from muntin.type_names import spark_name

SIMPLE = [
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.timestamp("us", tz="UTC"),
    pa.timestamp("us"),
    pa.duration("us"),
    pa.null(),
]
decimals = st.integers(1, 38).flatmap(lambda digits: st.builds(pa.decimal128, st.just(digits), st.integers(0, digits)))


def has_values(kind: pa.DataType) -> bool:
    return not pa.types.is_null(kind)


names = st.text("abc. `", min_size=1, max_size=3)


def nested(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    fields = st.lists(st.tuples(names, inner), max_size=3, unique_by=lambda field: field[0])
    return st.one_of(
        inner.map(pa.list_),
        fields.map(pa.struct),
        st.tuples(inner.filter(has_values), inner).map(lambda of: pa.map_(*of)),
    )


@given(st.recursive(st.one_of(st.sampled_from(SIMPLE), decimals), nested, max_leaves=5))
def test_a_type_has_the_name_that_spark_gives_it(kind: pa.DataType) -> None:
    assert spark_name(kind) == to_spark(kind).simpleString()


@pytest.mark.parametrize(("kind", "name"), [(pa.uint8(), "uint8"), (pa.large_string(), "string")])
def test_a_type_that_spark_does_not_have(kind: pa.DataType, name: str) -> None:
    assert spark_name(kind) == name
