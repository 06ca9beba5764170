"""The window stage of a stream on Spark: a stateful processor per shard, and what it emits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from muntin.engine.described import other_shards
from muntin.engine.emitted import Emitted, Results
from muntin.engine.features import Finish, Spread
from muntin.engine.map_stage import PackedPanes
from muntin.engine.metrics import Metrics, names
from muntin.engine.plan import Plan
from muntin.engine.stages import stream_store, window_stage
from muntin.engine.store import Header, HotCache
from muntin.errors import StateError
from muntin.spark.local_files import note_this_stream
from muntin.spark.memory import ARROW_ROWS, begin_task
from muntin.spark.pane_stage import this_task
from muntin.spark.shards import of_this_stream, shard_ids

STAGED = T.StructType(
    [
        T.StructField("task", T.IntegerType()),
        T.StructField("payload", T.BinaryType()),
        T.StructField("metrics", T.ArrayType(T.LongType())),
    ]
)
"""The rows that the stage emits: packed results and packed jobs for tasks. The last row of a shard has its metrics."""

READY = -1
"""The task number of rows with results."""

MOST_ROWS = 1 << 16
"""Results per packed row, which a task unpacks at once."""

BATCH_BYTES = 1 << 26
"""Packed results that Spark may put into one Arrow batch: the limit that Spark has by default."""

_CACHE = HotCache(capacity=8)
"""Lives as long as the Python worker. Shards may move to other workers, so every look-up is verified."""


class ShardProcessor(StatefulProcessor):
    """Spark's stateful processor, grouped by shard.

    A timer one millisecond after the watermark fires in the next batch in which the watermark moves, so a shard
    runs in every such batch, with or without rows: its windows close on time, and it knows which rows are late.
    """

    def __init__(self, plan: Plan, query: str, finish: Finish | None = None) -> None:
        self._plan = plan
        self._query = query
        self._finish = finish

    def init(self, handle: StatefulProcessorHandle) -> None:
        begin_task()
        self._plan = of_this_stream(self._plan)
        note_this_stream(self._plan, self._query)
        self._handle = handle
        self._state = _SparkState(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        yield from self._advance(key, [panes for frame in rows for panes in _packed(frame)], timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        yield from self._advance(key, [], timerValues, fired=expiredTimerInfo.getExpiryTimeInMs())

    def close(self) -> None:
        pass

    def _advance(
        self, key: Any, arrived: list[PackedPanes], timers: Any, fired: int | None = None
    ) -> Iterator[pd.DataFrame]:
        shard = int(key[0])
        if shard not in self._plan.shards:
            raise self._unknown(shard)
        plan = self._plan.of_shard(shard)
        store = stream_store(plan, self._query, shard, self._state, _CACHE)
        known, before = store.header.version != "", store.header.stream_watermark(plan.correctable) // 1000
        now = timers.getCurrentWatermarkInMs()
        task = replace(this_task(plan, self._query), clock=timers.getCurrentProcessingTimeInMs())
        run = window_stage(plan, store, shard, task)
        rows = StagedRows(plan, shard, finished(self._finish, run.run(arrived, now * 1000)), run.metrics)
        yield from frames(rows.before_last())
        if not known or now > before or fired is not None:
            if known and fired is None:
                self._handle.deleteTimer(before + 1)
            self._handle.registerTimer(now + 1)
        yield _frame(rows.last())

    def _unknown(self, shard: int) -> StateError:
        """The error for a shard that the query does not have; its header has the former number of shards."""
        stored, now = self._state.read_header(), len(self._plan.shards)
        before = now if stored is None else Header.decode(stored).shards
        if before != now:
            return other_shards(before, now)
        return StateError(
            f"The checkpoint has a shard {shard}, and the query, with {now} shards, does not. Set "
            "spark.sql.shuffle.partitions, or the workers of .parallel(), back to what they were, or start with a new "
            "checkpoint location."
        )


def finished(finish: Finish | None, emitted: Iterator[Emitted]) -> Iterator[Emitted]:
    if finish is None:
        return emitted
    return map(Results, finish.run(results.rows for results in emitted if isinstance(results, Results)))


def unpacked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The results in packed rows."""
    begin_task()
    for batch in batches:
        for payload in without_padding(batch).column("payload"):
            yield from pa.ipc.open_stream(payload.as_buffer())


def without_padding(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.filter(pc.not_equal(batch.column("payload"), PADDING.payload))


DESCRIPTION = "query"
"""A name that no segment has. A separate state variable would be one more for every task to open."""


_NAME = T.StructType([T.StructField("name", T.StringType())])
_VALUE = T.StructType([T.StructField("value", T.BinaryType())])
"""As types: every task would ask the JVM to parse a text, several times."""


class _SparkState:
    """The store's backend in Spark's state. Spark serialises the bytes; nothing in them is code."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._header = handle.getValueState("header", _VALUE)
        self._segments = handle.getMapState("segments", _NAME, _VALUE)

    def read_header(self) -> bytes | None:
        return _bytes(self._header.get())

    def write_header(self, value: bytes) -> None:
        self._header.update((value,))

    def read_description(self) -> bytes | None:
        return self.read(DESCRIPTION)

    def write_description(self, value: bytes) -> None:
        self.write(DESCRIPTION, value)

    def read(self, name: str) -> bytes | None:
        return _bytes(self._segments.getValue((name,)))

    def write(self, name: str, value: bytes) -> None:
        self._segments.updateValue((name,), (value,))

    def delete(self, name: str) -> None:
        self._segments.removeKey((name,))


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value[0])


def _packed(frame: pd.DataFrame) -> Iterable[PackedPanes]:
    for row in frame.to_dict("records"):
        values: dict[str, Any] = {
            str(name): _OTHERS[str(name)](value) if name in _OTHERS else int(value) for name, value in row.items()
        }
        yield PackedPanes(**values)


def _bytes_or_none(value: Any) -> bytes | None:
    # A column with only nulls comes as NaN.
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else None


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


_OTHERS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("panes", "late_candidates", "notes", "ahead"), _bytes_or_none),
    "zone": _text_or_none,
}
"""How the columns of packed panes are read that are no integers."""


@dataclass(frozen=True)
class StagedRow:
    """A row for the steps behind the shard."""

    task: int = READY
    payload: bytes | None = None
    metrics: list[int] | None = None


class StagedRows:
    """What a shard emits in a batch. The last row has the metrics, too: a row costs Spark more than its bytes."""

    def __init__(self, plan: Plan, shard: int, emitted: Iterable[Emitted], metrics: Metrics) -> None:
        self._reported = names(plan.reported)
        self._metrics = metrics
        self._rows = staged(plan, shard, emitted, metrics)
        self._held = StagedRow()

    def before_last(self) -> Iterator[StagedRow]:
        """All rows but the last."""
        for row in self._rows:
            if self._held.payload is not None:
                yield self._held
            self._held = row

    def last(self) -> StagedRow:
        """The last row, once the shard has run and its metrics are known."""
        return replace(self._held, metrics=[self._metrics[name] for name in self._reported])


def staged(plan: Plan, shard: int, emitted: Iterable[Emitted], metrics: Metrics) -> Iterator[StagedRow]:
    """Packed results and packed jobs, in their order."""
    tasks = _tasks(plan, shard)
    for results_or_job in emitted:
        if isinstance(results_or_job, Results):
            for payload in packed_rows(results_or_job.rows):
                yield StagedRow(READY, payload)
        else:
            payload = results_or_job.pack()
            metrics.add(job_bytes=len(payload))
            yield StagedRow(tasks[results_or_job.turn % len(tasks)], payload)


def _tasks(plan: Plan, shard: int) -> list[int]:
    """The tasks of a shard's jobs, in turn. Every shard begins with another one, as Spark runs tasks in order."""
    tasks = shard_ids(next((step.tasks for step in plan.steps if isinstance(step, Spread)), 1))
    first = plan.shards.index(shard) * len(tasks) // len(plan.shards)
    return tasks[first:] + tasks[:first]


def packed_rows(batch: pa.RecordBatch) -> Iterator[bytes]:
    """Pack results for `unpacked`."""
    for begin in range(0, batch.num_rows, MOST_ROWS):
        part = batch.slice(begin, MOST_ROWS)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, part.schema) as writer:
            writer.write_batch(part)
        yield sink.getvalue().to_pybytes()


def frames(rows: Iterable[StagedRow]) -> Iterator[pd.DataFrame]:
    """Frames of rows, with padding wherever Spark would put too much into one Arrow batch.

    Spark limits Arrow batches by rows, and not by bytes (`muntin.configure`). Packed results have megabytes each, and
    Spark's JVM ends if a batch does not fit into its direct memory. So as many empty rows as a batch has separate them.
    """
    size = 0
    for row in rows:
        yield _frame(row)
        size += len(row.payload or b"")
        if size >= BATCH_BYTES:
            yield _frame(PADDING, ARROW_ROWS)
            size = 0


PADDING = StagedRow(payload=b"")


def _frame(row: StagedRow, times: int = 1) -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series([value] * times, dtype=object) for name, value in vars(row).items()})
