"""A join on Spark: the union of both sides, the conditions, and the aggregates of pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from muntin.engine.schema import LATENESS
from muntin.errors import MuntinError
from muntin.joins.names import MARKS, SIDE_FLAGS, TIME
from muntin.joins.sides import Condition, Side
from muntin.query.backend import Resolved as AnyColumn
from muntin.spark.build import build, with_event_time
from muntin.spark.columns import map_in_arrow, quietly, quoted
from muntin.spark.source import Beside, Source
from muntin.spark.types import schema_to_spark, to_spark
from muntin.spark.watermark import check_watermark

if TYPE_CHECKING:
    from muntin.joins.join import Join, Prepared


def build_join(join: Join, prepared: Prepared) -> DataFrame:
    return with_event_time(_built(join, prepared), prepared.query)


def _built(join: Join, prepared: Prepared) -> DataFrame:
    if prepared.query.source.streaming:
        for side in join.sides:
            marks = None if side.watermark.column is None else side.followed
            check_watermark(side.source, side.time.read, side.delay, side.which, marks)
    over_pairs = prepared.over_pairs
    if over_pairs is None or not prepared.conditions:
        return _with_late(join, build(prepared.query, over_pairs))
    # The pairs of a shard stay in one task, in their order, so conditions can be computed before the aggregates.
    pairs = build(prepared.query)
    conditions = [_condition(where).alias(name) for name, where in prepared.conditions.items()]
    read = [name for name in over_pairs.read if name not in prepared.conditions]
    read += ["late", LATENESS] * (over_pairs.late_row is not None)
    pairs = pairs.select(*(quoted(pairs, name) for name in read), *conditions)
    return _with_late(join, map_in_arrow(pairs, over_pairs.run, schema_to_spark(over_pairs.schema)))


def union_source(left: Side, right: Side, on: Sequence[str], conditions: Mapping[str, Condition]) -> Source:
    """Both sides with the columns of both: the left one is the input of the query, the right one the further input."""
    types = {key: left.keys[key].kind for key in on} | {TIME: left.time.kind}
    types |= dict.fromkeys(SIDE_FLAGS.values(), pa.bool_()) | left.types | right.types
    types |= dict.fromkeys(conditions, pa.bool_())
    if left.source.streaming and any(side.watermark.column is not None for side in (left, right)):
        types[MARKS] = left.time.kind
    first, second = (_frame(side, on, types, conditions) for side in (left, right))
    unreadable = left.unreadable | right.unreadable
    beside = Beside(second, right.delay, right.has_own_watermark)
    followed = MARKS if MARKS in types else TIME
    watermarks = {followed: left.source.watermarks[left.followed]} if left.has_own_watermark else {}
    return Source(first, types, unreadable, left.source.streaming, (beside,), watermarks)


def named(side: Side, on: Sequence[str]) -> DataFrame:
    """A side's rows under the names of the joined rows, and their time, without null keys, which match nothing."""
    frame = side.source.frame
    ambiguous = {name for name in frame.columns if frame.columns.count(name) > 1}
    # A column that keeps its name is not aliased, so that conditions such as `left["fare"] > 10` still resolve.
    columns = [_read(frame, side.keys[key], key) for key in on] + [
        quoted(frame, name) if name == joined else quoted(frame, name).alias(joined)
        for joined, name in side.names.items()
        if name not in ambiguous
    ]
    if side.watermark.column is None:
        rows = frame.select(*columns, _read(frame, side.time, TIME))
        return rows.where(_has_keys(rows, on))
    rows = frame.select(*columns, _read(frame, side.time, TIME), _read(frame, side.watermark.column, MARKS))
    # A row that carries a watermark moves it, whatever its keys are; without a time, it is in no window.
    rows = rows.where(_has_keys(rows, on) | quoted(rows, MARKS).isNotNull())
    return rows.withColumn(TIME, F.when(_has_keys(rows, on), quoted(rows, TIME)))


def _has_keys(rows: DataFrame, on: Sequence[str]) -> Column:
    return reduce(and_, (quoted(rows, key).isNotNull() for key in on))


def _frame(
    side: Side, on: Sequence[str], types: Mapping[str, pa.DataType], conditions: Mapping[str, Condition]
) -> DataFrame:
    """A side's rows with the columns of both; those of the other side are null."""
    frame = named(side, on)
    own_names = {*on, TIME, *side.types}
    columns = []
    for name, kind in types.items():
        if name in own_names:
            column = quoted(frame, name)
        elif name == MARKS:
            column = quoted(frame, TIME if side.watermark.column is None else MARKS)
        elif name in SIDE_FLAGS.values():
            column = F.lit(name == SIDE_FLAGS[side.which])
        elif name in conditions:
            condition = conditions[name]
            column = _condition(condition.where) if condition.side == side.which else F.lit(False)
        else:
            column = F.lit(None).cast(to_spark(kind))
        columns.append(column.alias(name))
    return frame.select(*columns)


def both_sides(join: Join) -> Source:
    """An empty frame of joined rows, for Spark to resolve columns and conditions."""
    spark = join.left.source.frame.sparkSession
    fields = [T.StructField(name, to_spark(kind)) for name, kind in join.types.items()]
    unreadable = join.left.unreadable | join.right.unreadable
    return Source(spark.createDataFrame([], T.StructType(fields)), join.types, unreadable, False)


def read_by(where: Any, join: Join) -> list[str]:
    """The columns of joined rows that a condition needs."""
    frame = both_sides(join).frame
    others = {name: [quoted(frame, other) for other in join.types if other != name] for name in join.types}
    return [name for name, columns in others.items() if not is_condition(where, frame.select(*columns))]


def is_condition(where: Any, frame: DataFrame) -> bool:
    """Whether Spark can compute the condition on these rows."""
    try:
        with quietly():
            Source(frame, {}, {}, False).filter(where)
    except MuntinError:
        return False
    return True


def _with_late(join: Join, frame: DataFrame) -> DataFrame:
    """Late rows with their original columns, in the field of their side."""
    if "late" not in frame.columns:
        return frame
    late = F.col("late")
    parts = []
    for side in join.sides:
        joined = {key.read: name for name, key in side.keys.items()}
        joined |= {name: joined_name for joined_name, name in side.names.items()}
        row = [late.getField(joined.get(name, name)).alias(name) for name in side.source.frame.columns]
        parts.append(F.when(late.getField(SIDE_FLAGS[side.which]), F.struct(*row)).alias(side.which))
    return frame.withColumn("late", F.when(late.isNotNull(), F.struct(*parts)))


def _condition(where: Any) -> Column:
    return F.expr(where) if isinstance(where, str) else where


def _read(frame: DataFrame, column: AnyColumn, name: str) -> Column:
    """A column of a side, under its name in the joined rows."""
    expression = quoted(frame, column.read) if column.computed is None else column.computed
    return expression if column.read == name else expression.alias(name)
