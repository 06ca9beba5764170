"""The first instants of local days, in any time zone.

They are looked up in the zone's rules, day by day, and kept in blocks, so that a batch costs a few gathers.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

import numpy as np

from muntin.arrays import Int64Array
from muntin.errors import MuntinError, suggest

DAY = 86_400_000_000
"""In microseconds."""
_EPOCH = date(1970, 1, 1)
_EPOCH_TIME = datetime(1970, 1, 1, tzinfo=timezone.utc)
_BITS = 9
_BLOCK = 1 << _BITS
"""Days whose first instants are looked up together."""
_FIRST = (date(1, 1, 1) - _EPOCH).days // _BLOCK + 1
_LAST = (date(9999, 12, 31) - _EPOCH).days // _BLOCK - 1
"""The blocks that Python's calendar has as a whole. Days outside of them have the length of 24 hours."""


def check_zone(zone: object) -> str:
    """The name of a zone, if there is one of that name."""
    if not isinstance(zone, str):
        raise MuntinError(f"zone must be the name of a time zone such as 'Europe/Berlin', got {zone!r}.")
    if not is_zone(zone):
        raise MuntinError(f"There is no time zone {zone!r}. {suggest(zone, sorted(available_timezones()))}")
    return zone


@lru_cache(maxsize=4096)
def is_zone(name: str) -> bool:
    """Whether there is a time zone of this name."""
    check_database()
    return _loads(name)


def check_database() -> None:
    """Check that this machine knows time zones: not every system has their database."""
    if not _loads("UTC"):
        raise MuntinError(
            "Python finds no database of time zones on this machine; install one with pip install tzdata, on the "
            "machines of Spark's workers, too."
        )


def _loads(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def midnights(zone: str, days: Int64Array) -> Int64Array:
    """The first instants of local days, in microseconds since 1970 in UTC. Days count from 1970-01-01."""
    days = np.asarray(days, dtype=np.int64)
    blocks = np.clip(days >> _BITS, _FIRST, _LAST)
    inside = np.clip(days - (blocks << _BITS), 0, _BLOCK - 1)
    found = np.empty(days.shape, dtype=np.int64)
    for block in np.unique(blocks).tolist():
        of_block = blocks == block
        found[of_block] = _midnights(zone, block)[inside[of_block]]
    found += (days - (blocks << _BITS) - inside) * DAY
    return found


@lru_cache(maxsize=4096)
def _midnights(zone: str, block: int) -> Int64Array:
    info = ZoneInfo(check_zone(zone))
    first = _EPOCH + timedelta(days=block << _BITS)
    return np.array([_midnight(info, first + timedelta(days=day)) for day in range(_BLOCK)])


def _midnight(zone: ZoneInfo, day: date) -> int:
    """The first instant of a local day: midnight, or the end of the change of clocks that leaves midnight out."""
    local = datetime(day.year, day.month, day.day, tzinfo=zone)
    instant = local.astimezone(timezone.utc)
    if instant.astimezone(zone).replace(tzinfo=None) != local.replace(tzinfo=None):
        instant = _change(zone, local.replace(fold=1).astimezone(timezone.utc), instant)
    return (instant - _EPOCH_TIME) // timedelta(microseconds=1)


def _change(zone: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """The instant of the change of clocks between two instants; changes are at full seconds."""
    offset = before.astimezone(zone).utcoffset()
    while after - before > timedelta(seconds=1):
        middle = before + timedelta(seconds=(after - before) // timedelta(seconds=2))
        if middle.astimezone(zone).utcoffset() == offset:
            before = middle
        else:
            after = middle
    return after
