"""The same steps without Spark and on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import muntin
from muntin import aggregates as A
from muntin import windows as W
from muntin.testing import Stream, assert_windows
from tests.testing import script


@pytest.mark.parametrize("query", [pytest.param(script.late, marks=pytest.mark.extended), script.changing])
def test_every_step_is_the_same_on_spark(spark: SparkSession, query: Callable[[Any], muntin.Query]) -> None:
    """Results, late rows, watermarks and counts: with a restart, and a watermark that moves without rows."""
    alone = script.steps(Stream(query, script.SCHEMA))
    stream = Stream(query, script.SCHEMA, spark=spark)
    on_spark = script.steps(stream)
    for number, (ours, sparks) in enumerate(zip(alone, on_spark, strict=True)):
        assert_windows(sparks.results, ours.results)
        assert sparks.late == ours.late
        assert sparks.watermark == ours.watermark, number
        assert (sparks.late_rows, sparks.invalid_rows) == (ours.late_rows, ours.invalid_rows), number
        assert sparks.metrics["panes"] == ours.metrics["panes"]
    stream.stop()


def test_expressions_need_spark(spark: SparkSession) -> None:
    def query(data: Any) -> muntin.Query:
        over = muntin.over(data, W.tumbling("1 hour"), time=F.to_timestamp("text"), watermark="10 minutes")
        return over.agg(n=A.count(where="length(text) > 3"))

    with pytest.raises(muntin.MuntinError, match=r"is not computed without Spark\. Run the test on Spark for that"):
        Stream(query, "text string")
    stream = Stream(query, "text string", spark=spark)
    step = stream.batch([("2024-05-01 12:00",), ("2024-05-03 12:00",)])
    assert [row["n"] for row in step.results] == [1]
    with pytest.raises(muntin.MuntinError, match="this query has an expression as time"):
        stream.watermark("2024-05-02")
    stream.stop()
