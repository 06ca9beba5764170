"""The functions of Spark that queries and joins need: see `muntin.query.backend` and `muntin.joins.backend`."""

from __future__ import annotations

from pyspark.sql import DataFrame

from muntin.spark import session
from muntin.spark.build import to_df
from muntin.spark.columns import case_sensitive, resolved
from muntin.spark.join import both_sides, build_join, is_condition, named, read_by, union_source
from muntin.spark.scan import frame_of
from muntin.spark.source import Source
from muntin.spark.types import result_fields

__all__ = [
    "both_sides",
    "build_join",
    "case_sensitive",
    "frame_of",
    "is_condition",
    "most_workers",
    "named",
    "read_by",
    "resolved",
    "result_fields",
    "source_of",
    "to_df",
    "union_source",
]

source_of = Source.of


def most_workers(frame: DataFrame) -> int:
    """The largest number of workers in the session of a DataFrame."""
    return session.most_workers(frame.sparkSession)
