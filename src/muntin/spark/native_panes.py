"""The panes of a table, made by Spark's own `groupBy`: only panes are sent to Python."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from muntin.engine.native_order import Digit
from muntin.engine.native_panes import NativePanes
from muntin.engine.native_partials import NativeAggregate
from muntin.engine.plan import Plan


def grouped_panes(plan: Plan, panes: NativePanes, frame: DataFrame) -> DataFrame:
    """One row per key and pane: the key, the start of the pane in microseconds, and the aggregates.

    All rows of a key are in one partition.
    """
    # Names of the data may differ only by case, which Spark may ignore.
    names = {name: f"column_{index}" for index, name in enumerate(frame.columns)}
    rows = frame.toDF(*names.values())
    keys = [F.col(names[name]).alias(f"key_{index}") for index, name in enumerate(plan.keys)]
    computed = [
        _aggregate(aggregate, plan, names).alias(f"aggregate_{index}")
        for index, aggregate in enumerate(panes.aggregates)
    ]
    grouped = rows.groupBy(*keys, _start(plan, F.col(names[plan.time])).alias("pane")).agg(*computed)
    if not keys:
        return grouped.repartition(1)
    # Without a number of partitions, Spark joins small ones. It never splits a key's rows.
    return grouped.repartition(*(F.col(f"key_{index}") for index in range(len(keys))))


def _start(plan: Plan, time: Column) -> Column:
    """The start of the pane that contains a time; null for null."""
    return _microseconds(plan, time) - _since_start(plan, time)


def _since_start(plan: Plan, time: Column) -> Column:
    """The microseconds from the start of the pane to a time."""
    microseconds, offset = _microseconds(plan, time), plan.grid.offset
    return F.pmod(microseconds - F.lit(offset) if offset else microseconds, F.lit(plan.grid.length))


def _microseconds(plan: Plan, time: Column) -> Column:
    if plan.types[plan.time].tz is not None:
        return F.unix_micros(time)
    since = time - F.expr("TIMESTAMP_NTZ '1970-01-01 00:00:00'")  # independent of the session's time zone
    return F.call_function("div", since, F.expr("INTERVAL '0.000001' SECOND"))


def _aggregate(aggregate: NativeAggregate, plan: Plan, names: dict[str, str]) -> Column:
    if aggregate.digits:
        given = _packed(aggregate.digits, plan, names)
    else:
        given = F.lit(1) if aggregate.column is None else F.col(names[aggregate.column])
    if aggregate.function in ("mean", "variance"):
        given = given.cast("double")
    elif aggregate.function == "high sum":
        given = F.shiftright(given, 32)
    elif aggregate.function == "low sum":
        given = given.bitwiseAND(F.lit(0xFFFFFFFF))
    if aggregate.where is not None:
        given = F.when(F.col(names[aggregate.where]), given)
    return _FUNCTIONS[aggregate.function](given)


def _packed(digits: Sequence[Digit], plan: Plan, names: dict[str, str]) -> Column:
    """Digits as one integer; null if one of them is."""
    first, *others = digits
    packed = _digit(first, plan, names) - F.lit(1 << (first.bits - 1))
    for digit in others:
        packed = F.shiftleft(packed, digit.bits).bitwiseOR(_digit(digit, plan, names))
    return packed


def _digit(digit: Digit, plan: Plan, names: dict[str, str]) -> Column:
    if digit.column is None:
        number = _since_start(plan, F.col(names[plan.time]))
    elif digit.nullness:
        number = F.col(names[digit.column]).isNull().cast("long")
    else:
        number = _integer(F.col(names[digit.column]), plan.types[digit.column], digit.scale)
    number = number + F.lit(digit.shift) if digit.shift else number
    number = F.lit(digit.mask) - number if digit.inverted else number
    return F.coalesce(number, F.lit(0)) if digit.optional else number


def _integer(column: Column, kind: pa.DataType, scale: int) -> Column:
    if pa.types.is_date32(kind):
        return F.unix_date(column).cast("long")
    return (column * F.lit(Decimal(10**scale)) if scale else column).cast("long")


_FUNCTIONS = {
    "count": F.count,
    "sum": F.sum,
    "high sum": F.sum,
    "low sum": F.sum,
    "mean": F.avg,
    "variance": F.var_pop,
    "min": F.min,
    "max": F.max,
    "least": F.min,
}
