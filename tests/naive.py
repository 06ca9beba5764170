"""Naive recomputation: windows by their definition, aggregates by their documentation.

Rows are plain dicts with integer times and None for null. Everything is a loop over all rows, and uses nothing of the
library but the parameters of the windows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from fractions import Fraction
from functools import cache
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo
from zoneinfo import available_timezones as _available_timezones

from muntin.windows import CalendarWindow, CumulativeWindow, TimeWindow, Window

Row: TypeAlias = Mapping[str, Any]
Aggregation: TypeAlias = Callable[[Sequence[Row]], Any]
Place: TypeAlias = tuple[int, int, str, int, tuple[Any, ...]]
"""A window of a key: end, start, title, id, key."""
Answers: TypeAlias = dict[Place, dict[str, Any]]

PRIME = 10_007
EPOCH = date(1970, 1, 1)


available_timezones = cache(_available_timezones)


def windows_holding(window: Window, time: int) -> list[int]:
    """The ids of the time windows that contain a time."""
    if isinstance(window, CalendarWindow):
        date = datetime.fromtimestamp(time // 10**6, timezone.utc).date()
        days, months = (date - EPOCH).days - window.first, (date.year - 1970) * 12 + date.month
        nearest = (days if window.unit == "day" else months) // window.slide
        candidates = range(nearest - window.size // window.slide - 4, nearest + 5)
    elif isinstance(window, CumulativeWindow):
        steps = window.size // window.step
        nearest = (time - window.offset) // window.size * steps
        candidates = range(nearest - steps, nearest + 2 * steps)
    else:
        assert isinstance(window, TimeWindow)
        nearest = (time - window.offset) // window.slide
        candidates = range(nearest - window.size // window.slide - 2, nearest + 3)
    return [i for i in candidates if start_of(window, i) <= time < end_of(window, i)]


@cache
def midnight(zone: str, day: date) -> int:
    """The first instant at which a clock of the zone shows this day or a later one."""
    clock = ZoneInfo(zone)
    begin = datetime(day.year, day.month, day.day, tzinfo=timezone.utc) - timedelta(hours=16)
    begin -= timedelta(days=begin.astimezone(clock).date() >= day)
    for step in (60, 1):
        while begin.astimezone(clock).date() < day:
            begin += timedelta(seconds=step)
        begin -= timedelta(seconds=step)
    return ((begin - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(seconds=1) + 1) * 10**6


def day_of(window: CalendarWindow, window_id: int, later: int) -> int:
    """The first instant of a window's first day, or of the day that is `later` days or months after it."""
    amount = window_id * window.slide + later
    if window.unit == "day":
        return midnight(window.zone, EPOCH + timedelta(days=window.first + amount))
    return midnight(window.zone, date(1970 + amount // 12, amount % 12 + 1, 1))


def start_of(window: Window, window_id: int) -> int:
    if isinstance(window, CalendarWindow):
        return day_of(window, window_id, 0)
    if isinstance(window, CumulativeWindow):
        return window.offset + window_id // (window.size // window.step) * window.size
    assert isinstance(window, TimeWindow)
    return window.offset + window_id * window.slide


def end_of(window: Window, window_id: int) -> int:
    if isinstance(window, CalendarWindow):
        return day_of(window, window_id, window.size)
    if isinstance(window, CumulativeWindow):
        return window.offset + (window_id + 1) * window.step
    assert isinstance(window, TimeWindow)
    return start_of(window, window_id) + window.size


def places(row: Row, windows: Iterable[Window], keys: Sequence[str]) -> list[Place]:
    """The time windows that contain a row."""
    key = key_of(row, keys)
    if any(column is not None and row[column] not in available_timezones() for column in map(zone_column, windows)):
        return []
    of_row = [(window.title, in_zone_of(row, window)) for window in windows]
    return [
        (end_of(window, i), start_of(window, i), title, i, key)
        for title, window in of_row
        for i in windows_holding(window, row["t"])
    ]


def zone_column(window: Window) -> str | None:
    return window.zone_column if isinstance(window, CalendarWindow) else None


def in_zone_of(row: Row, window: Window) -> Window:
    column = zone_column(window)
    return window if column is None else replace(window, zone=row[column], zone_column=None)  # type: ignore[call-arg]


def key_of(row: Row, keys: Sequence[str]) -> tuple[Any, ...]:
    return tuple(comparable(row[key]) for key in keys)


def comparable(value: Any) -> Any:
    """Equal for keys that are equal in Spark's groupBy: NaN is NaN, -0.0 is 0.0, null is null."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple(comparable(part) for _, part in sorted(value.items()))
    return value


def answers(
    rows: Iterable[Row], windows: Sequence[Window], keys: Sequence[str], named: Mapping[str, Aggregation]
) -> Answers:
    """The answers of all windows of a table."""
    rows_of_places: dict[Place, list[Row]] = {}
    for row in rows:
        if row["t"] is not None:
            for place in places(row, windows, keys):
                rows_of_places.setdefault(place, []).append(row)
    return computed(rows_of_places, named)


def computed(rows_of_places: Mapping[Place, list[Row]], named: Mapping[str, Aggregation]) -> Answers:
    return {
        place: {name: aggregation(rows) for name, aggregation in named.items()}
        for place, rows in rows_of_places.items()
    }


class Stream:
    """A stream. A row counts for a window unless the watermark of the batch before closed it; windows close once."""

    def __init__(self, windows: Sequence[Window], keys: Sequence[str], named: Mapping[str, Aggregation]) -> None:
        self._windows, self._keys, self._named = windows, keys, named
        self._open: dict[Place, list[Row]] = {}
        self.watermark = 0  # Spark's watermark before the first row

    def batch(self, rows: Iterable[Row], watermark: int) -> tuple[Answers, list[Row]]:
        """The answers of the windows that close, and the late rows: those in windows that are all closed."""
        late = []
        for row in rows:
            if row["t"] is None:
                continue
            places_of_row = places(row, self._windows, self._keys)
            still_open = [place for place in places_of_row if place[0] > self.watermark]
            for place in still_open:
                self._open.setdefault(place, []).append(row)
            if places_of_row and not still_open:
                late.append(row)
        self.watermark = max(self.watermark, watermark)
        rows_of_closing = {place: self._open.pop(place) for place in list(self._open) if place[0] <= self.watermark}
        return computed(rows_of_closing, self._named), late


# Aggregates: functions of the rows of one window.


def spark_order(value: Any) -> tuple[bool, Any]:
    """A sort key for Spark's order: NaN after everything else."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return (is_nan, 0 if is_nan else value)


def present(rows: Sequence[Row], *columns: str) -> list[Row]:
    return [row for row in rows if all(row[column] is not None for column in columns)]


def column_values(rows: Sequence[Row], column: str) -> list[Any]:
    return [row[column] for row in present(rows, column)]


def where(condition: str, aggregation: Aggregation) -> Aggregation:
    return lambda rows: aggregation([row for row in rows if row[condition] is True])


def quantile(column: str, probability: float) -> Aggregation:
    """Spark's `percentile`: interpolates between the two nearest values."""

    def aggregate(rows: Sequence[Row]) -> Any:
        ordered = sorted(column_values(rows, column), key=spark_order)
        if not ordered:
            return None
        position = (len(ordered) - 1) * probability
        low, high = ordered[math.floor(position)], ordered[math.ceil(position)]
        if low == high or math.floor(position) == math.ceil(position):
            return float(low)
        return (math.ceil(position) - position) * low + (position - math.floor(position)) * high

    return aggregate


def quantiles(column: str, probabilities: Sequence[float]) -> Aggregation:
    aggregations = [quantile(column, probability) for probability in probabilities]
    return lambda rows: [aggregation(rows) for aggregation in aggregations] if column_values(rows, column) else None


def frequencies(rows: Sequence[Row], column: str) -> list[tuple[Any, int]]:
    """Values and counts: most frequent first, and of equally frequent ones the smallest first."""
    counts: dict[Any, tuple[Any, int]] = {}
    for value in column_values(rows, column):
        counts[comparable(value)] = (value, counts.get(comparable(value), (value, 0))[1] + 1)
    return sorted(counts.values(), key=lambda pair: (-pair[1], spark_order(pair[0])))


def mode(column: str) -> Aggregation:
    return lambda rows: next((value for value, _ in frequencies(rows, column)), None)


def count_distinct(column: str) -> Aggregation:
    return lambda rows: len(frequencies(rows, column))


def top_k(column: str, k: int) -> Aggregation:
    return lambda rows: [{"item": value, "count": count} for value, count in frequencies(rows, column)[:k]]


def count(column: str | None = None) -> Aggregation:
    return lambda rows: len(rows) if column is None else len(column_values(rows, column))


def total(column: str) -> Aggregation:
    def aggregate(rows: Sequence[Row]) -> Any:
        values = column_values(rows, column)
        return sum(values) if values else None

    return aggregate


def mean(column: str) -> Aggregation:
    def aggregate(rows: Sequence[Row]) -> float | None:
        values = column_values(rows, column)
        return sum(values) / len(values) if values else None

    return aggregate


def variance(column: str, *, sample: bool, root: bool = False) -> Aggregation:
    def aggregate(rows: Sequence[Row]) -> float | None:
        values = column_values(rows, column)
        degrees = len(values) - sample
        if degrees <= 0:
            return None
        if not all(math.isfinite(value) for value in values):
            return math.nan
        exact = [Fraction(value) for value in values]
        middle = sum(exact) / len(exact)
        spread = float(sum((value - middle) ** 2 for value in exact) / degrees)
        return math.sqrt(spread) if root else spread

    return aggregate


def least(column: str) -> Aggregation:
    return lambda rows: min(column_values(rows, column), key=spark_order, default=None)


def greatest(column: str) -> Aggregation:
    return lambda rows: max(column_values(rows, column), key=spark_order, default=None)


def first(column: str) -> Aggregation:
    """The first value. Of several at the earliest time, the smallest."""

    def aggregate(rows: Sequence[Row]) -> Any:
        earliest = min(present(rows, column), key=lambda row: (row["t"], spark_order(row[column])), default=None)
        return None if earliest is None else earliest[column]

    return aggregate


def last(column: str) -> Aggregation:
    """The last value. Of several at the latest time, the largest."""

    def aggregate(rows: Sequence[Row]) -> Any:
        latest = max(present(rows, column), key=lambda row: (row["t"], spark_order(row[column])), default=None)
        return None if latest is None else latest[column]

    return aggregate


def arg(column: str, by: str, *, largest: bool) -> Aggregation:
    """`column`, perhaps null, of the tuple where `by` is smallest or largest.

    Of several such tuples, the earliest; of several at that time, the one with the smallest `column`, nulls last.
    """

    def rank(row: Row) -> tuple[Any, ...]:
        missing = row[column] is None
        return (row["t"], missing, (False, 0) if missing else spark_order(row[column]))

    def aggregate(rows: Sequence[Row]) -> Any:
        candidates = present(rows, by)
        if not candidates:
            return None
        best = (max if largest else min)(spark_order(row[by]) for row in candidates)
        tied = [row for row in candidates if spark_order(row[by]) == best]
        return min(tied, key=rank)[column]

    return aggregate


def extreme_count(column: str, *, largest: bool) -> Aggregation:
    def aggregate(rows: Sequence[Row]) -> int:
        ranks = [spark_order(value) for value in column_values(rows, column)]
        return ranks.count((max if largest else min)(ranks)) if ranks else 0

    return aggregate


def affine(value: int) -> tuple[int, int]:
    """The coefficients of the map x -> a * x + b of a value. The composition of maps depends on their order."""
    return (value % 97 + 1, value % 89)


def compose_all(maps: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """The composition of the maps, applied in order."""
    a, b = 1, 0
    for slope, shift in maps:
        a, b = a * slope % PRIME, (b * slope + shift) % PRIME
    return a, b


def composed(column: str) -> Aggregation:
    """The composition of the affine maps in the order of (time, map), as one number."""

    def aggregate(rows: Sequence[Row]) -> int | None:
        return composition(sorted((row["t"], affine(row[column])) for row in present(rows, column)))

    return aggregate


def composed_as_they_are(column: str) -> Aggregation:
    """The composition of the affine maps in the order of the rows."""

    def aggregate(rows: Sequence[Row]) -> int | None:
        return composition([(row["t"], affine(row[column])) for row in present(rows, column)])

    return aggregate


def composition(steps: Sequence[tuple[int, tuple[int, int]]]) -> int | None:
    if not steps:
        return None
    a, b = compose_all(affine_map for _, affine_map in steps)
    return a * PRIME + b


def spread(column: str) -> Aggregation:
    def aggregate(rows: Sequence[Row]) -> int | None:
        values = column_values(rows, column)
        return max(values) - min(values) if values else None

    return aggregate


def same(actual: Any, expected: Any) -> bool:
    """Whether two values are equal. Floats may differ by rounding, and NaN equals NaN."""
    if isinstance(actual, list) and isinstance(expected, list):
        return len(actual) == len(expected) and all(map(same, actual, expected))
    if isinstance(actual, float) and isinstance(expected, float | int):
        if math.isnan(actual) or math.isnan(expected):
            return math.isnan(actual) and math.isnan(expected)
        return math.isclose(actual, expected, rel_tol=1e-9, abs_tol=1e-9)
    return type(actual) is type(expected) and bool(actual == expected)
