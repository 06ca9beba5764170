"""`muntin.drift()`: how much the groups change from window to window, from a query's results (CoD, section II.C)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from muntin.errors import MuntinError, suggest
from muntin.spark.roles import columns_with


def drift(result: DataFrame, *, by: str | Sequence[str] | None = None, count: str | None = None) -> DataFrame:
    """Compute how much the groups of each window differ from those of the window before it.

    Returns a row for every window that follows directly on another with results. Its columns are `window`,
    `window_name` if the results have it, `overlap` (the share of the groups of either window that are in both) and
    `distance` (how far the frequencies of the groups are apart, from 0 to 1, after Bray and Curtis).

    Parameters
    ----------
    result
        The result of a query over a table, or the written results of a stream, read back.
    by
        The key columns; by default those that are marked in the metadata of the columns.
    count
        The column with the frequency of a group; by default the query's `A.count()`, else the size in `quality`,
        else 1.

    Examples
    --------
    >>> hours = muntin.over(table, W.tumbling("15 minutes"), time="at", by="route").agg(n=A.count())
    >>> [row.overlap for row in muntin.drift(hours.to_df()).orderBy("window").collect()]
    [0.5, 0.0, 0.0]
    """
    if not isinstance(result, DataFrame):
        raise MuntinError(f"result must be the DataFrame of a query's results, got {type(result).__name__}.")
    if result.isStreaming:
        raise MuntinError(
            "result is a stream, and drift() needs complete results; read back what the stream has written, or "
            "get the overlap and the distance of the last windows from muntin.progress(query)."
        )
    for name in ("window", "window_id"):
        if name not in result.columns:
            raise MuntinError(f"result has no column {name!r}; give the results of a query, with all their columns.")
    keys = _keys(result, by)
    models = [name for name in ("window_name",) if name in result.columns]
    groups = [f"group_{place}" for place in range(len(keys))]
    rows = result.where(F.col("window").isNotNull()).select(
        "window",
        "window_id",
        *models,
        *(_column(key).alias(group) for key, group in zip(keys, groups, strict=True)),
        _frequency(result, count).alias("rows"),
    )
    nothing = F.lit(None).cast(rows.schema["window"].dataType)
    # Every window is in two pairs: as the later one with the window before it, as the earlier one with the next.
    later = _part(F.col("window"), F.col("window_id"), F.col("rows"), F.lit(0.0))
    earlier = _part(nothing, F.col("window_id") + 1, F.lit(0.0), F.col("rows"))
    return _compared(rows.select(*models, *groups, F.inline(F.array(later, earlier))), models, groups)


def _part(window: Column, pair: Column, later: Column, earlier: Column) -> Column:
    return F.struct(window.alias("window"), pair.alias("pair"), later.alias("later"), earlier.alias("earlier"))


def _compared(pairs: DataFrame, models: list[str], groups: list[str]) -> DataFrame:
    """Overlap and distance of each pair, from rows per group as the later and as the earlier window."""
    is_later = F.col("window").isNotNull()
    by_group = pairs.groupBy("pair", *models, *groups).agg(
        F.max("window").alias("window"),
        F.max(is_later).alias("is_later"),
        F.max(~is_later).alias("is_earlier"),
        F.sum("later").alias("later"),
        F.sum("earlier").alias("earlier"),
    )
    both = (F.col("is_later") & F.col("is_earlier")).cast("long")
    apart, total = F.sum(F.abs(F.col("later") - F.col("earlier"))), F.sum(F.col("later") + F.col("earlier"))
    compared = by_group.groupBy("pair", *models).agg(
        F.max("window").alias("window"),
        F.max("is_later").alias("is_later"),
        F.max("is_earlier").alias("is_earlier"),
        (F.sum(both) / F.count(F.lit(1))).alias("overlap"),
        F.when(total > 0, apart / total).otherwise(0.0).alias("distance"),
    )
    return compared.where("is_later AND is_earlier").select("window", *models, "overlap", "distance")


def _keys(result: DataFrame, by: Any) -> list[str]:
    if by is None:
        marked = columns_with(result, "key")
        if not marked:
            raise MuntinError(
                "result does not mark its key columns: the query has no keys, its windows are not over time, or the "
                "metadata of the columns was lost; name the keys with by=."
            )
        return marked
    keys = [by] if isinstance(by, str) else list(by) if isinstance(by, Sequence) else [by]
    if not keys:
        raise MuntinError("by is empty; name the columns of result that are keys.")
    for key in keys:
        _check_column(result, key, "by")
    return keys


def _frequency(result: DataFrame, count: Any) -> Column:
    if count is not None:
        _check_column(result, count, "count")
        kind = result.schema[count].dataType
        if not isinstance(kind, T.NumericType):
            raise MuntinError(f"count column {count!r} is of type {kind.simpleString()}, not a number; name another.")
        return _number(_column(count))
    marked = columns_with(result, "count")
    if marked:
        return _number(_column(marked[0]))
    quality = result.schema["quality"].dataType if "quality" in result.columns else None
    if isinstance(quality, T.StructType) and "size" in quality.names:
        return _number(F.col("quality.size"))
    return F.lit(1.0)


def _number(column: Column) -> Column:
    return F.coalesce(column.cast("double"), F.lit(0.0))


def _check_column(result: DataFrame, column: Any, argument: str) -> None:
    if not isinstance(column, str):
        raise MuntinError(f"{argument} must be the name of a column of result, got {column!r}.")
    if column not in result.columns:
        raise MuntinError(f"{argument} column {column!r} is not in result. {suggest(column, result.columns)}")


def _column(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")
