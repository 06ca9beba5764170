"""Calendar windows: days, weeks and months in the local time of a zone, tumbling or sliding.

With local dates D(w), `slide` apart and aligned to 1970-01-01, to the first day of a week or to the first of a month,

    E(w) = { t | midnight(D(w)) <= τ(t) < midnight(D(w) + size) }

where midnight is the first instant of a local day. A day on which clocks are put forward has 23 hours, and a day that a
zone skipped has none; all of this is in the edges of the windows. So panes have uneven lengths, and everything behind
them is the same as for other time windows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import ClassVar, Literal

import numpy as np

from muntin.arrays import Int64Array
from muntin.checks import encodable
from muntin.durations import Duration, microseconds, positive_microseconds
from muntin.errors import MuntinError, suggest
from muntin.windows.model import ForwardContext, Ids, PaneWindow, Parameters, Window, check_name
from muntin.windows.zones import DAY, check_database, check_zone, midnights

Unit = Literal["day", "month"]

_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_THURSDAY = 3
"""The weekday of 1970-01-01."""
_UNITS: dict[str, tuple[Unit, int]] = {
    "day": ("day", 1),
    "week": ("day", 7),
    "month": ("month", 1),
    "quarter": ("month", 3),
    "year": ("month", 12),
}
_SIZE = re.compile(r"\s*(\d+)\s*([a-zA-Z]+)\s*")
_SLACK = 2
"""How many days a local date may be away from the date in UTC, at most."""
_FARTHEST = 1 << 61
"""Times further away than this, which stand for always and never, are treated as this."""
_MOST = 1 << 16
"""The largest number of days or months."""


@dataclass(frozen=True, repr=False)
class CalendarWindow(PaneWindow):
    """What `calendar` returns: windows between dates of a zone."""

    unit: Unit
    size: int
    slide: int
    zone: str
    first: int
    """The date of window 0, in days since 1970-01-01; months begin in January 1970."""
    zone_column: str | None = field(default=None, metadata={"later": True})
    """The key column with the zone of each key. Until `of_zone` sets one, the windows are those of UTC."""
    forward_context: ClassVar[ForwardContext] = "free"
    extent_formula: ClassVar[str] = "E(w) = { t | midnight(D(w)) <= τ(t) < midnight(D(w) + size) }"

    @property
    def parameters(self) -> tuple[str, Parameters]:
        given: Parameters = {"size": self._described(self.size)}
        if self.slide != self.size:
            given["slide"] = self._described(self.slide)
        given |= {"zone": self.zone} if self.zone_column is None else {"zone_column": self.zone_column}
        if self.first:
            weekday = _WEEKDAYS[(self.first + _THURSDAY) % 7]
            given |= {} if weekday == "monday" else {"week_start": weekday}
        return "calendar", given

    @property
    def label(self) -> str:
        _, given = self.parameters
        return f"calendar({', '.join(map(str, given.values()))})"

    def _described(self, amount: int) -> str:
        unit, amount = ("week", amount // 7) if self.first and amount % 7 == 0 else (self.unit, amount)
        return f"{amount} {unit}{'s' * (amount != 1)}"

    @property
    def lengths(self) -> tuple[int, ...]:
        return ()

    def of_zone(self, zone: str) -> CalendarWindow:
        """The windows of the keys of one zone, under the same name."""
        return replace(self, zone=zone, zone_column=None, name=self.title)

    @property
    def shortest_step(self) -> int:
        """Two starts are at least this far apart, but for days that a zone skipped."""
        return (self.slide if self.unit == "day" else 28 * self.slide) * DAY - DAY // 2

    @property
    def longest(self) -> int:
        return (self.size if self.unit == "day" else 31 * self.size) * DAY + DAY

    @property
    def copies(self) -> int:
        return -(-self.size // self.slide)

    @property
    def has_gaps(self) -> bool:
        return self.slide > self.size

    def start(self, window_id: Ids) -> Ids:
        return self._midnight(window_id, 0)

    def end(self, window_id: Ids) -> Ids:
        return self._midnight(window_id, self.size)

    def _midnight(self, window_id: Ids, later: int) -> Ids:
        """The first instant of a window's first day, or of the day that is so many days or months later."""
        days = self._days(np.asarray(window_id) * self.slide + later)
        found = midnights(self.zone, days)
        return found if isinstance(window_id, np.ndarray) else int(found)

    def _days(self, units: Int64Array) -> Int64Array:
        """Days since 1970, of days or months since window 0."""
        if self.unit == "day":
            return np.asarray(units + self.first)
        return np.asarray(units).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)

    def _units(self, days: Int64Array) -> Int64Array:
        if self.unit == "day":
            return np.asarray(days - self.first)
        return np.asarray(days).astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)

    def first_containing(self, times: Int64Array) -> Int64Array:
        """The first window that has not ended."""
        times = np.clip(times, -_FARTHEST, _FARTHEST)
        ids = np.floor_divide(self._units(np.floor_divide(times, DAY) - _SLACK) - self.size, self.slide)
        while (ended := np.flatnonzero(self.end(ids) <= times)).size:
            ids[ended] += 1
        return ids

    def last_containing(self, times: Int64Array) -> Int64Array:
        """The last window that has begun."""
        times = np.clip(times, -_FARTHEST, _FARTHEST)
        ids = np.floor_divide(self._units(np.floor_divide(times, DAY) + _SLACK), self.slide)
        while (ahead := np.flatnonzero(self.start(ids) > times)).size:
            ids[ahead] -= 1
        return ids

    def last_ended(self, time: int) -> int:
        return int(self.first_containing(np.array([time]))[0]) - 1


def calendar(
    size: Duration,
    slide: Duration | None = None,
    zone: str = "UTC",
    week_start: str = "monday",
    zone_column: str | None = None,
    *,
    name: str | None = None,
) -> CalendarWindow:
    """Windows of days, weeks, months, quarters or years in the local time of a zone; `slide` defaults to `size`.

    Days are aligned to 1970-01-01, weeks to `week_start`, months and longer ones to January. A day with a change of
    clocks is one day, of 23 or 25 hours.

    With `zone_column`, every key has windows in its own zone: the column is one of the columns of `by`, and has names
    of time zones. Rows with a null, or with a name that no zone has, are invalid: they are counted and dropped.

    Examples
    --------
    >>> windows_of(W.calendar("1 day", zone="Europe/Berlin"), until="2024-05-02")
    22:00 to 22:00: 7
    """
    size_unit, amount, in_weeks = _parsed(size, "size")
    slide_unit, step, slide_in_weeks = (size_unit, amount, in_weeks) if slide is None else _parsed(slide, "slide")
    if size_unit != slide_unit:
        raise MuntinError(
            f"size is {size!r} and slide is {slide!r}: months have no fixed number of days, so windows of months slide "
            "by months, and windows of days or weeks by days or weeks."
        )
    first = _first_day_of_week(week_start) if slide_in_weeks else 0
    column = _checked_column(zone_column, zone)
    return CalendarWindow(check_name(name), 0, size_unit, amount, step, check_zone(zone), first, column)


def _checked_column(zone_column: object, zone: object) -> str | None:
    if zone_column is None:
        return None
    if not isinstance(zone_column, str) or not zone_column.strip():
        raise MuntinError(
            f"zone_column must be the name of one of the columns of by=, which has time zones, got {zone_column!r}."
        )
    if zone != "UTC":
        raise MuntinError(f"zone={zone!r} and zone_column={zone_column!r} were both given; leave one of them out.")
    check_database()
    return encodable(zone_column, "zone_column")


def zone_column_of(windows: Sequence[Window]) -> str | None:
    """The column with the zone of each key, if some of the windows are in the zone of the key."""
    columns = (window.zone_column for window in windows if isinstance(window, CalendarWindow))
    return next((column for column in columns if column is not None), None)


def in_zone_of_key(window: Window, zone: str) -> Window:
    """The window for the keys of one zone."""
    if isinstance(window, CalendarWindow) and window.zone_column is not None:
        return window.of_zone(zone)
    return window


def in_zone(size: Duration, slide: Duration, zone: str, name: str | None, offset: Duration) -> CalendarWindow:
    """Tumbling or sliding windows of whole days that begin at the midnight of a zone."""
    if microseconds(offset, "offset"):
        raise MuntinError("zone and offset were both given; zone= begins windows at midnight. Leave one of them out.")
    for argument, value in (("size", size), ("slide", slide)):
        length = positive_microseconds(value, argument)
        if length % DAY:
            raise MuntinError(
                f"{argument} is {value!r}, and zone= aligns windows of whole days; leave zone= out, and align shorter "
                "windows with offset=."
            )
    days, step = (timedelta(microseconds=positive_microseconds(value, "size")) for value in (size, slide))
    return calendar(days, step, zone, name=name)


def _parsed(value: Duration, argument: str) -> tuple[Unit, int, bool]:
    """The unit, how many, and whether they were given in weeks."""
    days = _in_days(value)
    if days is not None:
        return "day", days, False
    text = value.strip() if isinstance(value, str) else ""
    parts = _SIZE.findall(text)
    units = [_UNITS.get(word.lower().removesuffix("s")) for _, word in parts]
    if not parts or None in units or _SIZE.sub("", text):
        raise MuntinError(
            f"{argument} must be a number of days, weeks, months, quarters or years, such as '1 month', got {value!r}; "
            "for windows of hours and less, use W.tumbling or W.sliding."
        )
    known = [unit for unit in units if unit is not None]
    if len({unit for unit, _ in known}) > 1:
        raise MuntinError(f"{argument} is {value!r}, which mixes months and days; give one of them.")
    amount = sum(int(number) * length for (number, _), (_, length) in zip(parts, known, strict=True))
    if not 1 <= amount <= _MOST:
        raise MuntinError(f"{argument} must be from 1 to {_MOST:,} {known[0][0]}s, got {value!r}.")
    return known[0][0], amount, known[0][0] == "day" and amount % 7 == 0 and "week" in text.lower()


def _in_days(value: Duration) -> int | None:
    """The number of days of a timedelta of whole days."""
    if isinstance(value, timedelta) and value > timedelta(0) and not value % timedelta(days=1):
        return value // timedelta(days=1)
    return None


def _first_day_of_week(week_start: str) -> int:
    """The first day of the week that has 1970-01-01."""
    if not isinstance(week_start, str) or week_start.lower() not in _WEEKDAYS:
        hint = suggest(week_start, _WEEKDAYS) if isinstance(week_start, str) else "Give its English name."
        raise MuntinError(f"week_start must be a day of the week such as 'monday', got {week_start!r}. {hint}")
    weekday = _WEEKDAYS.index(week_start.lower())
    return (weekday - _THURSDAY) - 7 * (weekday > _THURSDAY)
