"""Converts sizes such as "2 GB" to bytes and back."""

from __future__ import annotations

import re
from decimal import Decimal

from muntin.errors import MuntinError

_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS |= {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")


def size_in_bytes(value: str | int, argument: str) -> int:
    """The bytes of a size, given as a number or a string such as "2 GB" or "512 MiB"."""
    if isinstance(value, str):
        match = _SIZE.fullmatch(value.strip().lower())
        if match is None or match[2] not in _UNITS:
            raise MuntinError(f"{argument} is {value!r}, which is not a size; write one such as '512 MB' or '2 GB'.")
        size = int(Decimal(match[1]) * _UNITS[match[2]])
    elif isinstance(value, int) and not isinstance(value, bool):
        size = value
    else:
        raise MuntinError(f"{argument} must be a size such as '2 GB', or a number of bytes, got {value!r}.")
    if size <= 0:
        raise MuntinError(f"{argument} must be greater than zero, got {value!r}.")
    if size >= 1 << 63:
        raise MuntinError(f"{argument} is {value!r}, which is more than any machine has; give less than 9,000 PB.")
    return size


def describe_size(size: float) -> str:
    """Bytes as readable text; petabytes are the largest unit."""
    for unit in ("bytes", "KB", "MB", "GB", "TB"):
        if size < 999.5:  # a value that rounds to 1,000 is shown in the next unit
            return f"{size:,.0f} {unit}" if unit in ("bytes", "KB", "MB") else f"{size:,.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} PB"
