"""The format of load notes and of reports between hosts: lines of JSON, which may be damaged or foreign.

Only lines with the right types and sensible values count; all others are ignored.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

MOST_BYTES = 1 << 20
"""A note has one line per task; a longer one is not ours."""
MOST_COMMAND_BYTES = 1 << 10
_MOST_SECONDS = 1e13
"""Bounds all times and durations, as it bounds Spark's timestamps."""
_MOST_ROWS = 1 << 63


@dataclass(frozen=True)
class Started:
    """The start of a batch."""

    time: float
    rate: float
    is_first: bool


@dataclass(frozen=True)
class Done:
    """The end of a task of a batch."""

    time: float
    latest: float | None
    rows: int


@dataclass(frozen=True)
class Command:
    """A rate that was set by hand."""

    rate: float | None
    """None gives control back."""
    at: float
    """When it was given, in seconds."""

    @classmethod
    def of(cls, report: Any) -> Command | None:
        """The command of a report, which may be damaged."""
        match report:
            case [rate, at] if _is_seconds(at) and (rate is None or (_is_seconds(rate) and 0 <= rate < 1)):
                return cls(None if rate is None else float(rate), float(at))
        return None

    def report(self) -> list[float | None]:
        return [self.rate, self.at]

    def note(self) -> bytes:
        return json.dumps(self.report()).encode()


def command_of(note: bytes) -> Command | None:
    return Command.of(_parsed(note))


def started_batch(note: bytes) -> Started | None:
    match [_parsed(line) for line in note.splitlines()]:
        case [[at, rate, bool(is_first)]] if _is_seconds(at) and _is_seconds(rate) and 0 <= rate < 1:
            return Started(float(at), float(rate), is_first)
    return None


def done_tasks(note: bytes) -> list[Done]:
    tasks = []
    for line in note.splitlines():
        match _parsed(line):
            case [at, latest, rows] if _is_seconds(at) and (latest is None or _is_seconds(latest)) and _is_rows(rows):
                tasks.append(Done(float(at), None if latest is None else float(latest), rows))
    return tasks


def durations(note: bytes) -> list[float]:
    """The durations of a batch on other hosts."""
    seconds_of_hosts = []
    for line in note.splitlines():
        match _parsed(line):
            case [seconds] if _is_seconds(seconds) and seconds >= 0:
                seconds_of_hosts.append(float(seconds))
    return seconds_of_hosts


def how_long(report: bytes) -> tuple[str, dict[int, float]]:
    """The host of a report, and the seconds that each batch took on it."""
    seconds_of_batches: dict[int, float] = {}
    match _parsed(report):
        case [str(host), list(batches)]:
            for batch in batches:
                match batch:
                    case [number, seconds] if _is_rows(number) and _is_seconds(seconds) and seconds >= 0:
                        seconds_of_batches[number] = float(seconds)
            return host, seconds_of_batches
    return "", seconds_of_batches


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _is_seconds(value: object) -> bool:
    """Neither a bool nor NaN. An integer too large for a float can still be compared."""
    return type(value) in (int, float) and -_MOST_SECONDS <= value <= _MOST_SECONDS  # type: ignore[operator]


def _is_rows(value: object) -> bool:
    return type(value) is int and 0 <= value < _MOST_ROWS
