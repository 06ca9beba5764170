"""The knob of paper 000: when a chunk is compressed, and with what."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa

from muntin.checks import one_of
from muntin.durations import Duration, microseconds
from muntin.errors import MuntinError

CODECS = ("snappy", "lz4", "zstd")
_LEVELS = {"lz4": (1, 12), "zstd": (1, 22)}
_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS |= {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")


@dataclass(frozen=True)
class Compression:
    """D and the codec; or a limit of memory, for which D is found."""

    after: int | None
    """D in microseconds of event time: a chunk that was not updated for so long is compressed. None is never."""
    codec: str = "zstd"
    level: int | None = None
    memory: int | None = None
    """Bytes of chunks that all shards together may keep in the workers' memory."""

    @classmethod
    def of(
        cls, after: Duration | None, codec: str, level: int | None, memory: str | int | None, given_after: bool
    ) -> Compression:
        """Checked, as the user gave it."""
        one_of(codec, "codec", dict.fromkeys(CODECS, ""))
        if level is not None:
            _check_level(codec, level)
        if given_after and memory is not None:
            raise MuntinError("compress() got both after= and memory=; with memory= Muntin finds when to compress.")
        if not given_after and memory is None:
            raise MuntinError(
                "compress() got neither after= nor memory=; say when, such as after='1 minute', or how much memory "
                "chunks may take, such as memory='2 GB'."
            )
        delay = None
        if after is not None:
            delay = microseconds(after, "after")
            if delay < 0:
                raise MuntinError(f"after must not be negative, got {after!r}; '0 seconds' compresses at once.")
        return cls(delay, codec, level, None if memory is None else size_in_bytes(memory, "memory"))

    def make_codec(self) -> pa.Codec:
        return pa.Codec(self.codec, compression_level=self.level)


NEVER_COMPRESSED = Compression(None)


def _check_level(codec: str, level: object) -> None:
    if codec not in _LEVELS:
        raise MuntinError(f"level={level!r} is given, but {codec} has no levels; leave it out, or use zstd.")
    low, high = _LEVELS[codec]
    if isinstance(level, bool) or not isinstance(level, int) or not low <= level <= high:
        raise MuntinError(f"level must be a whole number from {low} to {high} for {codec}, got {level!r}.")


def size_in_bytes(value: str | int, argument: str) -> int:
    """Bytes: a number of them, or a string such as "2 GB" or "512 MiB"."""
    if isinstance(value, str):
        found = _SIZE.fullmatch(value.strip().lower())
        if found is None or found[2] not in _UNITS:
            raise MuntinError(f"{argument} is {value!r}, which is not a size; write one such as '512 MB' or '2 GB'.")
        size = int(Decimal(found[1]) * _UNITS[found[2]])
    elif isinstance(value, int) and not isinstance(value, bool):
        size = value
    else:
        raise MuntinError(f"{argument} must be a size such as '2 GB', or a number of bytes, got {value!r}.")
    if size <= 0:
        raise MuntinError(f"{argument} must be more than nothing, got {value!r}.")
    if size >= 1 << 63:
        raise MuntinError(f"{argument} is {value!r}, which is more than any machine has; give less than 9,000 PB.")
    return size


def describe_size(size: float) -> str:
    """Bytes as a person would say it; thousands of petabytes stay such."""
    for unit in ("bytes", "KB", "MB", "GB", "TB"):
        if size < 999.5:  # what would be shown as 1,000 is one of the next unit
            return f"{size:,.0f} {unit}" if unit in ("bytes", "KB", "MB") else f"{size:,.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} PB"
