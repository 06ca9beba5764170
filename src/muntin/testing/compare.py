"""`assert_windows`: compares windows, and says what differs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from muntin.errors import MuntinError
from muntin.testing.schemas import as_time
from muntin.testing.step import Row, Step

BOUNDS = ("start", "end")


def assert_windows(found: Step | Iterable[Mapping[str, Any]], expected: Iterable[Mapping[str, Any]]) -> None:
    """Check that these are the windows, in any order, and each once.

    Parameters
    ----------
    found
        A step, its results, or rows of a DataFrame, as `row.asDict(recursive=True)`.
    expected
        Dicts with the columns to compare; other columns are not looked at. `start` and `end` are the bounds of the
        window, as times or as texts such as "2024-05-01 12:00", in UTC. Numbers with a fraction may differ by rounding.

    Examples
    --------
    >>> stream = Stream(fares, "at timestamp, route string, fare double")
    >>> _ = stream.batch([("2024-05-01 12:01", "A", 5.0)])
    >>> step = stream.watermark("2024-05-01 13:00")
    >>> assert_windows(step, [{"start": "2024-05-01 12:00", "end": "2024-05-01 13:00", "route": "A", "rides": 1}])
    """
    wanted = [_expected(row) for row in expected]
    names = list(dict.fromkeys(name for row in wanted for name in row))
    left = [_result(row) for row in (found.results if isinstance(found, Step) else found)]
    for name in names:
        if left and all(name not in row for row in left):
            raise MuntinError(f"expected has a column {name!r}, which the results have not: {', '.join(left[0])}.")
    missing = []
    for row in wanted:
        match = next((other for other in left if _matches(row, other)), None)
        if match is None:
            missing.append(row)
        else:
            left = [other for other in left if other is not match]
    problems = _problems(missing, left, names or ["start", "end"])
    if problems:
        raise AssertionError("\n".join([f"{_count(len(problems))} of {len(wanted)} expected:", *problems]))


def _count(number: int) -> str:
    return "1 window differs from those" if number == 1 else f"{number} windows differ from those"


def _expected(row: Mapping[str, Any]) -> Row:
    if not isinstance(row, Mapping):
        raise MuntinError(f"expected must be dicts such as {{'start': '2024-05-01 12:00', 'n': 2}}, got {row!r}.")
    try:
        return {name: as_time(value) if name in BOUNDS else value for name, value in _flat(row).items()}
    except (TypeError, ValueError) as error:
        raise MuntinError(f"expected has a window that begins or ends at no time: {error}.") from error


def _result(row: Mapping[str, Any]) -> Row:
    flat = _flat(row)
    return {name: _zoned(value) if name in BOUNDS else value for name, value in flat.items()}


def _flat(row: Mapping[str, Any]) -> Row:
    """A row whose window is two columns."""
    window = row.get("window")
    bounds = {name: window[name] for name in BOUNDS} if isinstance(window, Mapping) else {}
    return bounds | {name: value for name, value in row.items() if name != "window"}


def _matches(expected: Row, found: Row) -> bool:
    return all(name in found and same(value, found[name]) for name, value in expected.items())


def same(expected: Any, found: Any) -> bool:
    """Whether two values are equal; numbers with a fraction up to rounding, and NaN is equal to itself."""
    if isinstance(expected, datetime) and isinstance(found, datetime):
        return bool(_zoned(expected) == _zoned(found))
    if isinstance(expected, float) or isinstance(found, float):
        if not isinstance(expected, int | float) or not isinstance(found, int | float):
            return False
        both_nan = math.isnan(expected) and math.isnan(found)
        return both_nan or math.isclose(expected, found, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(expected, list | tuple) and isinstance(found, list | tuple):
        return len(expected) == len(found) and all(map(same, expected, found))
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        return expected.keys() == found.keys() and all(same(value, found[name]) for name, value in expected.items())
    return bool(expected == found)


def _problems(missing: Sequence[Row], unexpected: list[Row], names: Sequence[str]) -> list[str]:
    """A line for each window that differs, is missing or is not expected."""
    lines = []
    for row in missing:
        other = _nearest(row, unexpected)
        if other is None:
            lines.append(f"  missing     {_shown(row, names)}")
            continue
        unexpected = [each for each in unexpected if each is not other]
        differing = [name for name, value in row.items() if not same(value, other.get(name))]
        changes = ", ".join(f"{name} is {_value(other.get(name))}, expected {_value(row[name])}" for name in differing)
        lines.append(f"  different   {_shown(row, [name for name in names if name not in differing])}: {changes}")
    return [*lines, *(f"  unexpected  {_shown(row, names)}" for row in unexpected)]


def _nearest(row: Row, others: Sequence[Row]) -> Row | None:
    """The window with the same bounds that is equal in the most columns, and in one beside them if there are others."""
    alike = [other for other in others if all(same(row[name], other.get(name)) for name in BOUNDS if name in row)]
    if not any(name in row for name in BOUNDS):
        return None

    def equal(other: Row) -> int:
        return sum(same(value, other.get(name)) for name, value in row.items() if name not in BOUNDS)

    nearest = max(alike, key=equal, default=None)
    has_others = sum(name not in BOUNDS for name in row) > 1
    return None if nearest is None or (has_others and not equal(nearest)) else nearest


def _shown(row: Row, names: Sequence[str]) -> str:
    bounds = [_value(row[name]) for name in BOUNDS if name in names and name in row]
    others = [f"{name}={_value(row[name])}" for name in names if name not in BOUNDS and name in row]
    return "  ".join([*([f"[{', '.join(bounds)})"] if bounds else []), *others])


def _value(value: Any) -> str:
    if isinstance(value, datetime):
        time: datetime = _zoned(value).astimezone(timezone.utc).replace(tzinfo=None)
        return time.isoformat(" ", "minutes" if time == _whole_minute(time) else "auto")
    return repr(value)


def _whole_minute(time: datetime) -> datetime:
    return time - timedelta(seconds=time.second, microseconds=time.microsecond)


def _zoned(time: Any) -> Any:
    return time.replace(tzinfo=timezone.utc) if isinstance(time, datetime) and time.tzinfo is None else time
