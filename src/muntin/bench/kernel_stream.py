"""Streams of tuples as SPRINGALD's evaluation has them, through both stages of the engine, without Spark.

A trigger is what a micro-batch of a stream is: the pane stage reads its tuples, the watermark advances to what their
delay allows, and the window stage answers the windows that close and writes its state to memory. Sources are processes
with a pane stage each; the window stage is in the process that measures, beside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from multiprocessing import get_context
from time import perf_counter, process_time
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa

from muntin import aggregates as A
from muntin import windows as W
from muntin.arrays import Float64Array, Int64Array
from muntin.bench.core import Core
from muntin.engine.map_stage import PackedPanes, PaneStage
from muntin.engine.plan import Plan
from muntin.engine.shard import EVERYTHING
from muntin.spark.memory import keep_freed_memory

EPOCH = 1_700_000_000_000_000
"""When the first trigger begins."""
PER_MICROSECOND = 100
"""Tuples per microsecond of event time: a stream of 100 million tuples per second in real time."""
ZIPF = 0.9
TIME = pa.timestamp("us", tz="UTC")
AGGREGATES: Mapping[str, Mapping[str, A.Aggregate]] = {
    "count": {"a": A.count()},
    "sum": {"a": A.sum("x")},
    "max": {"a": A.max("x")},
    "min": {"a": A.min("x")},
    "avg": {"a": A.mean("x")},
    "max_count": {"a": A.max_count("x")},
    "min_count": {"a": A.min_count("x")},
    "sstd": {"a": A.stddev_samp("x")},
    "pstd": {"a": A.stddev_pop("x")},
}
"""The aggregation functions of the paper, by its names."""
Skew: TypeAlias = Literal["uniform", "Zipf"]
Sent: TypeAlias = tuple[list[PackedPanes], float]
"""What a source sends for a trigger, and the seconds of processor time that it took."""


@dataclass(frozen=True)
class Stream:
    """Tuples, and a query over them. Times are in microseconds."""

    trigger: int = 4_000_000
    """Tuples per trigger."""
    triggers: int = 3
    """How many are measured, behind one that fills the windows and one that warms up."""
    size: int = 1_000_000
    slide: int = 10_000
    keys: int = 1
    skew: Skew = "uniform"
    delta_k: int | None = None
    """The most keys that a batch may have; None for batches in the order of arrival."""
    delay: int = 0
    """The mean delay of tuples, which is uniform from nothing to twice as much."""
    batch: int = 131_072
    """Tuples per Arrow batch: 4 MiB of the paper's tuples of 32 bytes."""
    aggregate: str = "sum"
    in_tuples: bool = False
    """Whether `size` and `slide` are numbers of tuples."""
    per_microsecond: float = PER_MICROSECOND

    @property
    def microseconds(self) -> int:
        """The event time of a trigger."""
        return max(int(self.trigger / self.per_microsecond), 1)

    def end(self, number: int) -> int:
        return EPOCH + (number + 1) * self.microseconds

    def watermark(self, number: int) -> int:
        """The watermark behind a trigger: no tuple comes later than twice the mean delay."""
        return self.end(number) - 2 * self.delay

    @property
    def plan(self) -> Plan:
        types = {"t": TIME, "x": pa.float64()} | ({"k": pa.int32()} if self.keys > 1 else {})
        return Plan.make(
            time="t",
            windows=[self._window],
            types=types,
            keys=["k"] if self.keys > 1 else [],
            aggregates={name: made.bind(types, None, TIME) for name, made in AGGREGATES[self.aggregate].items()},
            shards=[0],
            streaming=True,
            delay=2 * self.delay if self.in_tuples else None,
        )

    @property
    def _window(self) -> W.Window:
        if self.in_tuples:
            return W.count(self.size, self.slide)
        return W.sliding(timedelta(microseconds=self.size), timedelta(microseconds=self.slide))

    def arrays(self, number: int, share: int = 0, shares: int = 1) -> tuple[Int64Array, Int64Array, Float64Array]:
        """Times, keys and values of a trigger, or of a share of it."""
        rng = np.random.default_rng([number, share])
        count = self.trigger // shares
        times = self.end(number - 1) + np.arange(count) * self.microseconds // count
        if self.delay:
            times -= rng.integers(0, 2 * self.delay + 1, count)
        return times, self._keys(rng, count), rng.random(count)

    def _keys(self, rng: np.random.Generator, count: int) -> Int64Array:
        if self.skew == "uniform":
            return rng.integers(0, self.keys, count)
        weights = np.cumsum(1.0 / np.arange(1, self.keys + 1) ** ZIPF)
        return np.asarray(np.searchsorted(weights, rng.random(count) * weights[-1]))

    def batches(self, number: int, share: int = 0, shares: int = 1) -> list[pa.RecordBatch]:
        """The Arrow batches of a trigger, or of a share of it."""
        times, keys, values = self.arrays(number, share, shares)
        if self.delta_k is None:
            whole = self._table(times, keys, values)
            return [whole.slice(begin, self.batch) for begin in range(0, len(times), self.batch)]
        group = keys // self.delta_k
        order = np.argsort(group, kind="stable")
        whole = self._table(times[order], keys[order], values[order])
        bounds = np.searchsorted(group[order], np.arange(self.keys // self.delta_k + 2)).tolist()
        return [
            whole.slice(begin, min(self.batch, end - begin))
            for first, end in pairwise(bounds)
            for begin in range(first, end, self.batch)
        ]

    def past(self) -> list[pa.RecordBatch]:
        """A tuple of every key in every pane that windows may need before the first trigger."""
        panes = 1 if self.in_tuples else (self.size + 2 * self.delay) // self.slide
        times = np.repeat(EPOCH - (np.arange(panes, 0, -1)) * self.slide, self.keys)
        return [self._table(times, np.tile(np.arange(self.keys), panes), np.ones(len(times)))]

    def _table(self, times: Int64Array, keys: Int64Array, values: Float64Array) -> pa.RecordBatch:
        columns = {"t": pa.array(times).view(TIME), "x": pa.array(values)}
        if self.keys > 1:
            columns["k"] = pa.array(keys.astype(np.int32))
        return pa.record_batch(columns)


def at_once(stream: Stream) -> tuple[float, list[pa.RecordBatch]]:
    """Seconds of both stages for the first trigger as a table, and the answers: all of its windows."""
    plan, batches = stream.plan, stream.batches(0)
    with core_of(plan) as core:
        begun = perf_counter()
        answers = core.trigger(PaneStage(plan).run(batches), EVERYTHING)
        return perf_counter() - begun, answers


@dataclass(frozen=True)
class Ran:
    """What a stream did in its triggers."""

    seconds: tuple[float, ...]
    """Of each trigger, both stages."""
    tuples: int
    """In a trigger."""
    panes: int
    """Panes of keys that are kept behind the last trigger."""
    results: int
    """Windows of keys that the triggers closed."""
    processor: float
    """Seconds of processor time per trigger, of all processes: on a shared machine it differs less from run to run."""

    @property
    def rate(self) -> float:
        return self.tuples / float(np.median(self.seconds))


def one_core(stream: Stream) -> Ran:
    """Both stages in this process, one after the other."""
    plan = stream.plan
    with core_of(plan) as core:
        _fill(core, stream)
        seconds, results, processor = [], 0, 0.0
        for number in range(stream.triggers + 1):
            batches = stream.batches(number)
            begun, used = perf_counter(), process_time()
            answered = core.trigger(PaneStage(plan).run(batches), stream.watermark(number))
            if number:
                seconds.append(perf_counter() - begun)
                processor += process_time() - used
                results += sum(batch.num_rows for batch in answered)
        return Ran(tuple(seconds), stream.trigger, core.metrics["panes"], results, processor / stream.triggers)


@contextmanager
def core_of(plan: Plan) -> Iterator[Core]:
    """A query without an engine, which leaves nothing behind."""
    core = Core(plan)
    try:
        yield core
    finally:
        core.forget()


def _fill(core: Core, stream: Stream) -> None:
    core.trigger(PaneStage(stream.plan).run(stream.past()), stream.watermark(-1))


class Sources:
    """Processes that read the tuples of streams: each is a pane stage over its share."""

    def __init__(self, count: int) -> None:
        self.count = count
        context = get_context("forkserver")
        self._pools = [ProcessPoolExecutor(1, context, keep_freed_memory) for _ in range(count)]

    def __enter__(self) -> Sources:
        return self

    def __exit__(self, *_: object) -> None:
        for pool in self._pools:
            pool.shutdown(cancel_futures=True)

    def run(self, stream: Stream) -> Ran:
        """All triggers without a pause: the sources are a trigger ahead of the window stage, at most two."""
        plan = stream.plan
        share = replace(stream, trigger=stream.trigger // self.count * self.count)
        for ready in [pool.submit(_make, share, place, self.count) for place, pool in enumerate(self._pools)]:
            ready.result()
        with core_of(plan) as core:
            _fill(core, stream)
            self._trigger(core, share, 0, self._sent(0))
            results, sent, processor = 0, self._sent(1), 0.0
            begun, used = perf_counter(), process_time()
            for number in range(1, stream.triggers + 1):
                ahead = self._sent(number + 1) if number < stream.triggers else []
                results += self._trigger(core, share, number, sent)
                processor += sum(share_of_trigger.result()[1] for share_of_trigger in sent)
                sent = ahead
            each = (perf_counter() - begun) / stream.triggers
            processor += process_time() - used
            return Ran((each,), share.trigger, core.metrics["panes"], results, processor / stream.triggers)

    def _sent(self, number: int) -> list[Future[Sent]]:
        return [pool.submit(_panes, number) for pool in self._pools]

    def _trigger(self, core: Core, stream: Stream, number: int, sent: list[Future[Sent]]) -> int:
        arrived: Iterator[PackedPanes] = (panes for share in sent for panes in share.result()[0])
        return sum(batch.num_rows for batch in core.trigger(arrived, stream.watermark(number)))


_made: dict[int, list[pa.RecordBatch]] = {}
"""The batches of the triggers, in a source."""
_plans: list[Plan] = []


def _make(stream: Stream, share: int, shares: int) -> None:
    """Make all tuples of a source, before anything is measured."""
    _made.clear()
    _plans[:] = [stream.plan]
    for number in range(stream.triggers + 1):
        _made[number] = stream.batches(number, share, shares)


def _panes(number: int) -> Sent:
    begun = process_time()
    return list(PaneStage(_plans[0]).run(_made[number])), process_time() - begun
