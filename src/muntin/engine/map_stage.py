"""The map stage (SPRINGALD's PLS): tuples in, one packed pane table per shard out.

It is stateless and makes one pass over Arrow columns: assign each tuple to its pane, lift, and reduce by (key, pane).
Queries that need the tuples themselves also get the tuples, with only the columns that they read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrays import Float64Array, Int64Array, all_true, run_numbers, run_starts
from muntin.engine.device_panes import DevicePanes
from muntin.engine.features import KeptRows, RowFeature, Task
from muntin.engine.gathering import gathered
from muntin.engine.plan import Plan
from muntin.errors import MuntinError
from muntin.panes import keys, packed
from muntin.panes.grid import last_ends
from muntin.panes.pairs import Panes
from muntin.panes.table import (
    LeafSet,
    Leaves,
    PaneTable,
    arranged,
    key_columns,
    merge,
)
from muntin.panes.tuples import MEMBERSHIP, WEIGHT, Tuples, by_code
from muntin.partials.rows import Rows
from muntin.windows import PaneWindow
from muntin.windows.model import NEVER

AHEAD = "__muntin_ahead"
"""A boolean column for rows that are too far ahead of the clock. Spark computes it, if it is needed."""
MARKS = "__muntin_marks"
"""The watermarks that rows carry, where Spark computes which of them count."""
FLUSH_LEAVES = 1 << 18
"""A task sends its leaves when it has more than this many: this bounds its memory."""
NO_TIME = -62_135_596_800_000_000
"""The earliest time of Spark, for a task without tuples: it does not move the watermark."""
TICK, DRAIN = -1, -2
"""In place of the number of an input: the clock has gone on; and this is a bounded run, which may be at its end."""
ROWS_TOGETHER, BYTES_TOGETHER = 1 << 18, 1 << 26
"""Small batches are gathered up to this many tuples or bytes: each pass over them then costs less than it starts."""


@dataclass(frozen=True)
class PackedPanes:
    """What one task sends to one shard."""

    shard: int
    rows: int
    invalid_rows: int
    outside_rows: int
    panes: bytes | None
    late_candidates: bytes | None
    """Full rows, of which the window stage emits those that are late."""
    latest: int = NO_TIME
    """The latest event time that the task has seen, or the latest watermark that a row carried, in microseconds."""
    notes: bytes | None = None
    """Notes of features for the shard: JSON, by their names."""
    ahead_rows: int = 0
    """How many of the invalid rows are too far ahead of the clock."""
    ahead: bytes | None = None
    """The full rows that are too far ahead, if they are emitted."""
    skipped_files: int = 0
    """How many files of a scan could not be read."""
    zone: str | None = None
    """The time zone of the keys, where windows are in the zone of each key; None for what belongs to no zone."""
    input: int = 0
    """The number of the input that the task reads; or `TICK` or `DRAIN`, of no task that reads rows."""

    @property
    def latest_time(self) -> int:
        """The time that Spark's watermark follows."""
        return self.latest

    def read_notes(self) -> Mapping[str, Any]:
        notes: dict[str, Any] = {} if self.notes is None else json.loads(self.notes)
        return notes


@dataclass
class _Unsent:
    """What a task has gathered and not yet sent."""

    tables: list[PaneTable] = field(default_factory=list)
    begun: Callable[[], PaneTable] | None = None
    """Waits for the table of the latest batch, which a device may still be working on."""
    leaves: int = 0
    """How many there are in the tables."""
    late_candidates: dict[int, list[pa.RecordBatch]] = field(default_factory=dict)
    ahead: dict[int, list[pa.RecordBatch]] = field(default_factory=dict)
    invalid_rows: int = 0
    ahead_rows: int = 0
    outside_rows: int = 0
    latest: int = NO_TIME
    """What Spark's watermark follows."""

    def add(self, table: PaneTable) -> None:
        self.tables.append(table)
        self.leaves += table.size

    def finish(self) -> None:
        if self.begun is not None:
            self.add(self.begun())
            self.begun = None


@dataclass(frozen=True)
class Lifted:
    """Tuples that are lifted, with the code of each one's key."""

    rows: Rows
    codes: Int64Array


class PaneStage:
    def __init__(self, plan: Plan, task: Task | None = None) -> None:
        assert plan.zone_column is None, "the windows of every zone have a stage of their own"
        self._plan = plan
        self._unsent = _Unsent()
        parts = ((feature.name, feature.on_map(plan, task or Task())) for feature in plan.features)
        self._features: dict[str, RowFeature] = {name: part for name, part in parts if part is not None}
        self._encoder = keys.Encoder()
        # Where nothing needs the codes of single tuples, they are made dense leaf by leaf.
        layout, leaf_sets = plan.layout, () if plan.over_time is None else plan.over_time.leaf_sets
        self._only_partials = (
            not self._features and layout.tuples is None and len(leaf_sets) == len(layout.leaf_sets) == 1
        ) and leaf_sets[0].custom is None
        self._device = None if self._features else DevicePanes.of(plan)
        # A tuple can fall between all windows only if every window slides by more than its size.
        self._latest = NO_TIME
        """The latest event time."""
        self._has_gaps = all(isinstance(window, PaneWindow) and window.has_gaps for window in plan.windows)

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[PackedPanes]:
        rows = 0
        together = max((ROWS_TOGETHER, *(feature.rows_together for feature in self._features.values())))
        for share in self._sent(gathered(batches, together, BYTES_TOGETHER)):
            rows += share.rows
            yield share
        self.done(rows)

    def done(self, rows: int) -> None:
        """The task is done, with this number of rows."""
        for feature in self._features.values():
            feature.done(None if self._latest == NO_TIME else self._latest, rows)

    def _sent(self, batches: Iterable[pa.RecordBatch]) -> Iterator[PackedPanes]:
        for batch in batches:
            yield from self.take(batch)
        yield from self.rest()

    def take(self, batch: pa.RecordBatch) -> Iterator[PackedPanes]:
        """Ingest some tuples, and send what was gathered if it is much."""
        unsent = self._unsent
        self._gather(batch, unsent)
        if unsent.leaves > FLUSH_LEAVES:
            unsent.tables = [merge(self._plan.layout, unsent.tables)]
            unsent.leaves = unsent.tables[0].size
            if unsent.leaves > FLUSH_LEAVES // 2:
                yield from self.rest()

    def rest(self) -> Iterator[PackedPanes]:
        """Send what was gathered."""
        unsent, self._unsent = self._unsent, _Unsent()
        yield from self._send(unsent)

    @property
    def unsent_leaves(self) -> int:
        return self._unsent.leaves

    def _gather(self, batch: pa.RecordBatch, unsent: _Unsent) -> None:
        plan = self._plan
        batch = self._not_ahead(self.typed(batch), unsent)
        if plan.marks is not None:
            unsent.latest = max(unsent.latest, latest_mark(batch, plan.marks))
        time = batch.column(plan.time)
        if time.null_count:
            unsent.invalid_rows += time.null_count
            batch = batch.filter(time.is_valid())
        times = np.asarray(batch.column(plan.time).cast(pa.int64()))
        self._latest = int(times.max(initial=self._latest))
        if plan.marks is None:
            unsent.latest = max(unsent.latest, int(times.max(initial=NO_TIME)))
        if self._has_gaps:
            inside = last_ends(times, plan.windows) > NEVER
            unsent.outside_rows += int((~inside).sum())
            batch, times = batch.filter(pa.array(inside)), times[inside]
        if batch.num_rows:
            begun = self._begun(batch, times)
            unsent.finish()  # the batch before: the device has worked on it while this one was read
            unsent.begun = begun
            if begun is None:
                unsent.add(self._on_processor(batch, times))
            if plan.late_row is not None and plan.streaming:
                for shard, rows in self._by_shard(batch):
                    unsent.late_candidates.setdefault(shard, []).append(rows)

    def _not_ahead(self, batch: pa.RecordBatch, unsent: _Unsent) -> pa.RecordBatch:
        """The rows that are not too far ahead of the clock. The others are ignored."""
        if AHEAD not in batch.schema.names:
            return batch
        ahead = batch.column(AHEAD).fill_null(False)
        batch = batch.drop_columns([AHEAD])
        count = ahead.true_count
        if not count:
            return batch
        unsent.invalid_rows += count
        unsent.ahead_rows += count
        if self._plan.late_row is not None:
            for shard, rows in self._by_shard(batch.filter(ahead)):
                unsent.ahead.setdefault(shard, []).append(rows)
        return batch.filter(pc.invert(ahead))

    def typed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns in the plan's types: times are in UTC, independent of the session's time zone."""
        kinds = [self._plan.types.get(field.name, field.type) for field in batch.schema]
        if kinds == batch.schema.types:
            return batch
        columns = [column.cast(kind) for column, kind in zip(batch.columns, kinds, strict=True)]
        return pa.record_batch(columns, names=batch.schema.names)

    def lift(self, batch: pa.RecordBatch, times: Int64Array) -> PaneTable:
        """The pane table of a batch of tuples. The batch is not empty, and no time is null."""
        begun = self._begun(batch, times)
        return self._on_processor(batch, times) if begun is None else begun()

    def _begun(self, batch: pa.RecordBatch, times: Int64Array) -> Callable[[], PaneTable] | None:
        """Start with a batch on the device, and wait for its pane table later; None if it is for the processor."""
        if self._device is None:
            return None
        layout, operator = self._plan.layout, self._plan.over_time
        coded = self._encoder.encode(key_columns(batch, layout.keys), batch.num_rows)
        coded = coded if self._only_partials else coded.dense()
        begun = self._device.begin(batch, times, coded)
        if begun is None or operator is None:
            return None
        tuples, custom = None, list[Leaves]()
        if not self._only_partials:  # dense codes, and the leaves that are made with NumPy
            lifted = Lifted(Rows(batch, times, coded.codes, coded.count), coded.codes)
            custom = [self._custom_leaves(leaf_set, lifted) for leaf_set in operator.leaf_sets[1:]]
            custom += [leaf_set.empty() for leaf_set in layout.leaf_sets[len(operator.leaf_sets) :]]
        if layout.tuples is not None:
            tuples = Tuples(coded.codes, times, self._kept_columns(batch, layout.tuples, None))

        def finished() -> PaneTable:
            leaves, dictionaries = begun()
            if self._only_partials:
                return self._dense(coded, leaves, dictionaries)
            return PaneTable(self._keys(coded, np.arange(coded.count)), (leaves, *custom), dictionaries, tuples)

        return finished

    def _on_processor(self, batch: pa.RecordBatch, times: Int64Array) -> PaneTable:
        layout = self._plan.layout
        coded = self._encoder.encode(key_columns(batch, layout.keys), batch.num_rows)
        if self._only_partials:
            return self._lifted(batch, times, coded)
        coded = coded.dense()
        codes = coded.codes
        leaves: list[Leaves] = []
        dictionaries: dict[str, pa.Array] = {}
        weights = None
        if self._plan.over_time is not None:
            panes = Panes(self._plan.grid, times, codes, coded.count)
            choice = self._kept(batch, times, panes)  # counts the groups first, and may renumber them
            received = Rows(batch, times, panes.pairs.members, panes.pairs.count)
            kept = of_panes = Lifted(received, codes)
            if choice is not None:
                positions = choice.positions
                batch = self._read_of_kept(batch, choice.for_panes).take(pa.array(positions))
                times, codes = times[positions], codes[positions]
                groups = received.groups[positions]
                kept = Lifted(Rows(batch, times, groups, received.group_count, choice.strata, received), codes)
                of_panes = kept if choice.for_panes else of_panes
            if layout.weighs and WEIGHT not in batch.schema.names:
                strata = kept.rows.strata
                weights = np.ones(len(times)) if strata is None else strata.weights(kept.rows.groups)
            leaves, dictionaries = self._over_time(of_panes, kept, panes), of_panes.rows.dictionaries
        leaves += [leaf_set.empty() for leaf_set in layout.leaf_sets[len(leaves) :]]
        tuples = None
        if layout.tuples is not None:
            tuples = Tuples(codes, times, self._kept_columns(batch, layout.tuples, weights))
        return PaneTable(self._keys(coded, np.arange(coded.count)), tuple(leaves), dictionaries, tuples)

    def _lifted(self, batch: pa.RecordBatch, times: Int64Array, coded: keys.KeyCodes) -> PaneTable:
        """The pane table where there is nothing but partials of panes: codes are made dense leaf by leaf."""
        panes = Panes(self._plan.grid, times, coded.codes, coded.count)
        rows = Rows(batch, times, panes.pairs.members, panes.pairs.count)
        leaves = self._pane_leaves(self._plan.layout.leaf_sets[0], rows, panes)
        return self._dense(coded, leaves, rows.dictionaries)

    def _dense(self, coded: keys.KeyCodes, leaves: Leaves, dictionaries: Mapping[str, pa.Array]) -> PaneTable:
        """The table of some leaves, with codes of which every one occurs."""
        first = run_starts(leaves.key)
        occurring = leaves.key[first]
        if len(first) < coded.count:
            leaves = Leaves(run_numbers(first, len(leaves)), leaves.time, leaves.state)
        return PaneTable(self._keys(coded, occurring), (leaves,), dictionaries)

    def _keys(self, coded: keys.KeyCodes, codes: Int64Array) -> pa.RecordBatch:
        """The keys with some codes. Without key columns, a nameless null column represents the only key."""
        return pa.record_batch(coded.keys(codes) or [pa.nulls(len(codes))], schema=self._plan.layout.keys)

    def _kept(self, batch: pa.RecordBatch, times: Int64Array, panes: Panes) -> KeptRows | None:
        """The tuples that are kept, if a feature drops any."""
        kept = (feature.keep(batch, times, panes) for feature in self._features.values())
        choices = [choice for choice in kept if choice is not None]
        if len(choices) > 1:
            raise MuntinError("Two features choose which rows are kept; use one of them at a time.")
        return choices[0] if choices else None

    def _read_of_kept(self, batch: pa.RecordBatch, for_panes: bool) -> pa.RecordBatch:
        """The columns that are read of kept tuples."""
        layout = self._plan.layout
        names = set(layout.tuples.names) if layout.tuples is not None else set()
        for leaf_set in layout.leaf_sets:
            if for_panes or leaf_set.per_tuple or leaf_set.of_incomplete:
                names.update(leaf_set.read)
        return batch.select([name for name in batch.schema.names if name in names or name == self._plan.time])

    def _kept_columns(self, batch: pa.RecordBatch, schema: pa.Schema, weights: Float64Array | None) -> pa.RecordBatch:
        """The columns of tuples that are kept. Initially every operator counts all tuples."""
        if MEMBERSHIP not in schema.names:
            return batch.select(schema.names)
        all_operators = np.full(batch.num_rows, (1 << len(self._plan.operators)) - 1, dtype=np.uint64)
        added = {MEMBERSHIP: pa.array(all_operators).cast(schema.field(MEMBERSHIP).type)}
        if weights is not None:
            added[WEIGHT] = pa.array(weights)
        columns = [added[name] if name in added else batch.column(name) for name in schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _over_time(self, of_panes: Lifted, kept: Lifted, panes: Panes) -> list[Leaves]:
        """The leaves over panes of time: aggregates of panes, and what needs the kept tuples."""
        operator = self._plan.over_time
        assert operator is not None
        leaves: list[Leaves] = []
        for leaf_set in operator.leaf_sets:
            if leaf_set.custom is not None:
                leaves.append(self._custom_leaves(leaf_set, kept if leaf_set.per_tuple else of_panes))
                continue
            if leaf_set.of_incomplete:
                leaves.append(self._incomplete_leaves(leaf_set, kept.rows, panes))
                continue
            leaves.append(self._pane_leaves(leaf_set, of_panes.rows, panes))
        return leaves

    def _pane_leaves(self, leaf_set: LeafSet, rows: Rows, panes: Panes) -> Leaves:
        """One leaf for each pair of a key and a pane in which there are tuples."""
        state = leaf_set.lift(rows)
        if all_true(state[0]):
            return Leaves(*panes.key_and_start(), state)
        present = np.flatnonzero(state[0])
        return Leaves(*panes.key_and_start(present), tuple(column[present] for column in state))

    def _incomplete_leaves(self, leaf_set: LeafSet, rows: Rows, panes: Panes) -> Leaves:
        """The leaves of groups with dropped tuples."""
        if rows.strata is None:
            return leaf_set.empty()
        incomplete = np.flatnonzero(rows.strata.incomplete(rows.groups))
        key, starts = panes.key_and_start(incomplete)
        return Leaves(key, starts, leaf_set.lift(rows.of_groups(incomplete, leaf_set.read)))

    def _custom_leaves(self, leaf_set: LeafSet, lifted: Lifted) -> Leaves:
        assert leaf_set.custom is not None
        positions, state = leaf_set.custom.lift_tuples(lifted.rows)
        times = lifted.rows.times[positions]
        time = times if leaf_set.per_tuple else self._plan.grid.starts(times)
        return arranged(leaf_set, Leaves(lifted.codes[positions], time, state))

    def _by_shard(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        columns = key_columns(batch, self._plan.layout.keys)
        shard = shard_of(columns, batch.num_rows, len(self._plan.shards))
        for index in np.unique(shard).tolist():
            yield index, batch.filter(pa.array(shard == index))

    def _send(self, unsent: _Unsent) -> Iterator[PackedPanes]:
        plan = self._plan
        unsent.finish()
        table = merge(plan.layout, unsent.tables) if unsent.tables else None
        shares, rows_of_all = self._shares(table)
        for index, shard in enumerate(plan.shards):
            first = index == 0  # counts that belong to no key are sent once
            share = shares.get(index)
            candidates, ahead = unsent.late_candidates.get(index), unsent.ahead.get(index)
            notes = {
                name: note for name, feature in self._features.items() if (note := feature.notes(first)) is not None
            }
            if share is None and ahead is None and not plan.streaming and not first:
                continue
            if rows_of_all is not None:
                rows = rows_of_all if first else 0
            else:
                rows = 0 if share is None else self._row_count(share)
            yield PackedPanes(
                shard=shard,
                rows=rows,
                invalid_rows=unsent.invalid_rows if first else 0,
                outside_rows=unsent.outside_rows if first else 0,
                panes=None if share is None else packed.pack(share, compressed=plan.streaming),
                late_candidates=None if candidates is None else packed.pack_rows(candidates),
                latest=unsent.latest,
                notes=json.dumps(notes).encode() if notes else None,
                ahead_rows=unsent.ahead_rows if first else 0,
                ahead=None if ahead is None else packed.pack_rows(ahead),
            )

    def _shares(self, table: PaneTable | None) -> tuple[Mapping[int, PaneTable], int | None]:
        """The table of each shard, and the number of distinct rows if several shards get the same row."""
        if table is None:
            return {}, None
        for feature in self._features.values():
            shares = feature.split(table)
            if shares is not None:
                return shares, self._row_count(table)
        return split(table, len(self._plan.shards), self._plan.keys), None

    def _row_count(self, table: PaneTable) -> int:
        """How many tuples a newly lifted table was made from, including dropped ones."""
        if table.tuples is None or self._plan.layout.weighs:
            return int(table.panes.state[0].sum())
        return len(table.tuples)


def latest_mark(batch: pa.RecordBatch, marks: str) -> int:
    """The latest watermark that a row carries."""
    latest = pc.max(batch.column(marks).cast(pa.int64())).as_py()
    return NO_TIME if latest is None else int(latest)


def shard_of(columns: Sequence[pa.Array], length: int, count: int) -> Int64Array:
    """The index of each key's shard. It is derived from the key's hash, so it never changes."""
    return (keys.hashes(columns, length) % np.uint64(count)).astype(np.int64)


def split(table: PaneTable, count: int, key_names: Sequence[str]) -> dict[int, PaneTable]:
    """The table split by shard, without empty shards."""
    if count == 1:
        return {0: table}
    columns = [table.keys.column(name) for name in key_names]
    shard = shard_of(columns, table.keys.num_rows, count)
    by_shard = np.argsort(shard, kind="stable")
    recoded = np.empty(len(shard), dtype=np.int64)
    starts = np.searchsorted(shard[by_shard], np.arange(count + 1))
    recoded[by_shard] = np.arange(len(shard)) - np.repeat(starts[:-1], np.diff(starts))
    leaf_sets = [_split_leaves(leaves, shard, recoded, count) for leaves in table.leaves]
    tuples = None if table.tuples is None else _split_tuples(table.tuples, shard, recoded, count)
    tables = {}
    for index in shard[by_shard][run_starts(shard[by_shard])].tolist():
        key_codes = pa.array(by_shard[starts[index] : starts[index + 1]])
        tables[index] = PaneTable(
            table.keys.take(key_codes),
            tuple(leaves_by_shard[index] for leaves_by_shard in leaf_sets),
            table.dictionaries,
            None if tuples is None else tuples[index],
        )
    return tables


def _split_tuples(tuples: Tuples, shard: Int64Array, recoded: Int64Array, count: int) -> list[Tuples]:
    shard_of_tuple = shard[tuples.key]
    order = by_code(shard_of_tuple)
    cuts = np.searchsorted(shard_of_tuple[order], np.arange(count + 1))
    return [tuples.take(order[begin:end]).recoded(recoded) for begin, end in pairwise(cuts)]


def _split_leaves(leaves: Leaves, shard: Int64Array, recoded: Int64Array, count: int) -> list[Leaves]:
    shard_of_leaf = shard[leaves.key]
    order = np.argsort(shard_of_leaf, kind="stable")  # codes keep their order, so each part stays sorted
    ordered = leaves.take(order)
    cuts = np.searchsorted(shard_of_leaf[order], np.arange(count + 1))
    parts = (ordered.take(slice(begin, end)) for begin, end in pairwise(cuts))
    return [Leaves(recoded[part.key], part.time, part.state) for part in parts]
