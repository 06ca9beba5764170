"""Queries without an engine, to time single windows.

Both stages run in this process, over a state in memory. Tuples are delivered first, under the old watermark; then the
watermark advances without tuples. The time from there to the answers is what SPEAr and CoD call the latency or
processing time of a window.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from statistics import fmean
from time import perf_counter

import numpy as np
import pyarrow as pa

from muntin import aggregates as A
from muntin import windows as W
from muntin.bench.data_sets import BEGIN, TIME, DataSet
from muntin.engine.emitted import Results
from muntin.engine.functions import AppliedFunction
from muntin.engine.map_stage import PackedPanes, PaneStage
from muntin.engine.metrics import Metrics
from muntin.engine.plan import Plan
from muntin.engine.shard import Shard
from muntin.engine.state import MemoryState
from muntin.engine.store import HotCache, PaneStore
from muntin.features.sampling.policy import Approximation
from muntin.features.shedding.policy import Shedding
from muntin.holistic.applied import Applied
from muntin.spark.host.folder import HostFolder

ANSWER = "answer"
SHARD = 0


class Core:
    """A streaming query: one task of the pane stage, and one shard of the window stage."""

    def __init__(self, plan: Plan) -> None:
        self._plan = replace(plan, host=HostFolder())
        self._query = uuid.uuid4().hex
        self._state = MemoryState()
        self._cache = HotCache(capacity=1)
        self._watermark = 0
        self.metrics = Metrics()

    def copy(self, plan: Plan) -> Core:
        """A query with another plan goes on at the same point, with a state of its own and nothing in memory."""
        copy = Core(plan)
        copy._state, copy._watermark = self._state.copy(), self._watermark
        return copy

    def arrive(self, tuples: pa.Table) -> list[pa.RecordBatch]:
        """Deliver tuples. Time windows do not close with them; windows over numbered tuples may."""
        return self._advance(list(PaneStage(self._plan).run(tuples.to_batches())))

    def close(self, watermark: int) -> list[pa.RecordBatch]:
        """Advance the watermark. Returns the results of the windows that it closes."""
        self._watermark = watermark
        return self._advance([])

    def trigger(self, arrived: Iterable[PackedPanes], watermark: int) -> list[pa.RecordBatch]:
        """A micro-batch: what has arrived, and the results of the windows that the watermark closes."""
        self._watermark = watermark
        return self._advance(list(arrived))

    def _advance(self, arrived: list[PackedPanes]) -> list[pa.RecordBatch]:
        shard = Shard(self._plan, self._store(), SHARD)
        results = [each.rows for each in shard.run(arrived, self._watermark) if isinstance(each, Results)]
        self.metrics = shard.metrics
        return results

    def _store(self) -> PaneStore:
        return PaneStore(self._plan, self._query, SHARD, self._state, self._cache)

    @property
    def answer_seconds(self) -> float:
        """Seconds of the last batch from closing windows to their answers, without writing the state."""
        return self.metrics.answer_nanoseconds / 1e9

    def scan(self, begin: int, end: int) -> pa.Table:
        """The mean of every group in a window, by Arrow's `group_by` over the tuples in the chunks."""
        chunks = self._store().chunks(end)
        opened = [chunks.open(chunk) for chunk in chunks.overlapping(begin, end - 1)]
        tables = []
        for table in opened:
            assert table.tuples is not None
            inside = (table.tuples.time >= begin) & (table.tuples.time < end)
            tuples = table.tuples.take(inside)
            keys = table.keys.column("key").take(pa.array(tuples.key))
            tables.append(pa.table({"key": keys, "value": tuples.columns.column("value")}))
        window = pa.concat_tables(tables)
        return window.group_by("key", use_threads=False).aggregate([("value", "mean")])

    @property
    def memory(self) -> int:
        """Bytes that a worker keeps in memory between batches: panes and waiting tuples, chunks, samples."""
        return self.metrics.hot_bytes + self.metrics.resident_bytes + self.metrics.get("sample_bytes")

    def forget(self) -> None:
        """Remove the copies of the state from the host."""
        self._plan.host.forget(self._query)


def plan_of(
    data: DataSet,
    query: A.Aggregate | Applied,
    approximation: Approximation | None = None,
    window: W.Window | None = None,
    shedding: Shedding | None = None,
) -> Plan:
    """The plan that `muntin.over(…).agg(answer=…)` or `.apply(…)` makes, without a DataFrame."""
    types = {field.name: field.type for field in data.tuples.schema}
    over = window or W.sliding(timedelta(microseconds=data.size), timedelta(microseconds=data.slide))
    return Plan.make(
        time="time",
        windows=[over],
        types=types,
        keys=data.keys,
        aggregates={} if isinstance(query, Applied) else {ANSWER: query.bind(types, None, TIME)},
        shards=[SHARD],
        streaming=True,
        delay=data.lag // 2,
        function=AppliedFunction(query) if isinstance(query, Applied) else None,
        options=[option for option in (approximation, shedding) if option is not None],
    )


@dataclass(frozen=True)
class Ran:
    """The times and results of a query over a data set."""

    arrivals: tuple[float, ...]
    """Seconds to ingest the tuples of each slide."""
    windows: tuple[float, ...]
    """Seconds from the close of each window to its answer, without windows that begin before the data."""
    closings: tuple[float, ...]
    """Seconds per slide to close windows, delete what none needs, and write the state."""
    memory: int
    """Peak memory of the worker in bytes."""
    sample_bytes: int
    answered_from: float
    """Mean bytes of tuples or samples that a window was answered from."""
    results: Mapping[int, pa.Table]
    """The answers by window end."""
    kept: float = 1.0
    """The share of the tuples that were not shed."""

    @classmethod
    def fastest(cls, runs: Sequence[Ran]) -> Ran:
        """The fastest time of each slide and window over all runs, since other programs only add time."""
        arrivals, windows, closings = (
            tuple(np.min([getattr(run, name) for run in runs], axis=0).tolist())
            for name in ("arrivals", "windows", "closings")
        )
        return replace(runs[0], arrivals=arrivals, windows=windows, closings=closings)

    @property
    def arrival(self) -> float:
        return sum(self.arrivals)

    @property
    def closing(self) -> float:
        return sum(self.closings)

    @property
    def mean(self) -> float:
        return float(np.mean(self.windows))

    @property
    def p95(self) -> float:
        return float(np.percentile(self.windows, 95))

    @property
    def total(self) -> float:
        return self.arrival + self.closing


class _Replay:
    """A query in the middle of a data set."""

    def __init__(self, data: DataSet, plan: Plan) -> None:
        self._core = Core(plan)
        self._counted = set(data.ends.tolist())
        self._arrivals: list[float] = []
        self._windows: list[float] = []
        self._closings: list[float] = []
        self._memory, self._samples = [0], [0]
        self._read: list[float] = []
        self._results: dict[int, pa.Table] = {}

    def step(self, end: int, tuples: pa.Table) -> None:
        """Process the tuples of the slide that ends at `end`."""
        core = self._core
        begun = perf_counter()
        core.arrive(tuples)
        delivered = perf_counter()
        closed = core.close(end)
        done = perf_counter()
        self._arrivals.append(delivered - begun)
        self._closings.append(done - delivered)
        if end in self._counted:
            self._windows.append(core.answer_seconds)
            self._memory.append(core.memory)
            self._samples.append(core.metrics.get("sample_bytes"))
            self._read.append(core.metrics.answer_bytes)
            self._results[end] = pa.Table.from_batches(closed)

    def ran(self) -> Ran:
        self._core.forget()
        metrics = self._core.metrics
        return Ran(
            arrivals=tuple(self._arrivals),
            windows=tuple(self._windows),
            closings=tuple(self._closings),
            memory=max(self._memory),
            sample_bytes=max(self._samples),
            answered_from=fmean(self._read),
            results=self._results,
            kept=1 - metrics.get("total_shed_rows") / max(metrics.total_rows, 1),
        )


def replay(data: DataSet, plan: Plan) -> Ran:
    """Run a query over all time windows of a data set, slide by slide."""
    return in_step(data, [plan])[0]


def in_step(data: DataSet, plans: Sequence[Plan]) -> list[Ran]:
    """Run several queries side by side, slide by slide, so that other load on the machine affects all of them."""
    replays = [_Replay(data, plan) for plan in plans]
    for number, (end, tuples) in enumerate(slides(data)):
        for query_replay in replays if number % 2 else reversed(replays):
            query_replay.step(end, tuples)
    return [query_replay.ran() for query_replay in replays]


def fastest_in_turn(data: DataSet, plans: Sequence[Plan], rounds: int) -> list[Ran]:
    """The fastest times of several queries. They run in turn, so that each has the CPU caches for itself."""
    runs_of_plans: list[list[Ran]] = [[] for _ in plans]
    for _ in range(rounds):
        for runs, plan in zip(runs_of_plans, plans, strict=True):
            runs.append(replay(data, plan))
    return [Ran.fastest(runs) for runs in runs_of_plans]


def fastest_in_step(data: DataSet, plans: Sequence[Plan], rounds: int) -> list[Ran]:
    """The fastest times of several queries that differ by little: they run in step."""
    return [Ran.fastest(runs) for runs in zip(*(in_step(data, plans) for _ in range(rounds)), strict=True)]


def slides(data: DataSet) -> Iterator[tuple[int, pa.Table]]:
    """The end of every slide, and the tuples that arrive before the watermark passes it."""
    begin = 0
    for end in range(BEGIN + data.slide, int(data.ends[-1]) + 1, data.slide):
        yield end, data.within(begin, end + data.lag)
        begin = end + data.lag
