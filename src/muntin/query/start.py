"""`over()`: checks the input, the windows, the time column and the keys, and starts a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from muntin import windows as models
from muntin.checks import encodable, public_name
from muntin.durations import Duration, microseconds_from_zero
from muntin.errors import MuntinError
from muntin.expressions import ColumnLike, shown
from muntin.panes.keys import check_key_type
from muntin.partials.values import is_number
from muntin.query.backend import Source, backend_of
from muntin.query.inputs import Computed, column_names
from muntin.query.query import RESERVED, Query
from muntin.query.scan import Scan
from muntin.query.time_column import check_time
from muntin.query.watermarks import NO_WATERMARK, WINDOW_TIME, resolved_watermark
from muntin.type_names import spark_name
from muntin.windows import CalendarWindow, DeltaWindow, Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def over(
    data: DataFrame | Scan,
    *windows: Window,
    time: ColumnLike,
    watermark: Duration | ColumnLike | None = None,
    by: ColumnLike | Sequence[ColumnLike] = (),
    max_ahead: Duration | None = None,
    idle: Duration | None = None,
    name: str | None = None,
) -> Query:
    """Start a windowed aggregation over a stream or a table.

    Columns are given as names, as SQL expressions such as "date_trunc('hour', ts)", or as Spark columns.

    Parameters
    ----------
    data
        The DataFrame, streaming or not, or the files of a `muntin.scan`.
    windows
        One or more windows of `muntin.windows`. They share their panes.
    time
        The event time: a timestamp.
    watermark
        How far a row may lag behind the latest one, such as "10 minutes"; or a timestamp that rows carry with the
        promise that no earlier row will come: a column that is null in rows without one. Streams need it, unless
        `withWatermark` was called on the time column; tables do not.
    by
        The key columns: windows are computed for every key. In results they have the names that Spark gives them.
    max_ahead
        How far ahead of the clock a row may be. Rows beyond that are invalid: they are counted, and do not move the
        watermark.
    idle
        How long the source has nothing to give before windows close by the clock, such as "30 seconds": event time then
        goes on with the clock, from the latest row on. Tables have no use for it.
    name
        What the query is called in metrics, for streams that consist of several queries: see `muntin.progress`.

    Examples
    --------
    >>> halves = W.tumbling("30 minutes")
    >>> show(lambda rides: muntin.over(rides, halves, time="at", watermark="0 seconds").agg(n=A.count()))
    12:00 to 12:30: 5
    12:30 to 13:00: 2
    """
    source = backend_of(data).source_of(data)
    given_keys = column_names(by, "by")
    windows, computed = _resolved_windows(windows, source)
    time_read, computed = _resolved_time(source, time, computed)
    keys, computed = _resolved_keys(source, given_keys, computed)
    windows = _with_zones(windows, source, keys, {**source.types, **computed.types})
    kind = source.types[time_read] if time_read in source.types else computed.types[time_read]
    follows = resolved_watermark(source, watermark, time_read, kind)
    if source.streaming and follows.delay is None and time_read == WINDOW_TIME:
        raise MuntinError(f"watermark is missing, and {NO_WATERMARK}")
    if source.streaming and follows.delay is None:
        raise MuntinError(
            "watermark is missing: a stream needs it to know when a window is complete; give how late rows may come, "
            f"such as watermark='10 minutes', or call withWatermark on {shown(time_read)!r} where the data come from."
        )
    renamed = {read: name for read, name in keys.items() if read != name}
    limit = ahead_limit(max_ahead, source, follows.followed(time_read))
    marks = None
    if follows.column is not None:
        marks = follows.column.read
        if source.streaming:
            computed, marks = computed.add(follows.column, source)
    query = Query(
        source,
        windows,
        time_read,
        follows.delay,
        tuple(keys),
        computed=computed,
        key_names=renamed,
        max_ahead=limit,
        name=query_name(name),
        watermark_column=marks,
    )
    return with_idle(query, idle)


def with_idle(query: Query, idle: Duration | None) -> Query:
    """The query with `idle=`, if it is given."""
    if idle is None:
        return query
    from muntin.features.idle.policy import Idle  # a feature: queries without it do not import it

    return query.use(Idle.of(idle))


def query_name(name: object) -> str | None:
    """The checked `name=` of a query."""
    if name is None:
        return None
    if not isinstance(name, str) or not name.strip():
        raise MuntinError(f"name must be a text such as 'fares', by which the query is known in metrics, got {name!r}.")
    return encodable(name, "name")


def ahead_limit(max_ahead: Duration | None, source: Source, followed: str, input_name: str = "data") -> int | None:
    """How far ahead of the clock the rows of an input may be, in microseconds; its watermark follows this column."""
    if max_ahead is None:
        return None
    if followed in source.watermarks:
        raise MuntinError(
            f"max_ahead keeps rows from moving the watermark, but {input_name} already has one from withWatermark, "
            "which these rows have moved; leave withWatermark out and give watermark=, or filter the rows before it."
        )
    return microseconds_from_zero(max_ahead, "max_ahead")


def _resolved_windows(windows: Sequence[Window], source: Source) -> tuple[tuple[Window, ...], Computed]:
    """The windows with resolved columns, and the expressions that they need."""
    computed, resolved_windows = Computed(), list[Window]()
    if not windows:
        raise MuntinError("windows is empty; give at least one, such as W.tumbling('5 minutes').")
    for window in windows:
        check_window(window)
        if isinstance(window, DeltaWindow):
            column = backend_of(source).resolved(source, window.column, "delta's column")
            if not is_number(column.kind):
                raise MuntinError(
                    f"delta's column {shown(column.read)!r} is of type {spark_name(column.kind)}, not a number; cast "
                    "it to a double or a long."
                )
            computed, read = computed.add(column, source)
            window = replace(window, column=read)
        resolved_windows.append(window)
    titles = [window.title for window in resolved_windows]
    for position, title in enumerate(titles):
        if title in titles[:position]:
            raise MuntinError(f"Two windows are called {title!r}; give each its own name=.")
    return tuple(resolved_windows), computed


def _with_zones(
    windows: Sequence[Window], source: Source, keys: Mapping[str, str], types: Mapping[str, pa.DataType]
) -> tuple[Window, ...]:
    """The windows, with zone columns under the names that the stages read."""
    resolved_windows = tuple(_with_zone(window, source, keys, types) for window in windows)
    with_columns = {
        window.zone_column: window
        for window in resolved_windows
        if isinstance(window, CalendarWindow) and window.zone_column is not None
    }
    if len(with_columns) > 1:
        first, second, *_ = with_columns.values()
        raise MuntinError(
            f"{first.title!r} and {second.title!r} have different zone columns, and a key is in one zone; write one "
            "query for each."
        )
    return resolved_windows


def _with_zone(window: Window, source: Source, keys: Mapping[str, str], types: Mapping[str, pa.DataType]) -> Window:
    if not isinstance(window, CalendarWindow) or window.zone_column is None:
        return window
    given = window.zone_column
    column = next((read for read, name in keys.items() if name == given), None)
    if column is None:
        column = backend_of(source).resolved(source, given, "zone_column").read
    if column not in keys:
        raise MuntinError(
            f"zone_column is {given!r}, which is not a key, and every key needs one zone; add it: "
            f"by={[*keys.values(), given]!r}."
        )
    kind = types[column]
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise MuntinError(
            f"zone_column {given!r} is of type {spark_name(kind)}, not a string; it must have the names of time zones, "
            "such as 'Europe/Berlin'."
        )
    return window if column == given else replace(window, zone_column=column, name=window.title)


def check_window(window: object) -> None:
    if isinstance(window, Window):
        return
    if isinstance(window, list | tuple | set):
        raise MuntinError(
            f"{window!r} is a {type(window).__name__}; give windows one by one, or unpack it with a star: "
            "over(data, *windows, time=...)."
        )
    function = public_name(window, models)
    if function is not None:
        raise MuntinError(f"W.{function} is a function; call it: W.{function}(...).")
    raise MuntinError(f"{window!r} is not a window; use one of muntin.windows, such as W.tumbling('5 minutes').")


def _resolved_time(source: Source, time: ColumnLike, computed: Computed) -> tuple[str, Computed]:
    column = backend_of(source).resolved(source, time, "time column")
    check_time(column.kind, shown(column.read))
    computed, read = computed.add(column, source)
    return read, computed


def _resolved_keys(source: Source, given: Sequence[ColumnLike], computed: Computed) -> tuple[dict[str, str], Computed]:
    """The keys: a mapping from the names in the stages to the names in results."""
    keys: dict[str, str] = {}
    for key in given:
        column = backend_of(source).resolved(source, key, "by column")
        check_key_type(column.kind, column.name)
        if column.name in RESERVED:
            raise MuntinError(
                f"by column {column.name!r} has the name of a column that Muntin adds to results; rename it first, or "
                "give it another name with .alias(...)."
            )
        computed, read = computed.add(column, source)
        if read in keys:
            raise MuntinError(f"by names the column {column.name!r} twice; name it once.")
        if column.name in keys.values():
            raise MuntinError(f"by has two columns called {column.name!r}; give one another name with .alias(...).")
        keys[read] = column.name
    return keys, computed
