"""A join on Spark: both sides as frames of the same columns, conditions, and what is made of pairs."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.logger import PySparkLogger
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from muntin.errors import MuntinError
from muntin.joins.names import MARKS, SIDES, TIME
from muntin.joins.sides import Condition, Side
from muntin.spark.build import build
from muntin.spark.source import Beside, Source
from muntin.spark.types import schema_to_spark, to_spark
from muntin.spark.watermark import check_watermark

if TYPE_CHECKING:
    from muntin.joins.join import Join, Prepared


def build_join(join: Join, prepared: Prepared) -> DataFrame:
    if prepared.query.source.streaming:
        for side in join.sides:
            check_watermark(side.source, side.time, side.delay, side.which)
    over_pairs = prepared.over_pairs
    if over_pairs is None or not prepared.conditions:
        return _with_late(join, build(prepared.query, over_pairs))
    # The pairs of a shard stay in one task, in their order: conditions are computed on the way.
    pairs = build(prepared.query)
    conditions = [_condition(where).alias(name) for name, where in prepared.conditions.items()]
    read = [name for name in over_pairs.read if name not in prepared.conditions]
    read += ["late"] * (over_pairs.late_row is not None)
    chosen = pairs.select(*(_column(pairs, name) for name in read), *conditions)
    return _with_late(join, chosen.mapInArrow(over_pairs.run, schema_to_spark(over_pairs.schema)))


def union_source(left: Side, right: Side, on: Sequence[str], conditions: Mapping[str, Condition]) -> Source:
    """Both sides with the columns of both: one is the input of the query, the other stands beside it."""
    types = {key: left.source.types[key] for key in on} | {TIME: left.source.types[left.time]}
    types |= dict.fromkeys(MARKS.values(), pa.bool_()) | left.types | right.types
    types |= dict.fromkeys(conditions, pa.bool_())
    first, second = (_frame(side, on, types, conditions) for side in (left, right))
    unreadable = left.unreadable | right.unreadable
    own = [side.source.watermarks.get(side.time) for side in (left, right)]
    beside = Beside(second, right.delay, own[1] is not None)
    watermarks = {} if own[0] is None else {TIME: own[0]}
    return Source(first, types, unreadable, left.source.streaming, (beside,), watermarks)


def named(side: Side, on: Sequence[str]) -> DataFrame:
    """A side's rows under the names of the joined rows, and their time. A key that is null is equal to nothing."""
    frame = side.source.frame
    ambiguous = {name for name in frame.columns if frame.columns.count(name) > 1}
    # A column that keeps its name stays the same to Spark, so that conditions such as `left["fare"] > 10` find it.
    columns = [_column(frame, key) for key in on] + [
        _column(frame, own) if own == joined else _column(frame, own).alias(joined)
        for joined, own in side.names.items()
        if own not in ambiguous
    ]
    known = frame.select(*columns, _column(frame, side.time).alias(TIME))
    for key in on:
        known = known.where(_column(known, key).isNotNull())
    return known


def _frame(
    side: Side, on: Sequence[str], types: Mapping[str, pa.DataType], conditions: Mapping[str, Condition]
) -> DataFrame:
    """A side's rows with the columns of both; those of the other side are null."""
    frame = named(side, on)
    own = {*on, TIME, *side.types}
    columns = []
    for name, kind in types.items():
        if name in own:
            column = _column(frame, name)
        elif name in MARKS.values():
            column = F.lit(name == MARKS[side.which])
        elif name in conditions:
            of = conditions[name]
            column = _condition(of.where) if of.side == side.which else F.lit(False)
        else:
            column = F.lit(None).cast(to_spark(kind))
        columns.append(column.alias(name))
    return frame.select(*columns)


def both_sides(join: Join) -> Source:
    """Joined rows, of which there are none: for Spark to tell what can be said of them."""
    spark = join.left.source.frame.sparkSession
    fields = [T.StructField(name, to_spark(kind)) for name, kind in join.types.items()]
    return Source(spark.createDataFrame([], T.StructType(fields)), join.types, {}, False)


def read_by(where: Any, join: Join) -> list[str]:
    """The columns of joined rows that a condition cannot do without."""
    frame = both_sides(join).frame
    others = {name: [_column(frame, other) for other in join.types if other != name] for name in join.types}
    return [name for name, columns in others.items() if not is_condition(where, frame.select(*columns))]


def is_condition(where: Any, frame: DataFrame) -> bool:
    """Whether Spark can compute it of these rows."""
    try:
        with _quietly():
            Source(frame, {}, {}, False).filter(where)
    except MuntinError:
        return False
    return True


@contextmanager
def _quietly() -> Iterator[None]:
    """Spark logs every condition that it cannot compute, with a stack trace; here it has only been asked whether."""
    loggers = [PySparkLogger.getLogger(name) for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _with_late(join: Join, frame: DataFrame) -> DataFrame:
    """Late rows with the columns that they came with, in the field of their side."""
    if "late" not in frame.columns:
        return frame
    late = F.col("late")
    parts = []
    for which, side in zip(SIDES, join.sides, strict=True):
        joined = {own: name for name, own in side.names.items()}
        row = [late.getField(joined.get(name, name)).alias(name) for name in side.source.frame.columns]
        parts.append(F.when(late.getField(MARKS[which]), F.struct(*row)).alias(which))
    return frame.withColumn("late", F.when(late.isNotNull(), F.struct(*parts)))


def _condition(where: Any) -> Column:
    return F.expr(where) if isinstance(where, str) else where


def _column(frame: DataFrame, name: str) -> Column:
    return frame["`" + name.replace("`", "``") + "`"]
