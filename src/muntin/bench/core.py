"""Queries without an engine, so that a window can be timed alone.

Both stages run in this process, over a state in memory. Tuples are delivered first, under the old watermark, and then
the watermark comes alone. What the papers call a window's latency, or its processing time, is from there to the
answers.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
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

ANSWER = "answer"
SHARD = 0


class Core:
    """A streaming query: one task of the pane stage, and one shard of the window stage."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._query = uuid.uuid4().hex
        self._state = MemoryState()
        self._cache = HotCache(capacity=1)
        self._watermark = 0
        self.metrics = Metrics()

    def arrive(self, tuples: pa.Table) -> list[pa.RecordBatch]:
        """Deliver tuples. Windows over time do not close with them; those over numbered tuples may."""
        return self._advance(list(PaneStage(self._plan).run(tuples.to_batches())))

    def close(self, watermark: int) -> list[pa.RecordBatch]:
        """What the windows say that close with a watermark."""
        self._watermark = watermark
        return self._advance([])

    def _advance(self, arrived: list[PackedPanes]) -> list[pa.RecordBatch]:
        shard = Shard(self._plan, self._store(), SHARD)
        results = [each.rows for each in shard.run(arrived, self._watermark) if isinstance(each, Results)]
        self.metrics = shard.metrics
        return results

    def _store(self) -> PaneStore:
        return PaneStore(self._plan, self._query, SHARD, self._state, self._cache)

    @property
    def answer_seconds(self) -> float:
        """What the last batch took from windows that close to their answers, without the state that is written."""
        return self.metrics.answer_nanoseconds / 1e9

    def scan(self, begin: int, end: int) -> pa.Table:
        """The mean of every group in a window, from all its tuples, which are in chunks: Arrow's `group_by`."""
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
        """Bytes that a worker has in memory between batches: panes and waiting tuples, chunks of tuples, samples."""
        return self.metrics.hot_bytes + self.metrics.resident_bytes + self.metrics.get("sample_bytes")

    def forget(self) -> None:
        """Remove the copies of the state on the host."""
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
    """A query over a data set."""

    arrivals: tuple[float, ...]
    """Seconds that it took to take in the tuples of each slide."""
    windows: tuple[float, ...]
    """Seconds from the close of each window to its answer, without those that had begun before the data."""
    closings: tuple[float, ...]
    """Seconds that each took in all: to give up what no window needs, and to write the state, too."""
    memory: int
    """Bytes that the worker had in memory, at most."""
    sample_bytes: int
    answered_from: float
    """Bytes of tuples or of samples that the mean window was answered from."""
    results: Mapping[int, pa.Table]
    """The answers by the end of the window."""
    kept: float = 1.0
    """The share of the tuples that was not shed."""

    @classmethod
    def fastest(cls, runs: Sequence[Ran]) -> Ran:
        """Of each slide and window the fastest run: what other programs do only ever adds to one of them."""
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
    """A query over a data set, as far as it has got."""

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
        """The next slide, which ends there."""
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
    """All windows over time of a data set, one slide after the other."""
    return in_step(data, [plan])[0]


def in_step(data: DataSet, plans: Sequence[Plan]) -> list[Ran]:
    """The same for several queries, slide by slide: whatever the machine does beside them, it does to all of them."""
    replays = [_Replay(data, plan) for plan in plans]
    for number, (end, tuples) in enumerate(slides(data)):
        for each in replays if number % 2 else reversed(replays):
            each.step(end, tuples)
    return [each.ran() for each in replays]


def fastest_in_turn(data: DataSet, plans: Sequence[Plan], rounds: int) -> list[Ran]:
    """Several queries in turn, so that each has the processor's caches for itself, and of each the fastest times."""
    runs: list[list[Ran]] = [[] for _ in plans]
    for _ in range(rounds):
        for found, plan in zip(runs, plans, strict=True):
            found.append(replay(data, plan))
    return [Ran.fastest(found) for found in runs]


def fastest_in_step(data: DataSet, plans: Sequence[Plan], rounds: int) -> list[Ran]:
    """Several queries that differ by little."""
    return [Ran.fastest(found) for found in zip(*(in_step(data, plans) for _ in range(rounds)), strict=True)]


def slides(data: DataSet) -> Iterator[tuple[int, pa.Table]]:
    """The end of every slide, and the tuples that come before it is safe to say that none are missing."""
    begin = 0
    for end in range(BEGIN + data.slide, int(data.ends[-1]) + 1, data.slide):
        yield end, data.within(begin, end + data.lag)
        begin = end + data.lag
