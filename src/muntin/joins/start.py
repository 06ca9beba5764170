"""`join()`: two inputs, their keys, times and watermarks, each checked when it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin.durations import Duration, microseconds_from_zero
from muntin.errors import MuntinError, suggest
from muntin.joins.join import Join
from muntin.joins.names import SIDES, TIME, Which, joined_names
from muntin.joins.sides import Side
from muntin.panes.keys import check_key_type
from muntin.query import RESERVED, Query, column_names
from muntin.start import ahead_limit
from muntin.windows import PaneWindow, Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from muntin.spark.source import Source


def join(
    left: DataFrame,
    right: DataFrame,
    window: Window,
    *,
    on: str | Sequence[str] = (),
    time: str | tuple[str, str] | None = None,
    watermark: Duration | tuple[Duration | None, Duration | None] | None = None,
    max_ahead: Duration | None = None,
) -> Join:
    """Start a join of two streams or of two tables: the pairs that agree in `on` and lie in the same window.

    `time` is the time column, or a pair of them if the sides call it otherwise. `watermark` is how late rows may come
    behind the latest of their side, one for both or a pair; streams need it, unless the time column of the side has a
    watermark already, by `withWatermark`. Rows of either side that are further ahead of the clock than `max_ahead` are
    invalid, as with `over()`.
    """
    from muntin.spark.join import union_source
    from muntin.spark.source import Source

    sources: dict[Which, Source] = {
        which: Source.of(data, which) for which, data in zip(SIDES, (left, right), strict=True)
    }
    _check_alike(sources)
    _check_window(window)
    keys = column_names(on, "on")
    _check_keys(keys, sources)
    if time is None:
        raise MuntinError("time is missing; name the time column, such as time='ts', or a pair (left, right) of them.")
    times = _pair(time, "time")
    delays = _pair(watermark, "watermark")
    names = joined_names(keys, *(_columns(source) for source in sources.values()))
    first, second = (
        Side(
            which,
            sources[which],
            _checked_time(sources[which], own, which),
            _delay(sources[which], own, delay, which),
            names[which],
        )
        for which, own, delay in zip(SIDES, times, delays, strict=True)
    )
    kinds = [side.source.types[side.time] for side in (first, second)]
    if kinds[0] != kinds[1]:
        raise MuntinError(
            f"time is of type {kinds[0]} on the left and {kinds[1]} on the right; cast one of them, so that both are "
            "with a time zone or both without."
        )
    source = union_source(first, second, keys, {})
    limits = [ahead_limit(max_ahead, side.source, side.time, side.which) for side in (first, second)]
    return Join(first, second, Query(source, (window,), TIME, first.delay, keys, max_ahead=limits[0]))


def _pair(given: Any, argument: str) -> tuple[Any, Any]:
    """One for both sides, or one for each."""
    if not isinstance(given, tuple | list):
        return given, given
    if len(given) != 2:
        raise MuntinError(f"{argument} must be one for both sides or a pair (left, right), got {given!r}.")
    return given[0], given[1]


def _columns(source: Source) -> list[str]:
    return list(dict.fromkeys(source.frame.columns))


def _check_alike(sources: Mapping[Which, Source]) -> None:
    kinds = {which: "stream" if source.streaming else "table" for which, source in sources.items()}
    if kinds["left"] != kinds["right"]:
        raise MuntinError(
            f"left is a {kinds['left']} and right is a {kinds['right']}; join two streams or two tables. A table that "
            "only adds columns to a stream needs no window: use Spark's own stream.join(table, ...)."
        )


def _check_window(window: object) -> None:
    if not isinstance(window, Window):
        raise MuntinError(f"{window!r} is not a window; use one of muntin.windows, such as W.tumbling('5 minutes').")
    if not isinstance(window, PaneWindow):
        raise MuntinError(
            f"window is {window.label}, whose windows depend on the tuples, so that each side would have its own, and "
            "no pair be in the same; use W.tumbling, W.sliding or W.cumulative."
        )


def _check_keys(keys: Sequence[str], sources: Mapping[Which, Source]) -> None:
    if not keys:
        raise MuntinError("on is empty; name at least one column that both sides have, such as on='id'.")
    for position, key in enumerate(keys):
        for which in SIDES:
            _check_column(sources[which], key, "on column", which)
            check_key_type(sources[which].types[key], key, "on")
        kinds = [sources[which].types[key] for which in SIDES]
        if kinds[0] != kinds[1]:
            raise MuntinError(
                f"on column {key!r} is of type {kinds[0]} on the left and {kinds[1]} on the right; cast one of them."
            )
        if key in RESERVED:
            raise MuntinError(f"on column {key!r} has the name of a result's own column; rename it first.")
        if key in keys[:position]:
            raise MuntinError(f"on names the column {key!r} twice; name it once.")


def _checked_time(source: Source, time: str, which: Which) -> str:
    _check_column(source, time, "time column", which)
    kind = source.types[time]
    if not pa.types.is_timestamp(kind):
        raise MuntinError(
            f"time column {time!r} of {which} is of type {kind}, not a timestamp; cast it, such as "
            f"F.to_timestamp({time!r})."
        )
    return time


def _check_column(source: Source, column: object, what: str, which: Which) -> None:
    if not isinstance(column, str):
        raise MuntinError(f"{what} must be the name of a column, got {column!r}.")
    if column in source.unreadable:
        raise MuntinError(
            f"{what} {column!r} of {which} cannot be used: {source.unreadable[column]}. Cast or rename it first."
        )
    if column not in source.types:
        raise MuntinError(f"{what} {column!r} is not in {which}. {suggest(column, source.types)}")


def _delay(source: Source, time: str, watermark: Duration | None, which: Which) -> int | None:
    delay = source.watermarks.get(time) if watermark is None else microseconds_from_zero(watermark, "watermark")
    if source.streaming and delay is None:
        raise MuntinError(
            f"watermark is missing for {which}: a stream needs it to know when a window is complete; give how late "
            f"rows may come, such as watermark='10 minutes', or a pair of them, or call withWatermark on its {time!r}."
        )
    return delay
