"""The pane store of one shard: Spark's state is the truth, the worker's memory is a verified copy.

The state is a log of segments, each a packed pane table, and one small header. A batch appends one segment. `FANOUT`
segments of a tier are folded into one of the next tier: so every partial is rewritten a logarithmic number of times,
and a cold worker reads tens of values, not thousands. A segment is dropped when the last window over it has closed.
With windows over tuples that may never happen, so the log is rewritten as one segment when more than half of it is
useless, and dropped when all of it is.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from typing import Any, Protocol, TypeVar

from muntin.engine.chunks.store import Chunk, ChunkPolicy, ChunkStore, Stretches
from muntin.engine.described import describe, other_query, other_shards
from muntin.engine.host import Host
from muntin.engine.live import LivePanes
from muntin.engine.operators.operator import ALWAYS
from muntin.engine.plan import Plan
from muntin.engine.pruning import without_closed, without_closed_of_part
from muntin.engine.state import MemoryState, StateBackend, StateValues
from muntin.errors import StateError
from muntin.panes import packed
from muntin.panes.table import PaneTable, compacted, merge
from muntin.panes.watermarks import Watermarks

Entry = TypeVar("Entry")

FANOUT = 8
USELESS_LEAVES = 1 << 12
"""The log is not rewritten to drop fewer leaves than this."""


STREAM_WATERMARK = "stream_watermark"
"""The name of the part of the header with the stream's own watermark, where a feature moves that of the shard on."""


@dataclass(frozen=True)
class Segment:
    name: str
    tier: int
    size: int
    """Bytes in the state."""
    leaves: int
    ends: int
    """When the last window over any of its panes ends."""


@dataclass(frozen=True)
class Header:
    fingerprint: str
    shards: int
    version: str
    """A new random name for every commit: a copy with another version is outdated."""
    watermark: int
    """The time up to which windows have closed, in microseconds."""
    finalized: int
    """The time up to which tuples are finalized, where windows need their final order."""
    next_segment: int = 0
    segments: tuple[Segment, ...] = ()
    totals: Mapping[str, int] = field(default_factory=dict)
    """Counters since the query first started."""
    chunks: tuple[Chunk, ...] = ()
    waits: bool = False
    """Whether tuples wait until their chunk is complete, in a query that writes through."""
    described: str = ""
    """The digest of the stored description of the query; checkpoints of earlier versions have none."""
    parts: Mapping[str, Any] = field(default_factory=dict)
    """The parts of features, by their own names."""

    @property
    def watermarks(self) -> Watermarks:
        return Watermarks(self.watermark, self.finalized, self.waits)

    def stream_watermark(self, correctable: int) -> int:
        """The watermark that the stream had in the last batch, in microseconds."""
        return int(self.parts.get(STREAM_WATERMARK, self.watermark + correctable))

    def encode(self) -> bytes:
        content = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "parts"}
        segments = [asdict(segment) for segment in self.segments]
        chunks = [asdict(chunk) for chunk in self.chunks]
        content["settled"] = content.pop("finalized")  # its name in the format
        return packed.pack_header({**content, "segments": segments, "chunks": chunks, **self.parts})

    @classmethod
    def decode(cls, value: bytes) -> Header:
        content = packed.unpack_header(value)
        segments = tuple(Segment(**segment) for segment in content.pop("segments"))
        chunks = tuple(Chunk(**chunk) for chunk in content.pop("chunks", ()))
        totals = content.pop("totals")
        if "bad_rows" in totals:  # the name in earlier versions
            totals["invalid_rows"] = totals.pop("bad_rows")
        content["finalized"] = content.pop("settled")
        header_fields = {name: content.pop(name) for name in _HEADER_FIELDS if name in content}
        return cls(segments=segments, chunks=chunks, totals=totals, **header_fields, parts=content)


_HEADER_FIELDS = ("fingerprint", "shards", "version", "watermark", "finalized", "next_segment", "waits", "described")
_TAKEN = {*_HEADER_FIELDS, "segments", "chunks", "totals", "settled"}
"""Names that features cannot use in the header."""


class HotCache:
    """A worker's cache of shards: decoded tables, chunks, and notes of features.

    The least recently used entries are evicted first. Every lookup is verified.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._tables: OrderedDict[tuple[str, int], tuple[str, PaneTable]] = OrderedDict()
        self._chunks: OrderedDict[tuple[str, int], dict[str, bytes]] = OrderedDict()
        self._notes: OrderedDict[tuple[str, int], tuple[str, Mapping[str, Any]]] = OrderedDict()
        self._live: OrderedDict[tuple[str, int], tuple[str, LivePanes]] = OrderedDict()
        self._zones: OrderedDict[tuple[str, int], dict[str, HotCache]] = OrderedDict()

    def of_zone(self, query: str, shard: int, zone: str) -> HotCache:
        """The cache of a zone, where windows are in the zone of each key."""
        zones = self._zones.setdefault((query, shard), {})
        self._trim(self._zones, (query, shard))
        return zones.setdefault(zone, HotCache(capacity=1))

    def chunks(self, query: str, shard: int) -> dict[str, bytes]:
        """Chunks by name. Names are never reused, so these need no version."""
        chunks = self._chunks.setdefault((query, shard), {})
        self._trim(self._chunks, (query, shard))
        return chunks

    def table(self, query: str, shard: int, version: str) -> PaneTable | None:
        return self._verified(self._tables, (query, shard), version)

    def notes(self, query: str, shard: int, version: str) -> Mapping[str, Any]:
        """Notes of features, by their names."""
        return self._verified(self._notes, (query, shard), version) or {}

    def take_live(self, query: str, shard: int, version: str) -> LivePanes | None:
        """The trees over the table, if they are of this version.

        A batch changes them. So they are taken out, and with them the table, whose leaves they hold: should it fail,
        the next one does not find trees of a batch that never was.
        """
        live = self._verified(self._live, (query, shard), version)
        self._live.pop((query, shard), None)
        if live is not None:
            self._tables.pop((query, shard), None)
        return live

    def put_live(self, query: str, shard: int, version: str, live: LivePanes) -> None:
        self._live[query, shard] = (version, live)
        self._trim(self._live, (query, shard))

    def put_table(self, query: str, shard: int, version: str, table: PaneTable) -> None:
        self._tables[query, shard] = (version, table)
        self._trim(self._tables, (query, shard))

    def put_notes(self, query: str, shard: int, version: str, notes: Mapping[str, Any]) -> None:
        self._notes[query, shard] = (version, notes)
        self._trim(self._notes, (query, shard))

    def release_moved(self, host: Host) -> None:
        """Evict shards that other workers of the host run now: one copy per shard is enough."""
        for query, shard in {*self._tables, *self._chunks, *self._notes, *self._live, *self._zones}:
            if host.copies(query, shard).is_elsewhere():
                for entries in (self._tables, self._chunks, self._notes, self._live, self._zones):
                    entries.pop((query, shard), None)

    @staticmethod
    def _verified(
        entries: OrderedDict[tuple[str, int], tuple[str, Entry]], shard: tuple[str, int], version: str
    ) -> Entry | None:
        """The entry, if it is a copy of the current state."""
        entry = entries.get(shard)
        if entry is None or entry[0] != version:
            entries.pop(shard, None)
            return None
        entries.move_to_end(shard)
        return entry[1]

    def _trim(self, entries: OrderedDict[tuple[str, int], Any], shard: tuple[str, int]) -> None:
        entries.move_to_end(shard)
        while len(entries) > self._capacity:
            entries.popitem(last=False)


class ShardStore(Protocol):
    """The state of a shard between batches."""

    header: Header
    cache_hit: bool | None
    """Whether the table was still in the worker's memory; None if nothing is kept."""

    @property
    def values(self) -> StateValues: ...

    def table(self) -> PaneTable | None: ...

    def chunks(self, finalized: int, policy: ChunkPolicy | None) -> ChunkStore: ...

    def notes(self) -> Mapping[str, Any]: ...

    def take_live(self) -> LivePanes | None: ...

    def commit(self, change: Change) -> Header: ...


@dataclass(frozen=True)
class Change:
    """The changes of a batch."""

    table: PaneTable | None
    """The new table: that of the batch before, with what was added and without what was pruned."""
    added: PaneTable | None
    watermarks: Watermarks
    counters: Mapping[str, int] = field(default_factory=dict)
    chunks: tuple[Chunk, ...] = ()
    parts: Mapping[str, Any] = field(default_factory=dict)
    """The features' parts of the header."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """Notes of features, for the worker's memory."""
    remembers_table: bool = True
    """Whether the table stays in the worker's memory."""
    live: LivePanes | None = None
    """The trees over the table, for the worker's memory."""


class TableStore:
    """A table is a stream with a single batch, which moves the watermarks past all times: nothing is stored."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.values = StateValues(MemoryState(), "", 0)
        self.header = Header("", len(plan.shards), version="", watermark=ALWAYS, finalized=ALWAYS)
        self.cache_hit: bool | None = None

    def table(self) -> PaneTable | None:
        return None

    def chunks(self, finalized: int, policy: ChunkPolicy | None) -> ChunkStore:
        """An empty store: all tuples are in memory."""
        return ChunkStore(self._plan.layout, _stretches(self._plan), self.values, {}, (), finalized)

    def notes(self) -> Mapping[str, Any]:
        return {}

    def take_live(self) -> LivePanes | None:
        return None

    def commit(self, change: Change) -> Header:
        return replace(self.header, totals=change.counters)


def _stretches(plan: Plan) -> Stretches:
    length = plan.chunk_length
    return Stretches(length, 0 if length is None else plan.grid.offset, plan.writes_through)


class PaneStore:
    """The store of one shard, for one batch: open, read, commit."""

    def __init__(self, plan: Plan, query: str, shard: int, backend: StateBackend, cache: HotCache) -> None:
        self._plan = plan
        self._query = query
        self._shard = shard
        self._backend = backend
        self._cache = cache
        self.values = StateValues(backend, query, shard, plan.host)
        self.header = self._read_header()
        self.cache_hit: bool | None = False

    def chunks(self, finalized: int, policy: ChunkPolicy | None = None) -> ChunkStore:
        """The chunks, for a batch that finalizes tuples up to this time."""
        resident = self._cache.chunks(self._query, self._shard)
        return ChunkStore(
            self._plan.layout,
            _stretches(self._plan),
            self.values,
            resident,
            self.header.chunks,
            finalized,
            len(self._plan.shards),
            policy,
        )

    def table(self) -> PaneTable | None:
        """The panes and tuples that open windows may need; None if there are none."""
        cached = self._cache.table(self._query, self._shard, self.header.version)
        self.cache_hit = cached is not None
        if cached is not None:
            return cached
        table = self._merged(self.header.segments)
        return None if table is None else without_closed(table, self._plan, self.header.watermarks)

    def notes(self) -> Mapping[str, Any]:
        """Notes of features, if this worker made the current state."""
        return self._cache.notes(self._query, self._shard, self.header.version)

    def take_live(self) -> LivePanes | None:
        """The trees over the table that `table` returned, if it was in memory. The batch may change them."""
        return self._cache.take_live(self._query, self._shard, self.header.version) if self.cache_hit else None

    def commit(self, change: Change) -> Header:
        """Write the change to the state."""
        table, added, watermarks = change.table, change.added, change.watermarks
        header = replace(
            self.header,
            version=uuid.uuid4().hex,
            watermark=watermarks.watermark,
            finalized=watermarks.finalized,
            waits=watermarks.waits,
            totals={**self.header.totals, **_sums(self.header.totals, change.counters)},
            chunks=change.chunks,
            parts=change.parts,
            described=describe(self._plan, self._backend, self.header.described),
        )
        header = self._drop_closed(header)
        if self.header.waits and not watermarks.waits:
            # Tuples that waited are in chunks now: no segment may restore them when tuples wait again.
            header = self._drop_all(header)
            header = self._append(header, table, tier=0) if table is not None and table.size else header
        elif added is not None and added.size:
            if table is not None and self._is_all_of(added, table):
                header = self._drop_all(header)
            header = self._fold(self._append(header, added, tier=0), table)
        if table is not None:
            header = self._rewrite_if_useless(header, table)
        self._backend.write_header(header.encode())
        if table is not None and change.remembers_table:
            self._cache.put_table(self._query, self._shard, header.version, table)
            if change.live is not None:
                self._cache.put_live(self._query, self._shard, header.version, change.live)
        self._cache.put_notes(self._query, self._shard, header.version, change.notes)
        self._plan.host.copies(self._query, self._shard).claim()
        self._cache.release_moved(self._plan.host)
        self.header = header
        return header

    def _read_header(self) -> Header:
        stored = self._backend.read_header()
        shards = len(self._plan.shards)
        if stored is None:
            start = -self._plan.correctable
            finalized = start if self._plan.needs_order else 0
            return Header(self._plan.fingerprint, shards, version="", watermark=start, finalized=finalized)
        header = Header.decode(stored)
        if header.shards != shards:
            raise other_shards(header.shards, shards)
        if header.fingerprint != self._plan.fingerprint:
            raise other_query(self._plan, self._backend)
        return header

    def _drop_closed(self, header: Header) -> Header:
        open_segments = []
        for segment in header.segments:
            if segment.ends <= header.watermark:
                self._delete(segment)
            else:
                open_segments.append(segment)
        return replace(header, segments=tuple(open_segments))

    def _append(self, header: Header, table: PaneTable, tier: int) -> Header:
        # A replay of the batch must not reuse the name for other bytes: copies may outlive a failed batch.
        name = f"{header.next_segment}-{uuid.uuid4().hex}"
        value = packed.pack(table)
        self.values.write(name, value)
        leaves_of_operators = [(operator, operator.own(table)) for operator in self._plan.operators]
        ends = [operator.ends(leaves) for operator, leaves in leaves_of_operators if any(map(len, leaves))]
        if table.tuples is not None and len(table.tuples):
            # Tuples wait until they are finalized and their chunk, if they go to one, is complete.
            ends.append(int(table.tuples.time.max()) + 1 + (self._plan.chunk_length or 0))
        segment = Segment(name, tier, len(value), table.size, max(ends))
        return replace(header, next_segment=header.next_segment + 1, segments=(*header.segments, segment))

    def _fold(self, header: Header, table: PaneTable | None) -> Header:
        """Fold the newest segments while `FANOUT` of them are of the same tier."""
        while True:
            segments = header.segments
            tier = segments[-1].tier
            tail = [segment for segment in segments if segment.tier == tier]
            if len(tail) < FANOUT:
                return header
            # These are all segments: the table in memory is their fold.
            folded = table if len(tail) == len(segments) else self._open_part(tuple(tail), header.watermarks)
            for segment in tail:
                self._delete(segment)
            header = replace(header, segments=segments[: -len(tail)])
            if folded is None or not folded.size:
                return header
            header = self._append(header, folded, tier + 1)

    def _rewrite_if_useless(self, header: Header, table: PaneTable) -> Header:
        """Rewrite the log as one segment when less than half of it is still useful; drop it when nothing is."""
        if not table.size:
            return self._drop_all(header)
        if sum(segment.leaves for segment in header.segments) <= 2 * table.size + USELESS_LEAVES:
            return header
        tier = max(segment.tier for segment in header.segments)
        header = self._drop_all(header)
        return self._append(header, compacted(self._plan.layout, table, slack=0), tier) if table.size else header

    def _is_all_of(self, added: PaneTable, table: PaneTable) -> bool:
        """Whether everything useful is new, as with count windows that are shorter than a batch.

        Then the numbers of leaves and of their tuples are equal: no leaf has a part in an older segment.
        """
        if added.size != table.size:
            return False
        added_tuples, all_tuples = (
            sum(int(operator.own(part)[0].state[0].sum()) for operator in self._plan.operators)
            for part in (added, table)
        )
        return added_tuples == all_tuples

    def _drop_all(self, header: Header) -> Header:
        for segment in header.segments:
            self._delete(segment)
        return replace(header, segments=())

    def _open_part(self, segments: tuple[Segment, ...], watermarks: Watermarks) -> PaneTable | None:
        part = self._merged(segments)
        return None if part is None else without_closed_of_part(part, self._plan, watermarks)

    def _merged(self, segments: tuple[Segment, ...]) -> PaneTable | None:
        tables = [self._read(segment) for segment in segments]
        return merge(self._plan.layout, tables, overlay=True) if tables else None

    def _read(self, segment: Segment) -> PaneTable:
        return self.values.read(segment.name, segment.size, partial(packed.unpack, self._plan.layout))

    def _delete(self, segment: Segment) -> None:
        self.values.delete(segment.name, segment.size)


def _sums(totals: Mapping[str, int], counters: Mapping[str, int]) -> dict[str, int]:
    return {name: totals.get(name, 0) + count for name, count in counters.items()}


def header_parts(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The features' parts of the header as one; an error if a name is taken."""
    merged: dict[str, Any] = {}
    for part in parts:
        taken = part.keys() & (merged.keys() | _TAKEN)
        if taken:
            raise StateError(f"{sorted(taken)[0]!r} is in the header of the state already; commit it by another name.")
        merged |= part
    return merged
