"""Ticks: a source beside the input of a stream, by which batches run although the input has nothing to give.

Spark runs no batch while no source has anything new. A tick reaches every shard, and has no rows and no event time.
What it means is decided by the clock of the batch, which is in the checkpoint, and by what else is in the batch.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from muntin.engine.map_stage import DRAIN, TICK, PackedPanes
from muntin.engine.plan import Plan
from muntin.errors import MuntinError
from muntin.features.idle.feature import Idling
from muntin.features.idle.policy import Idle
from muntin.query import Query
from muntin.spark.bounded import ReadAllAvailable, SupportsTriggerAvailableNow
from muntin.spark.pane_stage import PACKED, packed_row
from muntin.spark.shards import of_this_stream
from muntin.spark.watermark import passes_rows_on


@dataclass(frozen=True)
class Position:
    """Where the ticks of a stream are."""

    clock: int = 0
    """The clock up to which it has ticked, in milliseconds."""
    runs: int = 0
    """The number of bounded runs so far."""

    @classmethod
    def of(cls, offset: Mapping[str, Any]) -> Position:
        try:
            return cls(int(offset["clock"]), int(offset["runs"]))
        except (KeyError, TypeError, ValueError):
            raise MuntinError(
                f"The checkpoint has the offset {dict(offset)!r}, which is not one of idle= or drain(). These add a "
                "source to a stream, and the sources of a checkpoint cannot change; leave them as they were when the "
                "stream first started, or start with a new checkpoint."
            ) from None

    @property
    def offset(self) -> dict[str, Any]:
        return {"clock": self.clock, "runs": self.runs}


class TickReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The ticks of one running query. A bounded run has one, in its first batch."""

    def __init__(self, tick: int | None, plan: Plan) -> None:
        self._tick = tick
        self._plan = plan
        self._last: Position | None = None
        self._is_bounded = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return Position().offset

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._is_bounded, self._last = True, None

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802
        """Before PySpark 4.2, Spark does not say where the stream is: the clock does."""
        before = self._last or Position()
        before = before if start is None else Position.of(start)
        if self._is_bounded and self._last is not None:
            return before.offset
        runs = before.runs + self._is_bounded
        self._last = Position(max(before.clock, self._ticked(time.time_ns() // 1_000_000)), runs)
        return self._last.offset

    def _ticked(self, clock: int) -> int:
        """The last tick up to this time."""
        return 0 if self._tick is None else clock // self._tick * self._tick

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        return ReadAllAvailable()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        is_bounded = Position.of(end).runs > Position.of(start).runs
        return [InputPartition(DRAIN if is_bounded else TICK)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for shard in of_this_stream(self._plan).shards:
            yield packed_row(PackedPanes(shard, 0, 0, 0, None, None, input=partition.value))


def ticks(query: Query, plan: Plan) -> DataFrame:
    """The ticks of a query with `idle=` or `.drain()`, as packed panes for all shards."""
    option, spark = query.option(Idle.name), query.source.frame.sparkSession
    assert isinstance(option, Idle)
    if option.drains and ReadAllAvailable is None:
        raise MuntinError("drain() needs PySpark 4.2 or later: earlier versions do not say that a run is bounded.")
    source = _source(f"muntin_ticks_{uuid.uuid4().hex}", None if option.tick is None else option.tick // 1000, plan)
    spark.dataSource.register(source)
    frame: DataFrame = spark.readStream.format(source.name()).load()
    return frame


def _source(source_name: str, tick: int | None, plan: Plan) -> type[DataSource]:
    """A data source of its own for every query: see `muntin.spark.scan_source`."""

    class Ticks(DataSource):
        @classmethod
        def name(cls) -> str:
            return source_name

        def schema(self) -> T.StructType:
            return PACKED

        def streamReader(self, schema: T.StructType) -> DataSourceStreamReader:  # noqa: N802
            return TickReader(tick, plan)

    return Ticks


def knowing_inputs(query: Query, plan: Plan) -> Plan:
    """The plan, in which it is known how each input shows that its source had data.

    A task that runs shows it, even if the user's filter left it no row. But behind a shuffle, tasks run in any case.
    """
    inputs = (query.source.frame, *(source.frame for source in query.source.beside))
    by_rows = tuple(query.source.scan is None and not passes_rows_on(frame) for frame in inputs)
    features = (replace(each, by_rows=by_rows) if isinstance(each, Idling) else each for each in plan.features)
    return replace(plan, features=tuple(features))
