"""The suffixes of windows in wide rows, and the instants at which windows end."""

from __future__ import annotations

from collections.abc import Hashable

from muntin.windows import CalendarWindow, CumulativeWindow, PaneWindow, TimeWindow, Window

_HOUR = 3_600_000_000
_DAY = 24 * _HOUR
_UNITS = ((_HOUR, "h"), (60_000_000, "min"), (1_000_000, "s"), (1_000, "ms"), (1, "us"))


def suffix(window: Window) -> str:
    """The name of a window if it has one, else its size: `1h`, `24h`, `7d`."""
    if window.name is not None:
        return window.name
    if isinstance(window, CalendarWindow):
        if window.unit == "month":
            return f"{window.size}month{'s' * (window.size != 1)}"
        return f"{window.size}d"
    if isinstance(window, CumulativeWindow):
        return f"{compact(window.size)}_so_far"
    return compact(window.size) if isinstance(window, TimeWindow) else window.label


def compact(length: int) -> str:
    """A length in its largest unit that leaves no rest. A single day is `24h`: days of a calendar differ."""
    if length % _DAY == 0 and length > _DAY:
        return f"{length // _DAY}d"
    unit, name = next((unit, name) for unit, name in _UNITS if length % unit == 0)
    return f"{length // unit}{name}"


def ends(window: PaneWindow) -> Hashable:
    """Equal for windows that end at the same instants."""
    if isinstance(window, TimeWindow):
        return window.slide, (window.offset + window.size) % window.slide
    if isinstance(window, CumulativeWindow):
        return window.step, window.offset % window.step
    if isinstance(window, CalendarWindow):
        return window.unit, window.zone, window.zone_column, window.slide, (window.first + window.size) % window.slide
    return window
