"""The knob D of tunable memory compression (A_C, Gulisano 2024): when chunks are compressed, and with which codec."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from muntin.checks import one_of
from muntin.durations import Duration, describe, microseconds
from muntin.engine.features import Option
from muntin.engine.plan import Draft, Plan
from muntin.errors import MuntinError
from muntin.features.order import COMPRESSION
from muntin.sizes import describe_size, size_in_bytes
from muntin.written import call, defaults, unlike

CODECS = ("snappy", "lz4", "zstd")
UNITS = ("pane", "key")
_LEVELS = {"lz4": (1, 12), "zstd": (1, 22)}


@dataclass(frozen=True)
class Compression(Option):
    """The codec with either D or a memory limit, from which D is found."""

    name = "compress"
    order = COMPRESSION

    after: int | None
    """D in microseconds of event time since the last update of a chunk, or of a key; None means never."""
    codec: str = "zstd"
    level: int | None = None
    memory: int | None = None
    """The most bytes of chunks in the workers' memory, over all shards."""
    unit: str = "pane"
    """What has an age: the tuples of a pane, or those of a key."""

    @classmethod
    def of(
        cls,
        after: Duration | None,
        codec: str,
        level: int | None,
        memory: str | int | None,
        given_after: bool,
        unit: str = "pane",
    ) -> Compression:
        """Validate the user's arguments."""
        one_of(unit, "unit", dict.fromkeys(UNITS, ""))
        one_of(codec, "codec", dict.fromkeys(CODECS, ""))
        if level is not None:
            _check_level(codec, level)
        if given_after and memory is not None:
            raise MuntinError("compress() got both after= and memory=; with memory=, Muntin chooses when to compress.")
        if not given_after and memory is None:
            raise MuntinError(
                "compress() got neither after= nor memory=; give when to compress, such as after='1 minute', or how "
                "much memory chunks may take, such as memory='2 GB'."
            )
        if unit == "key" and memory is not None:
            raise MuntinError(
                "compress(unit='key') needs after=, such as after='1 minute'; memory= compresses the oldest panes, "
                "whatever their keys."
            )
        delay = None
        if after is not None:
            delay = microseconds(after, "after")
            if delay < 0:
                raise MuntinError(f"after must not be negative, got {after!r}; '0 seconds' compresses at once.")
        return cls(delay, codec, level, None if memory is None else size_in_bytes(memory, "memory"), unit)

    def make_codec(self) -> pa.Codec:
        return pa.Codec(self.codec, compression_level=self.level)

    @property
    def written(self) -> str:
        if self.memory is not None:
            given: dict[str, object] = {"memory": describe_size(self.memory)}
        else:
            given = {"after": None if self.after is None else describe(self.after)}
        others = {"codec": self.codec, "level": self.level, "unit": self.unit}
        return call(".compress", **given, **unlike(others, defaults(Compression)))

    @property
    def not_by_zone(self) -> str | None:
        if self.memory is None:
            return None
        return "memory= is divided among shards, and here every zone of a shard has chunks of its own; give after="

    def check(self, draft: Draft, complete: bool = False) -> None:
        if self.unit == "key" and not draft.keys:
            raise MuntinError(
                "compress(unit='key') compresses the rows of keys that get no more rows, and this query has no key; "
                "give over(..., by=...), or use unit='pane'."
            )
        if self.unit == "key" and complete and draft.planned().writes_through:
            raise MuntinError(
                "compress(unit='key') reads the uncompressed rows with every batch, and approximate() leaves them in "
                "the state to be read rarely; use unit='pane'."
            )
        if complete and not draft.planned().plan().keeps_chunks:
            raise MuntinError(
                "compress() is for the rows that holistic aggregates and functions of windows need, and this query "
                "keeps none: its aggregates need only partial results. Leave it out, or add an aggregate such as "
                "A.median(...)."
            )

    def plan(self, draft: Draft) -> Draft:
        from muntin.features.compression.aging import CompressedChunks

        return draft.with_feature(CompressedChunks(self))

    def explained(self, plan: Plan) -> list[str]:
        level = "" if self.level is None else f" at level {self.level}"
        if self.memory is not None:
            return [
                f"Compression: {self.codec}{level}, of the oldest chunks, as many as needed to keep all within "
                f"{describe_size(self.memory)} of memory; beyond that, the oldest are only in the state."
            ]
        if self.after is None:
            return ["Compression: none; .compress(after=...) or .compress(memory=...) trades time for memory."]
        if self.unit == "key":
            when = (
                "as soon as they are complete"
                if self.after == 0
                else f"{describe(self.after)} to {describe(2 * self.after)} of event time after the last of them"
            )
            return [f"Compression: {self.codec}{level}, of all rows of a key {when} (D = {describe(self.after)})."]
        when = (
            "as soon as it is complete"
            if self.after == 0
            else f"{describe(self.after)} of event time after its last row"
        )
        return [f"Compression: {self.codec}{level}, of a chunk {when} (D = {describe(self.after)})."]


def _check_level(codec: str, level: object) -> None:
    if codec not in _LEVELS:
        raise MuntinError(f"level={level!r} is given, but {codec} has no levels; leave it out, or use zstd.")
    low, high = _LEVELS[codec]
    if isinstance(level, bool) or not isinstance(level, int) or not low <= level <= high:
        raise MuntinError(f"level must be a whole number from {low} to {high} for {codec}, got {level!r}.")
