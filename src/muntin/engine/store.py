"""The pane store of one shard: Spark's state is the truth, the worker's memory a verified copy.

The state is a log of segments, each a packed pane table, and one small header. A batch appends one segment; when
`FANOUT` segments of a tier have gathered they are folded into one of the next tier, so that every partial is
rewritten a logarithmic number of times and a cold worker reads tens of values, not thousands. A segment is dropped
as a whole once the last window over it has closed. Where windows go by tuples and not by time, that may be never: then
all is written anew as one segment as soon as more than half of the log is of no use.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, field, replace
from functools import partial

import numpy as np

from muntin.arrays import BoolArray, Int64Array
from muntin.engine.chunks.store import Chunk, ChunkStore
from muntin.engine.described import describe, other_query, other_shards
from muntin.engine.state import StateBackend, StateValues
from muntin.features.drift.meter import LastWindow
from muntin.features.sampling.packed import pack_samples, unpack_samples
from muntin.features.sampling.pause import Pause
from muntin.features.sampling.store import SampleStore, ShardSamples
from muntin.host.copies import LocalCopies
from muntin.host.folder import HostFolder
from muntin.panes import packed
from muntin.panes.table import PaneTable, compacted, merge
from muntin.panes.tuples import Tuples
from muntin.panes.watermarks import Marks
from muntin.plan import Plan

FANOUT = 8
USELESS_LEAVES = 1 << 12
"""Fewer than this are not worth writing the log anew."""


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
class Totals:
    """Counters since the query first started."""

    rows: int = 0
    late_rows: int = 0
    bad_rows: int = 0
    outside_rows: int = 0
    results: int = 0
    compressions: int = 0
    decompressions: int = 0
    exact_windows: int = 0
    """Windows of keys that were answered from all their tuples, in a query that allows samples."""
    approximate_windows: int = 0
    """Those that were answered from a sample."""
    shed_rows: int = 0
    """Rows that were shed: received, and dropped before they cost anything."""
    ahead_rows: int = 0
    """Rows that were too far ahead of the clock; they are among the bad rows."""

    def plus(self, other: Totals) -> Totals:
        return Totals(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True)
class Header:
    fingerprint: str
    shards: int
    version: str
    """A new random name for every commit: a copy with another version is a copy of something else."""
    watermark: int
    """Up to where windows have closed, in microseconds."""
    settled: int
    """Up to where tuples have been settled, where windows need their final order."""
    next_segment: int = 0
    segments: tuple[Segment, ...] = ()
    totals: Totals = field(default_factory=Totals)
    chunks: tuple[Chunk, ...] = ()
    samples: tuple[str, int] | None = None
    """The name and the size of the value that holds the samples."""
    falls_back: bool = True
    """Whether windows had to be answered exactly the last time that some closed: then chunks stay in memory."""
    pause: Pause = field(default_factory=Pause)
    waits: bool = False
    """Whether tuples wait for their chunk to be complete, though the query samples."""
    described: str = ""
    """The digest of the description of the query beside it; checkpoints of earlier versions have none."""

    @property
    def marks(self) -> Marks:
        return Marks(self.watermark, self.settled, self.waits)

    def encode(self) -> bytes:
        return packed.pack_header(asdict(self))

    @classmethod
    def decode(cls, value: bytes) -> Header:
        content = packed.unpack_header(value)
        segments = tuple(Segment(**each) for each in content.pop("segments"))
        chunks = tuple(Chunk(**each) for each in content.pop("chunks", ()))
        content["pause"] = Pause.decode(**content.pop("pause", {}))
        samples = content.pop("samples", None)
        content["samples"] = None if samples is None else (str(samples[0]), int(samples[1]))
        return cls(segments=segments, chunks=chunks, totals=Totals(**content.pop("totals")), **content)


class HotCache:
    """Decoded tables by (query, shard), the least recently used given up first. Every look-up is verified."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._entries: OrderedDict[tuple[str, int], tuple[str, PaneTable, ShardSamples | None]] = OrderedDict()
        self._chunks: OrderedDict[tuple[str, int], dict[str, bytes]] = OrderedDict()
        self._windows: OrderedDict[tuple[str, int], tuple[str, Mapping[int, LastWindow]]] = OrderedDict()

    def chunks(self, query: str, shard: int) -> dict[str, bytes]:
        """Chunks by name. A name is never used twice, so these need no version."""
        found = self._chunks.setdefault((query, shard), {})
        self._chunks.move_to_end((query, shard))
        while len(self._chunks) > self._capacity:
            self._chunks.popitem(last=False)
        return found

    def get(self, query: str, shard: int, version: str) -> tuple[PaneTable, ShardSamples | None] | None:
        """The table and the samples, if they are the very ones that the state holds now."""
        entry = self._entries.get((query, shard))
        if entry is None or entry[0] != version:
            self._entries.pop((query, shard), None)
            return None
        self._entries.move_to_end((query, shard))
        return entry[1:]

    def release_moved(self, host: HostFolder) -> None:
        """Give up what other workers of the host have now: of one shard, one copy is enough."""
        for query, shard in {*self._entries, *self._chunks, *self._windows}:
            if LocalCopies(query, shard, host).is_elsewhere():
                self._entries.pop((query, shard), None)
                self._chunks.pop((query, shard), None)
                self._windows.pop((query, shard), None)

    def last_windows(self, query: str, shard: int, version: str) -> Mapping[int, LastWindow] | None:
        """The groups of the windows that closed last, if they are those before the very state that is there now."""
        entry = self._windows.get((query, shard))
        return entry[1] if entry is not None and entry[0] == version else None

    def put_last_windows(self, query: str, shard: int, version: str, last: Mapping[int, LastWindow]) -> None:
        self._windows[query, shard] = (version, last)
        self._windows.move_to_end((query, shard))
        while len(self._windows) > self._capacity:
            self._windows.popitem(last=False)

    def put(self, query: str, shard: int, version: str, table: PaneTable, samples: ShardSamples | None = None) -> None:
        self._entries[query, shard] = (version, table, samples)
        self._entries.move_to_end((query, shard))
        while len(self._entries) > self._capacity:
            self._entries.popitem(last=False)


class PaneStore:
    """The store of one shard, for one batch: open, look, commit."""

    def __init__(self, plan: Plan, query: str, shard: int, backend: StateBackend, cache: HotCache) -> None:
        self._plan = plan
        self._query = query
        self._shard = shard
        self._backend = backend
        self._cache = cache
        self._values = StateValues(backend, query, shard, plan.host)
        self.header = self._read_header()
        self.cache_hit = False

    def chunks(self, settled: int) -> ChunkStore:
        """The chunks, for a batch with which tuples are settled up to this time."""
        resident = self._cache.chunks(self._query, self._shard)
        hold = not self._plan.samples or self.header.falls_back
        return ChunkStore(self._plan, self._values, resident, self.header.chunks, settled, hold)

    def table(self) -> PaneTable | None:
        """All panes that some open window may need, or None if there are none."""
        cached = self._cached()
        self.cache_hit = cached is not None
        if cached is not None:
            return cached[0]
        table = self._merged(self.header.segments)
        return None if table is None else without_closed(table, self._plan, self.header.marks)

    def _cached(self) -> tuple[PaneTable, ShardSamples | None] | None:
        return self._cache.get(self._query, self._shard, self.header.version)

    def last_windows(self) -> Mapping[int, LastWindow] | None:
        """The groups of the windows that closed last, by model, if this worker has seen them close.

        They are in no state: a worker that has not seen them cannot tell the drift between two batches.
        """
        return self._cache.last_windows(self._query, self._shard, self.header.version)

    def keep_last_windows(self, last: Mapping[int, LastWindow]) -> None:
        """For the next batch, after the commit of this one."""
        self._cache.put_last_windows(self._query, self._shard, self.header.version, last)

    def sampled(self, table: PaneTable, now: Marks, pause: Pause) -> SampleStore | None:
        """The samples beside a table, which has just been added to; None if the query has none."""
        if self._plan.sampling is None:
            return None
        cached = self._cached()
        samples = None if cached is None else cached[1]
        if samples is None and self.header.samples is not None:
            samples = self._values.read(*self.header.samples, partial(unpack_samples, self._plan))
        if samples is None:  # one without tuples may still say what was given up
            samples = ShardSamples.none(self._plan)
        return SampleStore(self._plan, self._plan.shards.index(self._shard), table, samples, now, pause)

    def commit(
        self,
        table: PaneTable | None,
        added: PaneTable | None,
        marks: Marks,
        counted: Totals,
        chunks: tuple[Chunk, ...] = (),
        samples: ShardSamples | None = None,
        falls_back: bool = True,
        pause: Pause | None = None,
    ) -> Header:
        """Make `table`, which is the old one with `added` and without what has closed, the new truth."""
        header = replace(
            self.header,
            version=uuid.uuid4().hex,
            watermark=marks.watermark,
            settled=marks.settled,
            waits=marks.waits,
            totals=self.header.totals.plus(counted),
            chunks=chunks,
            samples=self._write_samples(samples),
            falls_back=falls_back,
            pause=pause or Pause(),
            described=describe(self._plan, self._backend, self.header.described),
        )
        header = self._drop_closed(header)
        if self.header.waits and not marks.waits:
            # What waited is in chunks now: no segment may bring it back when tuples wait again.
            header = self._drop_all(header)
            header = self._append(header, table, tier=0) if table is not None and table.size else header
        elif added is not None and added.size:
            if table is not None and self._is_all_of(added, table):
                header = self._drop_all(header)
            header = self._fold(self._append(header, added, tier=0), table)
        if table is not None:
            header = self._rewrite_if_useless(header, table)
        self._backend.write_header(header.encode())
        if table is not None and self._fits_budget(table, marks):
            self._cache.put(self._query, self._shard, header.version, table, samples)
        LocalCopies(self._query, self._shard, self._plan.host).claim()
        self._cache.release_moved(self._plan.host)
        self.header = header
        return header

    def _write_samples(self, samples: ShardSamples | None) -> tuple[str, int] | None:
        """One value for all samples of the shard, written anew where they have changed: a budget bounds it."""
        cached = self._cached()
        if samples is not None and cached is not None and cached[1] is not None and samples.is_still(cached[1]):
            return self.header.samples
        if self.header.samples is not None:
            self._values.delete(*self.header.samples)
        if samples is None or samples.is_empty:
            return None
        name, value = f"samples-{uuid.uuid4().hex}", pack_samples(samples)
        self._values.write(name, value)
        return name, len(value)

    def _fits_budget(self, table: PaneTable, marks: Marks) -> bool:
        """More groups than a budget allows stay in the state, and are read from there when they are needed.

        Where all windows are answered exactly, all their tuples are in memory, too.
        """
        sampling = self._plan.sampling
        if sampling is None or sampling.hopeless or marks.waits:
            return True
        return sampling.holds_groups(table.keys.num_rows, int(table.keys.nbytes))

    def _read_header(self) -> Header:
        stored = self._backend.read_header()
        shards = len(self._plan.shards)
        if stored is None:
            return Header(self._plan.fingerprint, shards, version="", watermark=0, settled=0)
        header = Header.decode(stored)
        if header.shards != shards:
            raise other_shards(header.shards, shards)
        if header.fingerprint != self._plan.fingerprint:
            raise other_query(self._plan, self._backend)
        return header

    def _drop_closed(self, header: Header) -> Header:
        kept = []
        for segment in header.segments:
            if segment.ends <= header.watermark:
                self._delete(segment)
            else:
                kept.append(segment)
        return replace(header, segments=tuple(kept))

    def _append(self, header: Header, table: PaneTable, tier: int) -> Header:
        # A replay of the batch must not give the same name to other bytes: copies may outlive a failed one.
        name = f"{header.next_segment}-{uuid.uuid4().hex}"
        value = packed.pack(table)
        self._values.write(name, value)
        # Tuples wait until they are settled and their chunk, if they go to one, is complete.
        lasting = []
        if table.tuples is not None and len(table.tuples):
            lasting = [int(table.tuples.time.max()) + 1 + (self._plan.chunk_length or 0)]
        held = [(family, family.own(table)) for family in self._plan.families]
        ends = max([family.ends(leaves) for family, leaves in held if any(map(len, leaves))] + lasting)
        segment = Segment(name, tier, len(value), table.size, ends)
        return replace(header, next_segment=header.next_segment + 1, segments=(*header.segments, segment))

    def _fold(self, header: Header, table: PaneTable | None) -> Header:
        """Fold the newest segments while `FANOUT` of them are of one tier."""
        while True:
            segments = header.segments
            tier = segments[-1].tier
            tail = [segment for segment in segments if segment.tier == tier]
            if len(tail) < FANOUT:
                return header
            # All there is: the table in memory is their fold already.
            folded = table if len(tail) == len(segments) else self._open_part(tuple(tail), header.marks)
            for segment in tail:
                self._delete(segment)
            header = replace(header, segments=segments[: -len(tail)])
            if folded is None or not folded.size:
                return header
            header = self._append(header, folded, tier + 1)

    def _rewrite_if_useless(self, header: Header, table: PaneTable) -> Header:
        """One segment of what is still of use, once that is less than half of the log."""
        if sum(segment.leaves for segment in header.segments) <= 2 * table.size + USELESS_LEAVES:
            return header
        tier = max(segment.tier for segment in header.segments)
        header = self._drop_all(header)
        return self._append(header, compacted(self._plan.layout, table, slack=0), tier) if table.size else header

    def _is_all_of(self, added: PaneTable, table: PaneTable) -> bool:
        """Whether all that is of use is new, as where windows over many tuples are shorter than a batch.

        The leaves are then as many, and behind them are as many tuples: none has a part in an older segment.
        """
        if added.size != table.size:
            return False
        counts = [sum(int(f.own(each)[0].state[0].sum()) for f in self._plan.families) for each in (added, table)]
        return counts[0] == counts[1]

    def _drop_all(self, header: Header) -> Header:
        for segment in header.segments:
            self._delete(segment)
        return replace(header, segments=())

    def _open_part(self, segments: tuple[Segment, ...], marks: Marks) -> PaneTable | None:
        part = self._merged(segments)
        return None if part is None else without_closed_of_part(part, self._plan, marks)

    def _merged(self, segments: tuple[Segment, ...]) -> PaneTable | None:
        tables = [self._read(segment) for segment in segments]
        return merge(self._plan.layout, tables, overlay=True) if tables else None

    def _read(self, segment: Segment) -> PaneTable:
        return self._values.read(segment.name, segment.size, partial(packed.unpack, self._plan.layout))

    def _delete(self, segment: Segment) -> None:
        self._values.delete(segment.name, segment.size)


def without_closed(table: PaneTable, plan: Plan, marks: Marks) -> PaneTable:
    """The table without what no window needs that has not closed."""
    kept = [mask for family in plan.families for mask in family.open(family.own(table), family.mark(marks))]
    return table.filter(kept, _waiting(table, plan, marks))


def without_closed_of_part(part: PaneTable, plan: Plan, marks: Marks) -> PaneTable:
    """A part of a table without what no window needs, as far as the part can tell.

    Which settled tuples are needed goes by their number from the end, and that the whole table knows.
    """
    kept: list[BoolArray] = []
    for family in plan.families:
        own = family.own(part)
        kept += [np.ones(len(each), bool) for each in own] if family.settles else family.open(own, marks.watermark)
    return part.filter(kept, _waiting(part, plan, marks))


def _waiting(table: PaneTable, plan: Plan, marks: Marks) -> BoolArray | None:
    return None if table.tuples is None else waiting(table.tuples.time, plan, marks)


def waiting(times: Int64Array, plan: Plan, marks: Marks) -> BoolArray:
    """Which tuples are not settled, or settled and not in a complete chunk."""
    if plan.whole:
        return times >= plan.complete_until(marks)
    return (times >= marks.settled) & plan.settles


def _with_families(tuples: Tuples, plan: Plan, marks: Marks) -> Tuples:
    """Tuples that have just arrived, marked for the families that they are not too late for."""
    for index, family in enumerate(plan.families):
        late = np.flatnonzero(marks.too_late(tuples.time, [window for _, window in family.windows]))
        if len(late):
            tuples = tuples.without(index, late)
    return tuples


def _counted(late: BoolArray, times: Int64Array, plan: Plan, marks: Marks, tuples: bool = True) -> BoolArray:
    """Which panes or tuples count as late: of an active worker's, those that came too late for all the others, too.

    Several workers have them, and one of those counts them.
    """
    if plan.worker is None:
        return late
    return plan.worker.counts(times, tuples) & marks.too_late(times, plan.all_windows)


def open_rows(table: PaneTable, plan: Plan, marks: Marks) -> tuple[PaneTable, int]:
    """What has arrived without what came too late for all of its windows, and how many tuples that was."""
    late_rows = 0
    if table.tuples is not None:
        late = marks.too_late(table.tuples.time, plan.windows)
        late_rows = int(_counted(late, table.tuples.time, plan, marks).sum())
        if plan.whole:
            table = replace(table, tuples=_with_families(table.tuples, plan, marks))
        table = table.only(tuples=~late)
    family = plan.over_time
    if family is None:
        return table, late_rows
    kept = family.open(family.own(table), marks.watermark)
    if table.tuples is None or plan.shedding is not None:
        late_rows = int(np.sum(table.panes.state[0][_counted(~kept[0], table.panes.time, plan, marks, tuples=False)]))
    rest = [np.ones(len(leaves), dtype=bool) for leaves in table.leaves[len(kept) :]]
    return table.filter([*kept, *rest]), late_rows
