"""One batch of one shard: what arrived, and the results of every step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.engine.answers import rows_as_results
from muntin.engine.chunks.store import ChunkStore
from muntin.engine.contents import ShardTuples
from muntin.engine.features import ShardFeature
from muntin.engine.ingest import Ingested
from muntin.engine.live import LivePanes
from muntin.engine.live_reader import LiveReader
from muntin.engine.map_stage import NO_TIME, PackedPanes
from muntin.engine.metrics import Metrics
from muntin.engine.operators.operator import Closing, WindowOperator, WindowReader
from muntin.engine.operators.time import TimeOperator
from muntin.engine.plan import Plan
from muntin.engine.pruning import open_rows
from muntin.engine.state import StateValues
from muntin.engine.store import Header
from muntin.panes import packed
from muntin.panes.table import PaneTable, merge
from muntin.panes.watermarks import Watermarks

_COUNTS = ("rows", "invalid_rows", "outside_rows", "ahead_rows", "skipped_files")
"""What map tasks count."""


@dataclass(frozen=True)
class Arrived:
    """What the map tasks sent to a shard, unpacked."""

    tables: Sequence[PaneTable] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    latest: int = NO_TIME
    """The latest time that any task has sent: see `PackedPanes`."""
    late: Sequence[pa.RecordBatch] = ()
    """Rows that are too late for all of their windows, or too far ahead, as results."""
    inputs: Mapping[int, int] = field(default_factory=dict)
    """The latest event time of each input whose tasks sent something, by its number."""

    @classmethod
    def of(
        cls, sent: Iterable[PackedPanes], plan: Plan, closed: Watermarks, features: Mapping[str, ShardFeature]
    ) -> Arrived:
        """Unpack what was sent, without what is too late for all of its windows."""
        counts = dict.fromkeys((*_COUNTS, "late_rows", "arrived_bytes"), 0)
        tables, late, latest = list[PaneTable](), list[pa.RecordBatch](), NO_TIME
        inputs: dict[int, int] = {}
        # Sorted by time, tuples are mostly in order; also by content, so that a replay merges in the same order.
        for share in sorted(sent, key=lambda share: (share.latest, share.panes or b"")):
            latest = max(latest, share.latest)
            inputs[share.input] = max(inputs.get(share.input, NO_TIME), share.latest)
            for name in _COUNTS:
                counts[name] += getattr(share, name)
            for name, notes in share.read_notes().items():
                if name in features:
                    features[name].receive(notes)
            if share.panes is not None:
                counts["arrived_bytes"] += len(share.panes)
                table, late_rows = _in_time(packed.unpack(plan.layout, share.panes), plan, closed, features)
                counts["late_rows"] += late_rows
                tables += [table] if table.size else []
            if share.late_candidates is not None:
                late += rows_as_results(plan.schema, _too_late(share.late_candidates, plan, closed), closed)
            if share.ahead is not None:
                late += rows_as_results(plan.schema, packed.unpack_rows(share.ahead))
        return cls(tables, counts, latest, late, inputs)

    def merged(self, plan: Plan) -> PaneTable | None:
        """The panes as one table."""
        return merge(plan.layout, self.tables) if self.tables else None


def _in_time(
    table: PaneTable, plan: Plan, closed: Watermarks, features: Mapping[str, ShardFeature]
) -> tuple[PaneTable, int]:
    for feature in features.values():
        table = feature.arrived(table)

    def counted(late: Any, times: Any, watermarks: Watermarks, of_tuples: bool) -> Any:
        for feature in features.values():
            late = feature.late(late, times, watermarks, of_tuples)
        return late

    return open_rows(table, plan, closed, counted)


def _too_late(rows: bytes, plan: Plan, closed: Watermarks) -> pa.Table:
    """The rows that are too late for all of their windows."""
    table = packed.unpack_rows(rows)
    times = np.asarray(table.column(plan.time).cast(pa.int64()))
    return table.filter(pa.array(closed.too_late(times, plan.windows)))


@dataclass(frozen=True)
class Selected:
    """Windows of one operator to answer, and the data that answer them."""

    operator: WindowOperator
    reader: WindowReader
    closing: Closing
    table: PaneTable
    tuples: ShardTuples


@dataclass
class ShardBatch:
    """One batch of one shard. Every step of a feature gets it."""

    plan: Plan
    shard: int
    header: Header
    """The header of the batch before."""
    closed: Watermarks
    """The watermarks of the batch before: windows have closed up to them."""
    now: Watermarks
    metrics: Metrics
    chunks: ChunkStore
    values: StateValues
    """The values of the shard's state, for features with their own state."""
    notes: Mapping[str, Any]
    """Notes of features from the batch before, by their names, if this worker ran it."""
    before: PaneTable | None = None
    arrived: PaneTable | None = None
    arrived_leaves: int = 0
    ingested: Ingested | None = None
    tuples: ShardTuples | None = None
    """The tuples of the closing windows, once the batch is ingested."""
    left: PaneTable | None = None
    """The table with what open windows need, once closed windows are answered."""
    added: PaneTable | None = None
    """The part of it that is new and has to be written."""
    remembers_table: bool = True
    """Whether the table may stay in the worker's memory."""
    live: LivePanes | None = None
    """The trees over the time windows' panes that live from batch to batch, if there are any."""
    new_notes: dict[str, Any] = field(default_factory=dict)
    """Notes of features for the next batch."""

    @property
    def closing(self) -> Iterator[tuple[Any, int, int]]:
        """The operators whose windows close with this batch, with the interval `(after, until]` of their ends."""
        for operator in self.plan.operators:
            after, until = operator.closes_at(self.closed), operator.closes_at(self.now)
            if until > after:
                yield operator, after, until

    def reader(self, operator: WindowOperator) -> WindowReader:
        """The windows of an operator over the table."""
        assert self.ingested is not None
        return operator.reader(self.ingested.table)

    def closing_windows(self, operator: WindowOperator, after: int, until: int) -> Iterator[Selected]:
        """The windows that close when the watermark of an operator moves from `after` to `until`."""
        assert self.ingested is not None
        assert self.tuples is not None
        reader = self.reader(operator)
        if self.live is not None and isinstance(operator, TimeOperator):
            reader = LiveReader(operator, self.ingested.table, self.live)
        for closing in reader.closing(after, until, self.plan.keeps_tuples):
            yield Selected(operator, reader, closing, self.ingested.table, self.tuples)
