"""The knob D of tunable compression (A_C, Gulisano): when a chunk is compressed, and with what."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from muntin.checks import one_of
from muntin.durations import Duration, microseconds
from muntin.errors import MuntinError
from muntin.sizes import size_in_bytes

CODECS = ("snappy", "lz4", "zstd")
_LEVELS = {"lz4": (1, 12), "zstd": (1, 22)}


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
