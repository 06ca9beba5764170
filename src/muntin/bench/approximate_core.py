"""Queries without an engine, so that a window can be timed alone; how far its answer is off; and what else could do it.

Both stages run in this process, over a state in memory. Tuples are delivered first, under the old watermark, and then
the watermark comes alone. SPEAr's window processing time is from there to the answers.
"""

from __future__ import annotations

import importlib
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec
from statistics import fmean
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from muntin import aggregates as A
from muntin import windows as W
from muntin.arrays import Array, Float64Array, run_starts
from muntin.bench.approximate_data import BEGIN, TIME, DataSet
from muntin.panes.copies import forget
from muntin.panes.store import HotCache, PaneStore
from muntin.panes.values import MemoryState
from muntin.plan import Plan
from muntin.sampling.policy import Approximation
from muntin.stages.pane_stage import PackedPanes, PaneStage
from muntin.stages.window_stage import ShardMetrics, WindowStage

MEDIAN = A.median("value")
MEAN = A.mean("value")
ANSWER = "answer"
SHARD = 0


class Core:
    """A streaming query: one task of the pane stage, and one shard of the window stage."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._query = f"bench-{uuid.uuid4().hex}"
        self._state = MemoryState()
        self._cache = HotCache(capacity=1)
        self._watermark = 0
        self.metrics = ShardMetrics()

    def arrive(self, tuples: pa.Table) -> list[pa.RecordBatch]:
        """Deliver tuples. Windows over time do not close with them; those over numbered tuples may."""
        return self._advance(list(PaneStage(self._plan).run(tuples.to_batches())))

    def close(self, watermark: int) -> list[pa.RecordBatch]:
        """What the windows say that close with a watermark."""
        self._watermark = watermark
        return self._advance([])

    def _advance(self, arrived: list[PackedPanes]) -> list[pa.RecordBatch]:
        stage = WindowStage(self._plan, self._store())
        results = list(stage.advance(arrived, self._watermark))
        self.metrics = stage.metrics
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
        return self.metrics.hot_bytes + self.metrics.resident_bytes + self.metrics.sample_bytes

    def forget(self) -> None:
        """Remove the copies of the state on the host."""
        forget(self._query)


def plan_of(
    data: DataSet, aggregate: A.Aggregate, approximation: Approximation | None = None, window: W.Window | None = None
) -> Plan:
    """The plan that `muntin.over(…).agg(answer=…).approximate(…)` makes, without a DataFrame."""
    types = {field.name: field.type for field in data.tuples.schema}
    over = window or W.sliding(timedelta(microseconds=data.size), timedelta(microseconds=data.slide))
    return Plan.make(
        time="time",
        windows=[over],
        types=types,
        keys=data.keys,
        aggregates={ANSWER: aggregate.bind(types, None, TIME)},
        shards=[SHARD],
        streaming=True,
        delay=data.lag // 2,
        approximation=approximation,
    )


def within(
    budget: int, error: float = 0.1, *, groups: tuple[int, ...] | None = None, incremental: bool = True, seed: int = 0
) -> Approximation:
    """A budget and an error at the paper's confidence of 95 %."""
    return Approximation.of(budget, error, 0.95, groups, "l1", incremental, seed)


@dataclass(frozen=True)
class Ran:
    """A query over a data set."""

    arrival: float
    """Seconds that it took to take in all tuples."""
    windows: tuple[float, ...]
    """Seconds from the close of each window to its answer, without those that had begun before the data."""
    closing: float
    """Seconds that all of them took in all: to give up what no window needs, and to write the state, too."""
    memory: int
    """Bytes that the worker had in memory, at most."""
    sample_bytes: int
    answered_from: float
    """Bytes of tuples or of samples that the mean window was answered from."""
    results: Mapping[int, pa.Table]
    """The answers by the end of the window."""

    @property
    def mean(self) -> float:
        return float(np.mean(self.windows))

    @property
    def p95(self) -> float:
        return float(np.percentile(self.windows, 95))

    @property
    def total(self) -> float:
        return self.arrival + self.closing


def replay(data: DataSet, plan: Plan) -> Ran:
    """All windows over time of a data set, one slide after the other."""
    core = Core(plan)
    counted = set(data.ends.tolist())
    arrival, closing, seconds, memory, samples, read, results = 0.0, 0.0, [], [0], [0], [], {}
    for end, tuples in slides(data):
        begun = perf_counter()
        core.arrive(tuples)
        delivered = perf_counter()
        closed = core.close(end)
        done = perf_counter()
        arrival += delivered - begun
        closing += done - delivered
        if end in counted:
            seconds.append(core.answer_seconds)
            memory.append(core.memory)
            samples.append(core.metrics.sample_bytes)
            read.append(core.metrics.answer_bytes)
            results[end] = pa.Table.from_batches(closed)
    core.forget()
    return Ran(arrival, tuple(seconds), closing, max(memory), max(samples), fmean(read), results)


def slides(data: DataSet) -> Iterator[tuple[int, pa.Table]]:
    """The end of every slide, and the tuples that come before it is safe to say that none are missing."""
    begin = 0
    for end in range(BEGIN + data.slide, int(data.ends[-1]) + 1, data.slide):
        yield end, data.within(begin, end + data.lag)
        begin = end + data.lag


def replay_in_batches(data: DataSet, plan: Plan, rows: int) -> float:
    """The seconds that a query takes in all, of windows that close as tuples arrive (figure 9)."""
    core = Core(plan)
    begun = perf_counter()
    for begin in range(0, len(data.tuples), rows):
        core.arrive(data.tuples.slice(begin, rows))
    seconds = perf_counter() - begun
    core.forget()
    return seconds


def accelerated(result: pa.Table, budget: int) -> bool:
    """Whether a sample answered the window: of part of its tuples, or of all where they fit the budget."""
    quality = result["quality"].combine_chunks()
    sizes = np.asarray(quality.field("size"))
    return bool(np.any(np.asarray(quality.field("mode")) == "approximate") or sizes.sum() <= budget)


def rank_error(ordered: Array, answer: float, probability: float) -> float:
    """How far an answer's rank is from the one asked for; `ordered` are the window's values.

    Between two values the rank grows as the quantile does, and an answer that occurs several times has all ranks of
    these. So the error is e if the answer is one of the exact quantiles from `probability - e` to `probability + e`.
    """
    if len(ordered) < 2:
        return 0.0  # it is every quantile
    first, behind = (int(at) for at in (np.searchsorted(ordered, answer, side) for side in ("left", "right")))
    if first == behind:  # between two values, or beyond all of them
        below, above = ordered[max(first - 1, 0)], ordered[min(first, len(ordered) - 1)]
        place = first - 1 + (answer - below) / (above - below) if above > below else float(first)
        low = high = float(np.clip(place, 0, len(ordered) - 1))
    else:
        low, high = float(first), float(behind - 1)
    most = len(ordered) - 1
    return float(max(low / most - probability, probability - high / most, 0.0))


def relative_error(values: Array, answer: float) -> float:
    """How far an answer is from the mean of the values, by that."""
    exact = float(np.mean(values))
    return 0.0 if answer == exact else abs(answer - exact) / abs(exact) if exact else np.inf


def true_error(data: DataSet, end: int, result: pa.Table, aggregate: A.Aggregate) -> float:
    """Of a window that ends there: the mean over its groups, which is what the error of a query is about."""
    told = dict(zip(_codes(result), result[ANSWER].to_pylist(), strict=True))
    errors = []
    for key, values in _groups(data.within(end - data.size, end)):
        answer = told[key]
        errors.append(rank_error(values, answer, 0.5) if aggregate is MEDIAN else relative_error(values, answer))
    return float(np.mean(errors))


def _codes(table: pa.Table) -> list[Any]:
    return table["key"].to_pylist() if "key" in table.column_names else [None] * len(table)


def _groups(tuples: pa.Table) -> Iterator[tuple[Any, Array]]:
    """The values of each group, in order."""
    values = tuples["value"].to_numpy()
    if "key" not in tuples.column_names:
        yield None, np.sort(values)
        return
    keys = tuples["key"].combine_chunks().dictionary_encode()
    codes = keys.indices.to_numpy()
    order = np.lexsort((values, codes))
    starts = run_starts(codes[order])
    for begin, part in zip(starts, np.split(values[order], starts[1:]), strict=True):
        yield keys.dictionary[int(codes[order[begin]])].as_py(), part


def errors_of(data: DataSet, ran: Ran, aggregate: A.Aggregate, budget: int) -> tuple[Float64Array, Array]:
    """The true error of every window, and which of them were accelerated."""
    errors = [true_error(data, end, result, aggregate) for end, result in ran.results.items()]
    return np.array(errors), np.array([accelerated(result, budget) for result in ran.results.values()])


def scan_seconds(data: DataSet) -> list[float]:
    """What each window's grouped mean takes if its tuples are scanned, in one thread as ours is: from the chunks."""
    core, counted, seconds = Core(plan_of(data, MEDIAN)), set(data.ends.tolist()), []
    for end, tuples in slides(data):
        core.arrive(tuples)
        if end in counted:
            begun = perf_counter()
            core.scan(end - data.size, end)
            seconds.append(perf_counter() - begun)
        core.close(end)
    core.forget()
    return seconds


def raw_scan_seconds(data: DataSet) -> list[float]:
    """The same over tuples that lie ready in one table, which no engine has: the least that a scan can take."""
    seconds = []
    for end in data.ends.tolist():
        tuples = data.within(end - data.size, end)
        begun = perf_counter()
        tuples.group_by("key", use_threads=False).aggregate([("value", "mean")])
        seconds.append(perf_counter() - begun)
    return seconds


def has_count_min() -> bool:
    return find_spec("datasketches") is not None


def count_min_seconds(data: DataSet, windows: int, error: float = 0.1, confidence: float = 0.95) -> list[float]:
    """What a grouped mean takes by two CountMin sketches, of sums and of frequencies (SPEAr, section 5.2 and table 2).

    A sketch is off by a share of all that is in it. For the mean of any group to be within the error on every window,
    that share has to be small beside the smallest group: as in the paper, this is found out beforehand.
    """
    sketch = importlib.import_module("datasketches").count_min_sketch
    of_windows = [data.within(end - data.size, end) for end in data.ends[:windows].tolist()]
    hashes = sketch.suggest_num_hashes(confidence)
    buckets = [sketch.suggest_num_buckets(error * _least_share(of_windows, how)) for how in ("sum", "count")]
    seconds = []
    for tuples in of_windows:
        keys, values = tuples["key"].to_pylist(), tuples["value"].to_pylist()
        begun = perf_counter()
        sums, counts = (sketch(hashes, number) for number in buckets)
        for key, value in zip(keys, values, strict=True):
            sums.update(key, value)
            counts.update(key)
        for key in set(keys):
            sums.get_estimate(key) / counts.get_estimate(key)
        seconds.append(perf_counter() - begun)
    return seconds


def _least_share(windows: list[pa.Table], how: str) -> float:
    """Of any group, in any of the windows: of the sum over all groups, or of their tuples."""
    found = []
    for tuples in windows:
        groups = tuples.group_by("key").aggregate([("value", how)])[f"value_{how}"].to_numpy()
        found.append(groups[groups > 0].min() / groups.sum())
    return float(min(found))
