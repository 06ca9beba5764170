"""The map stage by zone: the tuples of every zone go through a stage with the panes of that zone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.engine import map_stage
from muntin.engine.features import Task
from muntin.engine.gathering import gathered
from muntin.engine.map_stage import AHEAD, BYTES_TOGETHER, NO_TIME, PackedPanes, PaneStage, latest_mark
from muntin.engine.plan import Plan
from muntin.windows.zones import is_zone

_EMPTY = PackedPanes(0, 0, 0, 0, None, None)
_ADDRESS = ("shard", "latest", "zone")
"""The fields that say nothing about tuples."""


class ZonedPaneStage:
    """Tuples whose zone is null or unknown are invalid: they are counted, and their times do not move the watermark."""

    def __init__(self, plan: Plan, task: Task | None = None) -> None:
        assert plan.zone_column is not None
        self._plan = plan
        self._column = plan.zone_column
        self._task = task
        self._stages: dict[str, PaneStage] = {}
        self._latest = NO_TIME
        """What Spark's watermark follows."""
        self._rows: dict[str, int] = {}
        self._invalid = 0

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[PackedPanes]:
        for batch in gathered(batches, map_stage.ROWS_TOGETHER, BYTES_TOGETHER):
            for zone, rows in self._by_zone(batch):
                if zone not in self._stages:
                    self._stages[zone] = PaneStage(self._plan.of_zone(zone), self._task)
                yield from self._of_zone(zone, self._stages[zone].take(rows))
            if sum(stage.unsent_leaves for stage in self._stages.values()) > map_stage.FLUSH_LEAVES:
                yield from self._rest()
        yield from self._rest()
        for zone, stage in self._stages.items():
            stage.done(self._rows[zone])
        yield from self._of_no_zone()

    def _rest(self) -> Iterator[PackedPanes]:
        for zone, stage in self._stages.items():
            yield from self._of_zone(zone, stage.rest())

    def _of_zone(self, zone: str, sent: Iterator[PackedPanes]) -> Iterator[PackedPanes]:
        """What a stage sends, without what is empty: all shards get the latest time from `_of_no_zone`."""
        for share in sent:
            self._latest = max(self._latest, share.latest)
            self._rows[zone] = self._rows.get(zone, 0) + share.rows
            if any(getattr(share, name) != getattr(_EMPTY, name) for name in _CONTENT):
                yield replace(share, zone=zone)

    def _of_no_zone(self) -> Iterator[PackedPanes]:
        for index, shard in enumerate(self._plan.shards):
            if self._plan.streaming or index == 0:
                invalid = self._invalid if index == 0 else 0
                yield PackedPanes(shard, 0, invalid, 0, None, None, latest=self._latest)

    def _by_zone(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The tuples of every zone. The others are counted."""
        encoded = batch.column(self._column).cast(pa.string()).dictionary_encode()
        zones = encoded.dictionary.to_pylist()
        codes = np.asarray(encoded.indices.fill_null(len(zones)), dtype=np.int64)
        is_known = np.array([*map(is_zone, zones), False])
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=len(zones) + 1))
        for code, rows in enumerate(np.split(order, ends[:-1])):
            if not len(rows):
                continue
            of_zone = batch if len(rows) == len(codes) else batch.take(pa.array(rows))
            if is_known[code]:
                yield zones[code], of_zone
            else:
                self._set_aside(of_zone)

    def _set_aside(self, invalid: pa.RecordBatch) -> None:
        """Count rows of no zone. The watermarks that they carry are as good as those of other rows."""
        self._invalid += invalid.num_rows
        if AHEAD in invalid.schema.names:
            invalid = invalid.filter(pc.invert(invalid.column(AHEAD).fill_null(False)))
        if self._plan.marks is not None:
            self._latest = max(self._latest, latest_mark(invalid, self._plan.marks))


_CONTENT = tuple(field.name for field in fields(PackedPanes) if field.name not in _ADDRESS)
