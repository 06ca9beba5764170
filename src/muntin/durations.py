"""Converts durations to microseconds: Spark's strings ("5 minutes", "1 hour 30 minutes") or timedelta."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from typing import TypeAlias

from muntin.errors import MuntinError

Duration: TypeAlias = str | timedelta

_UNITS = {
    "microsecond": 1,
    "us": 1,
    "millisecond": 1_000,
    "ms": 1_000,
    "second": 1_000_000,
    "sec": 1_000_000,
    "s": 1_000_000,
    "minute": 60_000_000,
    "min": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 7 * 86_400_000_000,
}
_CALENDAR_UNITS = {"month", "quarter", "year"}
_LONGEST = 1 << 53
"""About 285 years: a few such lengths plus any Spark timestamp fit 64 bits."""
_PART = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*")
# For printing: from largest to smallest, without aliases.
_PRINTED = ("day", "hour", "minute", "second", "millisecond", "microsecond")


def microseconds(value: Duration, argument: str) -> int:
    """The length of `value` in microseconds; `argument` names it in errors."""
    length = _parse(value, argument)
    if abs(length) > _LONGEST:
        raise MuntinError(f"{argument} is {value!r}, which is longer than {_LONGEST // _UNITS['day']:,} days.")
    return length


def _parse(value: Duration, argument: str) -> int:
    if isinstance(value, timedelta):
        return (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
    if not isinstance(value, str):
        raise MuntinError(f"{argument} must be a duration such as '5 minutes' or a datetime.timedelta, got {value!r}.")
    text = value.strip().lower().removeprefix("interval ")
    total = Decimal(0)
    position = 0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None:
            break
        amount, unit = part.groups()
        unit = unit if unit in _UNITS else unit.removesuffix("s")
        if unit in _CALENDAR_UNITS:
            raise MuntinError(
                f"{argument} is {value!r}, but a {unit} has no fixed length of its own; give days or hours instead, "
                "such as '30 days', or use W.calendar for windows of months."
            )
        if unit not in _UNITS:
            break
        total += Decimal(amount) * _UNITS[unit]
        position = part.end()
    if position < len(text) or not text:
        raise MuntinError(
            f"{argument} is {value!r}, which is not a duration; write a number and a unit, such as '5 minutes' "
            "(microseconds, milliseconds, seconds, minutes, hours, days or weeks)."
        )
    if total != total.to_integral_value():
        raise MuntinError(f"{argument} is {value!r}, which is finer than a microsecond; use whole microseconds.")
    return int(total)


def positive_microseconds(value: Duration, argument: str) -> int:
    length = microseconds(value, argument)
    if length <= 0:
        raise MuntinError(f"{argument} must be longer than zero, got {value!r}; give a positive duration.")
    return length


def microseconds_from_zero(value: Duration, argument: str) -> int:
    length = microseconds(value, argument)
    if length < 0:
        raise MuntinError(f"{argument} must not be less than zero, got {value!r}; give a duration from '0 seconds' on.")
    return length


def describe(length: int) -> str:
    """`length` microseconds as readable text: '1 hour 30 minutes'."""
    if length == 0:
        return "0 seconds"
    sign, remainder = ("-", -length) if length < 0 else ("", length)
    parts = []
    for unit in _PRINTED:
        amount, remainder = divmod(remainder, _UNITS[unit])
        if amount:
            parts.append(f"{sign}{amount} {unit}{'s' if amount != 1 else ''}")
    return " ".join(parts)
