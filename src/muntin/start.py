"""`over()`: where a query over one table or stream starts, and what is checked of its input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from muntin.aggregates.values import is_number
from muntin.durations import Duration, microseconds_from_zero
from muntin.errors import MuntinError
from muntin.panes.keys import check_key_type
from muntin.query import RESERVED, Query, check_column, column_names
from muntin.windows import DeltaWindow, Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from muntin.spark.source import Source


def over(
    data: DataFrame,
    *windows: Window,
    time: str,
    watermark: Duration | None = None,
    by: str | Sequence[str] = (),
    max_ahead: Duration | None = None,
) -> Query:
    """Start a query: windows over the `time` column of `data`, per key of `by`.

    `watermark` is how late rows may come behind the latest one; streams need it, unless the time column has a
    watermark already, by `withWatermark`. Tables do without. Rows that are further ahead of the clock than `max_ahead`
    are invalid: they are counted, and do not move the watermark.
    """
    from muntin.spark.source import Source

    source = Source.of(data)
    keys = column_names(by, "by")
    _check_windows(windows, source)
    _check_time(source, time)
    for key in keys:
        check_column(source, key, "by column")
        check_key_type(source.types[key], key)
        if key in RESERVED:
            raise MuntinError(f"by column {key!r} has the name of a result's own column; rename it first.")
    for position, key in enumerate(keys):
        if key in keys[:position]:
            raise MuntinError(f"by names the column {key!r} twice; name it once.")
    delay = source.watermarks.get(time) if watermark is None else microseconds_from_zero(watermark, "watermark")
    if source.streaming and delay is None:
        raise MuntinError(
            "watermark is missing: a stream needs it to know when a window is complete; give how late rows may come, "
            f"such as watermark='10 minutes', or call withWatermark on {time!r} where the data come from."
        )
    return Query(source, windows, time, delay, keys, max_ahead=ahead_limit(max_ahead, source, time))


def ahead_limit(max_ahead: Duration | None, source: Source, time: str, which: str = "data") -> int | None:
    """How far ahead of the clock the rows of an input may be, in microseconds."""
    if max_ahead is None:
        return None
    if time in source.watermarks:
        raise MuntinError(
            f"max_ahead keeps rows from moving the watermark, but {which} brings its own, by withWatermark, and that "
            "has seen them; leave withWatermark out and give watermark=, or filter the rows before withWatermark."
        )
    return microseconds_from_zero(max_ahead, "max_ahead")


def _check_windows(windows: Sequence[Window], source: Source) -> None:
    if not windows:
        raise MuntinError("windows is empty; give at least one, such as W.tumbling('5 minutes').")
    for window in windows:
        if not isinstance(window, Window):
            raise MuntinError(
                f"{window!r} is not a window; use one of muntin.windows, such as W.tumbling('5 minutes')."
            )
        if isinstance(window, DeltaWindow):
            check_column(source, window.column, "delta's column")
            kind = source.types[window.column]
            if not is_number(kind):
                raise MuntinError(
                    f"delta's column {window.column!r} is of type {kind}, not a number; cast it to a double or a long."
                )
    titles = [window.title for window in windows]
    for position, title in enumerate(titles):
        if title in titles[:position]:
            raise MuntinError(f"Two windows are called {title!r}; give each its own name=.")


def _check_time(source: Source, time: str) -> None:
    check_column(source, time, "time column")
    kind = source.types[time]
    if not pa.types.is_timestamp(kind):
        raise MuntinError(
            f"time column {time!r} is of type {kind}, not a timestamp; cast it, such as F.to_timestamp({time!r})."
        )
