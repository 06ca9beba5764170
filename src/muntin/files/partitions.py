"""Columns whose values are in the paths of files, such as `date=2024-01-01/`: the values and types that Spark sees."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from muntin.errors import MuntinError
from muntin.files.file_set import File
from muntin.files.zones import UTC, point_in_time
from muntin.type_names import spark_name

NULL = "__HIVE_DEFAULT_PARTITION__"
_WHOLE = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(NaN|Infinity)")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?")


def values(file: File) -> dict[str, str | None]:
    """The values in the path of a file, by the names of their columns."""
    if file.values is not None:
        return dict(file.values)
    folders = file.path[file.root :].split("/")[:-1]
    found = (folder.partition("=") for folder in folders if "=" in folder)
    return {unquote(name): None if value == NULL else unquote(value) for name, _, value in found}


def inferred(files: Iterable[File]) -> dict[str, pa.DataType]:
    """The columns in the paths, each with the narrowest type that has all its values."""
    kinds: dict[str, pa.DataType | None] = {}
    known: dict[str, set[str | None]] = {}
    for file in files:
        for name, text in values(file).items():
            if text in known.setdefault(name, set()):
                continue
            known[name].add(text)
            kinds[name] = _common(kinds.get(name), None if text is None else _kind(text))
    return {name: pa.string() if kind is None else kind for name, kind in kinds.items()}


def _kind(text: str) -> pa.DataType:
    if _WHOLE.fullmatch(text):
        number = int(text)
        for bits, kind in ((31, pa.int32()), (63, pa.int64())):
            if -(1 << bits) <= number < 1 << bits:
                return kind
        digits = len(str(abs(number)))
        return pa.decimal128(digits, 0) if digits <= 38 else pa.float64()
    if _NUMBER.fullmatch(text):
        return pa.float64()
    if _DATE.fullmatch(text) and _parses(date.fromisoformat, text):
        return pa.date32()
    if _TIME.fullmatch(text) and _parses(datetime.fromisoformat, text):
        return UTC
    return pa.string()


def _parses(function: Callable[[str], object], text: str) -> bool:
    try:
        function(text)
    except ValueError:
        return False
    return True


_WIDER: tuple[tuple[pa.DataType, pa.DataType, pa.DataType], ...] = (
    (pa.int32(), pa.int64(), pa.int64()),
    (pa.int32(), pa.float64(), pa.float64()),
    (pa.date32(), UTC, UTC),
)


def _common(first: pa.DataType | None, second: pa.DataType | None) -> pa.DataType | None:
    """The type of two values, by Spark's rules for partitions."""
    if first is None or second is None or first == second:
        return second if first is None else first
    decimals = [kind for kind in (first, second) if pa.types.is_decimal(kind)]
    others = [kind for kind in (first, second) if not pa.types.is_decimal(kind)]
    if decimals and all(pa.types.is_integer(kind) for kind in others):
        digits = [10 if kind == pa.int32() else 20 for kind in others]
        return pa.decimal128(max(*digits, *(kind.precision for kind in decimals)), 0)
    return next((wide for a, b, wide in _WIDER if {a, b} == {first, second}), pa.string())


_READ: tuple[tuple[Callable[[pa.DataType], bool], Callable[[str], Any]], ...] = (
    (pa.types.is_integer, int),
    (pa.types.is_floating, float),
    (pa.types.is_decimal, Decimal),
    (pa.types.is_date, date.fromisoformat),
    (pa.types.is_boolean, lambda text: {"true": True, "false": False}[text.lower()]),
    (pa.types.is_string, str),
)


def scalar(text: str | None, field: pa.Field, file: File, zone: str) -> pa.Scalar:
    """A value in the path, in the type of its column."""
    if text is None:
        return pa.scalar(None, field.type)
    try:
        if pa.types.is_timestamp(field.type):
            at = datetime.fromisoformat(text) if field.type.tz is None else point_in_time(text, zone)
            return pa.scalar(at, field.type)
        read = next(read for is_kind, read in _READ if is_kind(field.type))
        return pa.scalar(read(text), field.type)
    except (ValueError, ArithmeticError, LookupError, StopIteration, pa.ArrowException):
        raise MuntinError(
            f"The path of the file {file.path!r} says {field.name}={text!r}, which cannot be read as "
            f"{spark_name(field.type)}; give another type with schema=."
        ) from None
