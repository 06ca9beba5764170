"""A join on Spark: both sides as frames of the same columns, conditions, and what is made of pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from muntin.errors import MuntinError
from muntin.joins.names import MARKS, SIDES, TIME
from muntin.joins.sides import Condition, Side
from muntin.query.backend import Resolved as AnyColumn
from muntin.spark.build import build
from muntin.spark.columns import map_in_arrow, quietly, quoted
from muntin.spark.source import Beside, Source
from muntin.spark.types import schema_to_spark, to_spark
from muntin.spark.watermark import check_watermark

if TYPE_CHECKING:
    from muntin.joins.join import Join, Prepared


def build_join(join: Join, prepared: Prepared) -> DataFrame:
    if prepared.query.source.streaming:
        for side in join.sides:
            check_watermark(side.source, side.time.read, side.delay, side.which)
    over_pairs = prepared.over_pairs
    if over_pairs is None or not prepared.conditions:
        return _with_late(join, build(prepared.query, over_pairs))
    # The pairs of a shard stay in one task, in their order: conditions are computed on the way.
    pairs = build(prepared.query)
    conditions = [_condition(where).alias(name) for name, where in prepared.conditions.items()]
    read = [name for name in over_pairs.read if name not in prepared.conditions]
    read += ["late"] * (over_pairs.late_row is not None)
    chosen = pairs.select(*(quoted(pairs, name) for name in read), *conditions)
    return _with_late(join, map_in_arrow(chosen, over_pairs.run, schema_to_spark(over_pairs.schema)))


def union_source(left: Side, right: Side, on: Sequence[str], conditions: Mapping[str, Condition]) -> Source:
    """Both sides with the columns of both: one is the input of the query, the other stands beside it."""
    types = {key: left.keys[key].kind for key in on} | {TIME: left.time.kind}
    types |= dict.fromkeys(MARKS.values(), pa.bool_()) | left.types | right.types
    types |= dict.fromkeys(conditions, pa.bool_())
    first, second = (_frame(side, on, types, conditions) for side in (left, right))
    unreadable = left.unreadable | right.unreadable
    own = [side.source.watermarks.get(side.time.read) for side in (left, right)]
    beside = Beside(second, right.delay, own[1] is not None)
    watermarks = {} if own[0] is None else {TIME: own[0]}
    return Source(first, types, unreadable, left.source.streaming, (beside,), watermarks)


def named(side: Side, on: Sequence[str]) -> DataFrame:
    """A side's rows under the names of the joined rows, and their time. A key that is null is equal to nothing."""
    frame = side.source.frame
    ambiguous = {name for name in frame.columns if frame.columns.count(name) > 1}
    # A column that keeps its name stays the same to Spark, so that conditions such as `left["fare"] > 10` find it.
    columns = [_read(frame, side.keys[key], key) for key in on] + [
        quoted(frame, own) if own == joined else quoted(frame, own).alias(joined)
        for joined, own in side.names.items()
        if own not in ambiguous
    ]
    known = frame.select(*columns, _read(frame, side.time, TIME))
    for key in on:
        known = known.where(quoted(known, key).isNotNull())
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
            column = quoted(frame, name)
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
    unreadable = join.left.unreadable | join.right.unreadable
    return Source(spark.createDataFrame([], T.StructType(fields)), join.types, unreadable, False)


def read_by(where: Any, join: Join) -> list[str]:
    """The columns of joined rows that a condition cannot do without."""
    frame = both_sides(join).frame
    others = {name: [quoted(frame, other) for other in join.types if other != name] for name in join.types}
    return [name for name, columns in others.items() if not is_condition(where, frame.select(*columns))]


def is_condition(where: Any, frame: DataFrame) -> bool:
    """Whether Spark can compute it of these rows."""
    try:
        with quietly():
            Source(frame, {}, {}, False).filter(where)
    except MuntinError:
        return False
    return True


def _with_late(join: Join, frame: DataFrame) -> DataFrame:
    """Late rows with the columns that they came with, in the field of their side."""
    if "late" not in frame.columns:
        return frame
    late = F.col("late")
    parts = []
    for which, side in zip(SIDES, join.sides, strict=True):
        joined = {key.read: name for name, key in side.keys.items()} | {own: name for name, own in side.names.items()}
        row = [late.getField(joined.get(name, name)).alias(name) for name in side.source.frame.columns]
        parts.append(F.when(late.getField(MARKS[which]), F.struct(*row)).alias(which))
    return frame.withColumn("late", F.when(late.isNotNull(), F.struct(*parts)))


def _condition(where: Any) -> Column:
    return F.expr(where) if isinstance(where, str) else where


def _read(frame: DataFrame, column: AnyColumn, name: str) -> Column:
    """A column of a side, under the name that it has in the joined rows."""
    found = quoted(frame, column.read) if column.computed is None else column.computed
    return found if column.read == name else found.alias(name)
