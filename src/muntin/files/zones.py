"""Texts as points in time: those with an offset as they say, the others in a time zone."""

from __future__ import annotations

from datetime import datetime, timezone
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

UTC = pa.timestamp("us", tz="UTC")
_OFFSET = r"(Z|[+-]\d\d:?\d\d)$"


def points_in_time(texts: pa.Array, zone: str) -> pa.Array:
    """Texts in the format of ISO 8601 as times in UTC."""
    with_offset = pc.fill_null(pc.match_substring_regex(texts, _OFFSET), False)
    if with_offset.true_count == 0:
        return in_zone(texts.cast(pa.timestamp("us")), zone)
    if with_offset.false_count == 0:
        return texts.cast(UTC)
    missing = pa.scalar(None, pa.string())
    absolute = pc.if_else(with_offset, texts, missing).cast(UTC)
    return pc.coalesce(absolute, in_zone(pc.if_else(with_offset, missing, texts).cast(pa.timestamp("us")), zone))


def in_zone(local: pa.Array, zone: str) -> pa.Array:
    """Local times in UTC. Where clocks go forward, times that do not exist are later by the gap, as in Java."""
    try:
        return pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="raise").cast(UTC)
    except pa.ArrowInvalid:
        rules = ZoneInfo(zone)
        values = [None if at is None else at.replace(tzinfo=rules).astimezone(timezone.utc) for at in local.to_pylist()]
        return pa.array(values, UTC)


def point_in_time(text: str, zone: str) -> datetime:
    """The same for one text."""
    at = datetime.fromisoformat(text)
    return (at if at.tzinfo is not None else at.replace(tzinfo=ZoneInfo(zone))).astimezone(timezone.utc)
