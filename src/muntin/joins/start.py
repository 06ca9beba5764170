"""`join()`: checks the two inputs, their keys, times and watermarks, and starts the join."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from muntin.durations import Duration
from muntin.errors import MuntinError
from muntin.expressions import ColumnLike, shown
from muntin.joins.backend import spark
from muntin.joins.join import Join
from muntin.joins.names import MARKS, SIDES, TIME, SideName, joined_names
from muntin.joins.sides import Side
from muntin.panes.keys import check_key_type
from muntin.query import RESERVED, Query
from muntin.query.backend import Resolved, Source
from muntin.query.inputs import column_names
from muntin.query.start import ahead_limit, check_window, query_name, with_idle
from muntin.query.time_column import check_time
from muntin.query.watermarks import Watermark, resolved_watermark
from muntin.type_names import spark_name
from muntin.windows import PaneWindow, Window
from muntin.windows.calendar import zone_column_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def join(
    left: DataFrame,
    right: DataFrame,
    window: Window,
    *,
    on: ColumnLike | Sequence[ColumnLike] = (),
    time: ColumnLike | tuple[ColumnLike, ColumnLike] | None = None,
    watermark: Duration | ColumnLike | tuple[Duration | ColumnLike | None, Duration | ColumnLike | None] | None = None,
    max_ahead: Duration | None = None,
    idle: Duration | None = None,
    name: str | None = None,
) -> Join:
    """Start a windowed inner join of two streams or two tables: the pairs with equal keys in the same window.

    Columns are given as names, as SQL expressions or as Spark columns, and are resolved on each side.

    Parameters
    ----------
    left, right
        Two streaming DataFrames, or two that are not.
    window
        A tumbling, sliding or cumulative window.
    on
        The key columns.
    time
        The event time: a column for both sides, or a pair.
    watermark
        How far a row may lag behind the latest one of its side, or a column of its rows that carries watermarks, as in
        `over()`: one for both sides, or a pair. Streams need it, unless `withWatermark` was called on the time column.
    max_ahead
        How far ahead of the clock a row may be. Rows beyond that are invalid: they are counted, and do not move the
        watermark.
    idle
        How long a side has nothing to give before its event time goes on with the clock, such as "30 seconds". Then it
        does not hold the windows of the other side open.
    name
        What the join is called in metrics, for streams that consist of several queries: see `muntin.progress`.

    Examples
    --------
    >>> muntin.join(table, table, W.tumbling("1 hour"), on="route", time="at").agg(pairs=A.count())
    join(...).agg(pairs=A.count())
    """
    left, right = spark().frame_of(left), spark().frame_of(right)
    sources: dict[SideName, Source] = {
        side: spark().source_of(data, side) for side, data in zip(SIDES, (left, right), strict=True)
    }
    _check_alike(sources)
    _check_window(window)
    keys = _resolved_keys(column_names(on, "on"), sources)
    if time is None:
        raise MuntinError("time is missing; name the time column, such as time='ts', or a pair (left, right) of them.")
    times = _pair(time, "time")
    delays = _pair(watermark, "watermark")
    left_columns, right_columns = (_others(sources[side], keys[side]) for side in SIDES)
    names = joined_names(
        list(keys["left"]), left_columns, right_columns, str if spark().case_sensitive(left) else str.casefold
    )
    resolved_times = [_resolved_time(sources[side], column, side) for side, column in zip(SIDES, times, strict=True)]
    first, second = (
        Side(side, sources[side], column, _watermark(sources[side], column, delay, side), names[side], keys[side])
        for side, column, delay in zip(SIDES, resolved_times, delays, strict=True)
    )
    kinds = [side.time.kind for side in (first, second)]
    if kinds[0] != kinds[1]:
        raise MuntinError(
            f"time is of type {spark_name(kinds[0])} on the left and {spark_name(kinds[1])} on the right; cast one of "
            "them, so that both are with a time zone or both without."
        )
    on_names = tuple(keys["left"])
    source = spark().union_source(first, second, on_names, {})
    limits = [ahead_limit(max_ahead, side.source, side.followed, side.which) for side in (first, second)]
    query = Query(
        source,
        (window,),
        TIME,
        first.delay,
        on_names,
        max_ahead=limits[0],
        name=query_name(name),
        watermark_column=MARKS if MARKS in source.types else None,
    )
    return Join(first, second, with_idle(query, idle))


def _pair(given: Any, argument: str) -> tuple[Any, Any]:
    """The values for the left and the right side; a single value is for both."""
    if not isinstance(given, tuple | list):
        return given, given
    if len(given) != 2:
        raise MuntinError(f"{argument} must be one for both sides or a pair (left, right), got {given!r}.")
    return given[0], given[1]


def _others(source: Source, keys: Mapping[str, Resolved]) -> list[str]:
    """The non-key columns of a side."""
    key_columns = {key.read for key in keys.values()}
    return [name for name in dict.fromkeys(source.frame.columns) if name not in key_columns]


def _check_alike(sources: Mapping[SideName, Source]) -> None:
    kinds = {side: "stream" if source.streaming else "table" for side, source in sources.items()}
    if kinds["left"] != kinds["right"]:
        raise MuntinError(
            f"left is a {kinds['left']} and right is a {kinds['right']}; join two streams or two tables. A table that "
            "only adds columns to a stream needs no window: use Spark's own stream.join(table, ...)."
        )


def _check_window(window: object) -> None:
    if isinstance(window, list | tuple | set):
        raise MuntinError(f"window is {window!r}, and a join has a single one; give it as it is, without brackets.")
    check_window(window)
    assert isinstance(window, Window)
    if not isinstance(window, PaneWindow):
        raise MuntinError(
            f"window is {window.label}, whose windows depend on the rows, so that the two sides have no windows in "
            "common; use W.tumbling, W.sliding or W.cumulative."
        )
    if zone_column_of([window]) is not None:
        raise MuntinError(
            f"window is {window.label}, and the windows of a join are the same for all keys; give zone=, and write one "
            "join per zone."
        )


def _resolved_keys(
    given: Sequence[ColumnLike], sources: Mapping[SideName, Source]
) -> dict[SideName, dict[str, Resolved]]:
    """For each side, its key columns by their names in the joined rows, which are those of the left side."""
    if not given:
        raise MuntinError("on is empty; name at least one column that both sides have, such as on='id'.")
    keys: dict[SideName, dict[str, Resolved]] = {"left": {}, "right": {}}
    for key in given:
        left, right = (spark().resolved(sources[side], key, "on column", side) for side in SIDES)
        for column in (left, right):
            check_key_type(column.kind, column.name, "on")
        if left.kind != right.kind:
            raise MuntinError(
                f"on column {left.name!r} is of type {spark_name(left.kind)} on the left and {spark_name(right.kind)} "
                "on the right; cast one of them."
            )
        if left.name in RESERVED:
            raise MuntinError(
                f"on column {left.name!r} has the name of a column that Muntin adds to results; rename it first."
            )
        if left.name in keys["left"]:
            raise MuntinError(f"on names the column {left.name!r} twice; name it once.")
        keys["left"][left.name], keys["right"][left.name] = left, right
    return keys


def _resolved_time(source: Source, time: ColumnLike, side: SideName) -> Resolved:
    column = spark().resolved(source, time, "time column", side)
    check_time(column.kind, shown(column.read), f" of {side}")
    return column


def _watermark(source: Source, time: Resolved, watermark: Duration | ColumnLike | None, side: SideName) -> Watermark:
    follows = resolved_watermark(source, watermark, time.read, time.kind, side)
    if source.streaming and follows.delay is None:
        raise MuntinError(
            f"watermark is missing for {side}: a stream needs it to know when a window is complete; give how late "
            "rows may come, such as watermark='10 minutes', or a pair of them, or call withWatermark on its "
            f"{shown(time.read)!r}."
        )
    return follows
