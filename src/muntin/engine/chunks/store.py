"""The chunks of one shard: the chunk buffer of Mencagli et al., *Evaluation of Sliding-Window Parallelism*.

A chunk contains the tuples of one stretch of event time, sorted by (key, time), and is immutable. It is written when
the stretch is complete, and deleted when the last window over it has closed. Late tuples, and tuples of windows that
are not over time, become pieces: small chunks. `FANOUT` pieces are folded into one, until that is large.
"""

from __future__ import annotations

import uuid
from bisect import insort
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from muntin.arrays import BoolArray, Int64Array, run_starts, stable_order
from muntin.engine.chunks.bundles import Bundles, Location
from muntin.engine.state import StateValues
from muntin.errors import MuntinError
from muntin.panes import keys as key_codes
from muntin.panes import packed
from muntin.panes.table import Layout, PaneTable, compacted, merge
from muntin.panes.tuples import by_code
from muntin.sizes import describe_size

FANOUT = 8
LARGE = 1 << 16
"""A piece with at least this many tuples is not folded again."""
ROOM = 0.9
"""Chunks that were evicted come back into memory while it is filled below this share of the limit."""


@dataclass(frozen=True)
class Chunk:
    name: str
    first: int
    """The event time of its first tuple."""
    last: int
    """The event time of its last tuple: when it was last updated, in event time."""
    tuples: int
    raw: int
    """Its bytes, uncompressed."""
    size: int
    """Its bytes in the state."""
    compressed: bool
    tier: int | None
    """How often a piece has been folded; None for a chunk that is final."""
    value: str = ""
    """The bundle that it shares with other chunks; empty if it has a value of its own, under its name."""
    value_size: int = 0
    at: int = 0
    """Its offset in the bundle."""

    @property
    def location(self) -> Location:
        return Location(self.value, self.value_size, self.at) if self.value else Location(self.name, self.size, None)

    def with_location(self, location: Location) -> Chunk:
        if location.offset is None:
            return self
        return replace(self, value=location.value, value_size=location.size, at=location.offset)


class ChunkPolicy(Protocol):
    """How chunks are kept."""

    @property
    def limit(self) -> int | None:
        """The maximal bytes that this shard may keep in memory; None without a limit."""
        ...

    def codec(self, age: int) -> pa.Codec | None:
        """The codec for a new chunk of this age, see `ChunkStore.age`; None to keep it uncompressed."""
        ...


@dataclass(frozen=True)
class AsTheyAre:
    """Chunks are kept in memory, uncompressed."""

    limit: int | None = None

    def codec(self, age: int) -> pa.Codec | None:
        return None


@dataclass(frozen=True)
class Stretches:
    """The stretches of event time that chunks cover."""

    length: int | None
    """None where chunks are cut by number of tuples."""
    offset: int = 0
    apart: bool = False
    """Whether all tuples become pieces, and pieces of different stretches are not folded together."""


class ChunkStore:
    """The chunks of one shard, for one batch."""

    def __init__(
        self,
        layout: Layout,
        stretches: Stretches,
        values: StateValues,
        resident: dict[str, bytes],
        chunks: Sequence[Chunk],
        finalized: int,
        shards: int = 1,
        policy: ChunkPolicy | None = None,
    ) -> None:
        """`finalized` is the time up to which tuples are finalized. Ages of chunks are counted from it."""
        self._layout = layout
        self._stretches = stretches
        self._resident = resident
        self._policy = policy or AsTheyAre()
        self._limit = self._policy.limit
        self._bundles = Bundles(values, ((chunk.name, chunk.location) for chunk in chunks), self._limit)
        self._finalized = finalized
        self.shards = shards
        """How many shards the query has."""
        self.holds = True
        """Whether new chunks stay in memory. Otherwise they are only in the state, until a window needs them."""
        self.chunks = list(chunks)
        """Oldest first."""
        self.compressions = 0
        self.decompressions = 0
        for name in resident.keys() - {chunk.name for chunk in chunks}:  # left by a failed batch, or outdated
            del resident[name]

    @property
    def limit(self) -> int | None:
        """The maximal bytes that this shard may keep in memory; None without a limit."""
        return self._limit

    @property
    def resident_bytes(self) -> int:
        return sum(map(len, self._resident.values()))

    @property
    def state_bytes(self) -> int:
        """The bytes of the chunks in the state."""
        return self._bundles.nbytes

    def is_resident(self, chunk: Chunk) -> bool:
        return chunk.name in self._resident

    def overlapping(self, first: int, last: int) -> list[Chunk]:
        """The chunks that may contain tuples between the two times."""
        return [chunk for chunk in self.chunks if chunk.last >= first and chunk.first <= last]

    def open(self, chunk: Chunk) -> PaneTable:
        """The keys and the tuples of a chunk."""
        self.decompressions += chunk.compressed
        return packed.unpack_chunk(self._layout, self._bytes(chunk))

    def _bytes(self, chunk: Chunk) -> bytes:
        value = self._resident.get(chunk.name)
        if value is None:
            value = self._bundles.read(chunk.name, chunk.size)
            if self._limit is None or self.resident_bytes + chunk.size <= ROOM * self._limit:
                self._resident[chunk.name] = value
        return value

    def add(self, table: PaneTable, already: int, in_pieces: bool = False) -> None:
        """Write the tuples of a table as chunks. Those before `already` are late: their chunk has been written.

        With `in_pieces` all tuples become pieces: they are written as they arrive.
        """
        tuples = table.tuples
        if tuples is None or not len(tuples):
            return
        order = tuples.order()
        length = self._stretches.length
        time = tuples.time[order]
        if length is None:
            self._add(table, order, tier=0)
            return
        if in_pieces:  # aligned with the grid, so that no window needs only a part of a piece
            stretch = (time - self._stretches.offset) // length
        else:
            stretch = np.where(time < already, -1, (time - already) // length)
        by_stretch = np.argsort(stretch, kind="stable")
        order, stretch = order[by_stretch], stretch[by_stretch]
        starts = run_starts(stretch)
        for begin, end in zip(starts, np.append(starts[1:], len(order)), strict=True):
            is_piece = in_pieces or stretch[begin] < 0
            self._add(table, order[begin:end], tier=0 if is_piece else None)

    def _add(self, table: PaneTable, order: Int64Array, tier: int | None) -> None:
        assert table.tuples is not None
        self._write(replace(table, tuples=table.tuples.take(order)), tier)
        if tier is not None:
            self._fold()

    def put(self, table: PaneTable, codec: pa.Codec) -> None:
        """Write tuples, which must be in order, as one compressed chunk."""
        self._write(table, tier=None, codec=codec)

    def _write(self, table: PaneTable, tier: int | None, codec: pa.Codec | None = None) -> None:
        """Write a chunk. Without a codec, the policy decides whether it is compressed."""
        layout = self._layout
        no_leaves = tuple(leaf_set.empty() for leaf_set in layout.leaf_sets)
        # Only the keys of its tuples, not those of leaves.
        table = compacted(layout, PaneTable(table.keys, no_leaves, {}, table.tuples), slack=0)
        table = _by_key(table)
        tuples = table.tuples
        assert tuples is not None
        value = packed.pack_chunk(table, None)
        if self._limit is not None and tier is not None and FANOUT * len(value) > self._limit:
            if len(value) > self._limit and len(tuples) > 1:
                for half in np.array_split(np.arange(len(tuples)), 2):
                    self._write(replace(table, tuples=tuples.take(half)), tier, codec)
                return
            tier = None  # folded, it would be too large
        if self._limit is not None and len(value) > self._limit:
            raise MuntinError(
                f"One chunk of {len(tuples):,} tuples takes {describe_size(len(value))}, more than the "
                f"{describe_size(self._limit)} that memory= leaves to each shard (shards: "
                f"{self.shards}); give more memory, or use windows with a shorter slide."
            )
        if tier is not None and len(tuples) >= LARGE:
            tier = None
        chunk = Chunk(
            name=f"chunk-{uuid.uuid4().hex}",
            first=int(tuples.time.min()),
            last=int(tuples.time.max()),
            tuples=len(tuples),
            raw=len(value),
            size=len(value),
            compressed=False,
            tier=tier,
        )
        codec = codec or self._policy.codec(self.age(chunk))
        if codec is not None:
            chunk, value = self._compressed(chunk, table, codec)
        self._put(chunk, value)

    def _put(self, chunk: Chunk, value: bytes) -> None:
        self._bundles.add(chunk.name, value, alone=chunk.tier is not None)
        if self.holds:
            self._resident[chunk.name] = value
        insort(self.chunks, chunk, key=lambda chunk: (chunk.last, chunk.first, chunk.name))

    def _compressed(self, chunk: Chunk, table: PaneTable, codec: pa.Codec) -> tuple[Chunk, bytes]:
        value = packed.pack_chunk(table, codec)
        self.compressions += 1
        # A new name for new bytes: copies of the old ones may still exist.
        return replace(chunk, name=f"chunk-{uuid.uuid4().hex}", size=len(value), compressed=True), value

    def _fold(self) -> None:
        """Fold pieces while there are `FANOUT` of the same tier."""
        while True:
            pieces_by_tier: dict[tuple[int, int], list[Chunk]] = {}
            for chunk in self.chunks:
                if chunk.tier is not None:
                    pieces_by_tier.setdefault((chunk.tier, self._stretch(chunk)), []).append(chunk)
            full = next(((tier, pieces) for (tier, _), pieces in pieces_by_tier.items() if len(pieces) >= FANOUT), None)
            if full is None:
                return
            tier, pieces = full
            self.rewrite(pieces, tier=tier + 1)

    def _stretch(self, chunk: Chunk) -> int:
        """The stretch of a piece, if pieces of different stretches stay apart; else 0 for all."""
        length = self._stretches.length
        if length is None or not self._stretches.apart:
            return 0
        return (chunk.first - self._stretches.offset) // length

    def rewrite(
        self,
        chunks: Sequence[Chunk],
        tier: int | None,
        keep: Callable[[PaneTable], BoolArray] | None = None,
        codec: pa.Codec | None = None,
    ) -> None:
        """Replace several chunks by one with all their tuples, or with those to `keep`."""
        tables = []
        for chunk in chunks:
            table = self.open(chunk)
            tables.append(table if keep is None else table.only(keep(table)))
        self.replace(chunks, merge(self._layout, tables), tier, codec)

    def replace(
        self, chunks: Sequence[Chunk], table: PaneTable, tier: int | None, codec: pa.Codec | None = None
    ) -> None:
        """Replace chunks by one with the tuples of a table, or by none if it has no tuples."""
        self.drop(chunks)
        if table.tuples is not None and len(table.tuples):
            self._write(replace(table, tuples=table.tuples.in_order()), tier, codec)

    def drop(self, chunks: Iterable[Chunk]) -> None:
        dropped = {chunk.name for chunk in chunks}
        for chunk in self.chunks:
            if chunk.name in dropped:
                self._bundles.drop(chunk.name)
                self._resident.pop(chunk.name, None)
        self.chunks = [chunk for chunk in self.chunks if chunk.name not in dropped]

    def age(self, chunk: Chunk) -> int:
        """How long ago a chunk was last updated, in event time."""
        return self._finalized - chunk.last

    def uncompressed(self) -> list[Chunk]:
        """Oldest first."""
        return [chunk for chunk in self.chunks if not chunk.compressed]

    def compress(self, chunk: Chunk, codec: pa.Codec) -> None:
        compressed, value = self._compressed(chunk, self.open(chunk), codec)
        self.drop([chunk])
        self._put(compressed, value)

    def evict(self, chunk: Chunk) -> None:
        """Drop the copy in memory: the chunk is in the state."""
        self._resident.pop(chunk.name, None)

    def commit(self) -> tuple[Chunk, ...]:
        """Write the waiting chunks; return all of them with their locations."""
        self._bundles.write()
        return tuple(chunk.with_location(self._bundles.location(chunk.name)) for chunk in self.chunks)

    def leave_to_state(self) -> None:
        """Evict all chunks."""
        self._resident.clear()


def _by_key(table: PaneTable) -> PaneTable:
    """The table with keys in their natural order, if they have one: then neighbouring keys compress better."""
    ranks = [key_codes.ranks(column) for column in table.keys.columns]
    present = [rank for rank in ranks if rank is not None]
    if len(present) < len(ranks) or table.tuples is None:
        return table
    order = stable_order(*reversed(present))
    codes = np.empty(len(order), dtype=np.int64)
    codes[order] = np.arange(len(order))
    tuples = table.tuples.recoded(codes)
    return replace(table, keys=table.keys.take(pa.array(order)), tuples=tuples.take(by_code(tuples.key)))
