"""What notes on the load say, and what hosts tell each other: lines of JSON, which may be damaged or of somebody else.

Only what has the right types and sensible values counts. The rest is as if it were not there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

MOST_BYTES = 1 << 20
"""A note has a line per task; a longer one is none of ours."""
_MOST_SECONDS = 1e13
"""Times of a batch and of events, and durations, are within this: Spark's timestamps are."""
_MOST_ROWS = 1 << 63


@dataclass(frozen=True)
class Started:
    """A batch began."""

    at: float
    rate: float
    is_first: bool


@dataclass(frozen=True)
class Done:
    """A task of a batch is done."""

    at: float
    latest: float | None
    rows: int


def started_batch(note: bytes) -> Started | None:
    match [_parsed(line) for line in note.splitlines()]:
        case [[at, rate, bool(is_first)]] if _is_seconds(at) and _is_seconds(rate) and 0 <= rate < 1:
            return Started(float(at), float(rate), is_first)
    return None


def done_tasks(note: bytes) -> list[Done]:
    found = []
    for line in note.splitlines():
        match _parsed(line):
            case [at, latest, rows] if _is_seconds(at) and (latest is None or _is_seconds(latest)) and _is_rows(rows):
                found.append(Done(float(at), None if latest is None else float(latest), rows))
    return found


def durations(note: bytes) -> list[float]:
    """What was heard of a batch."""
    found = []
    for line in note.splitlines():
        match _parsed(line):
            case [seconds] if _is_seconds(seconds) and seconds >= 0:
                found.append(float(seconds))
    return found


def how_long(told: bytes) -> tuple[str, dict[int, float]]:
    """Which host tells how long batches took it."""
    took: dict[int, float] = {}
    match _parsed(told):
        case [str(host), list(batches)]:
            for each in batches:
                match each:
                    case [number, seconds] if _is_rows(number) and _is_seconds(seconds) and seconds >= 0:
                        took[number] = float(seconds)
            return host, took
    return "", took


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _is_seconds(value: object) -> bool:
    """Neither a bool nor a NaN; an integer may be too large for a float, but not for a comparison."""
    return type(value) in (int, float) and -_MOST_SECONDS <= value <= _MOST_SECONDS  # type: ignore[operator]


def _is_rows(value: object) -> bool:
    return type(value) is int and 0 <= value < _MOST_ROWS
