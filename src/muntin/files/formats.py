"""The formats that a scan can read, by their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

from muntin.checks import one_of
from muntin.errors import MuntinError, suggest
from muntin.files.arrow import Arrow
from muntin.files.csv import Csv
from muntin.files.delta import Delta
from muntin.files.file_set import Format
from muntin.files.json_lines import JsonLines
from muntin.files.parquet import Parquet

NAMES = ("parquet", "csv", "json", "arrow", "delta")
_CSV = {"header": "header", "sep": "sep", "delimiter": "sep", "quote": "quote", "escape": "escape", "nullValue": "null"}
"""Spark's options, and ours."""


def format_of(name: Any, options: Any, zone: str) -> Format:
    one_of(name, "format", dict.fromkeys(NAMES, ""))
    if options is not None and not isinstance(options, Mapping):
        raise MuntinError(f"options must be a dict such as {{'header': True}}, got {options!r}.")
    if options and name != "csv":
        raise MuntinError(f"options has {next(iter(options))!r}, but {name} files have none; leave options out.")
    if name in ("csv", "json"):
        _check_zone(zone)
    if name == "csv":
        return Csv(zone=zone, **_csv(options or {}))
    others: dict[str, Format] = {"parquet": Parquet(), "json": JsonLines(zone=zone), "arrow": Arrow(), "delta": Delta()}
    return others[name]


def _check_zone(zone: str) -> None:
    """Check that Python knows the time zone, in which timestamps without one are."""
    try:
        ZoneInfo(zone)
    except (ValueError, LookupError, OSError) as error:
        raise MuntinError(
            f"spark.sql.session.timeZone is {zone!r}, which Python does not know, and timestamps in text may be "
            "in it; set a region such as 'Europe/Berlin', or 'UTC'."
        ) from error


def _csv(options: Mapping[Any, Any]) -> dict[str, Any]:
    known = {option.lower(): ours for option, ours in _CSV.items()}
    read: dict[str, Any] = {}
    for option, value in options.items():
        ours = known.get(str(option).lower())
        if ours is None:
            raise MuntinError(f"options has {option!r}, which scan does not know. {suggest(str(option), _CSV)}")
        read[ours] = _header(value) if ours == "header" else _text(option, value, ours)
    return read


def _header(value: Any) -> bool:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise MuntinError(f"options['header'] must be True or False, got {value!r}.")
    return value


def _text(option: Any, value: Any, ours: str) -> str:
    sizes = {"null": range(1 << 20), "sep": range(1, 2), "quote": range(2), "escape": range(1, 2)}[ours]
    if not isinstance(value, str) or len(value) not in sizes:
        kind = "a text" if ours == "null" else "one character"
        raise MuntinError(f"options[{option!r}] must be {kind}, got {value!r}.")
    return value
