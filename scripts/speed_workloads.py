"""The workloads of `compare_speed.py`, without Spark.

Reads names of workloads, one per line, and runs each. Prints a line of JSON for every run: the seconds of its steps, by
two clocks. Uses only what Muntin's revisions have in common, and only data that it makes itself.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Literal

import numpy as np
import pyarrow as pa

import muntin
from muntin import aggregates as A
from muntin import windows as W
from muntin.bench import data_sets
from muntin.bench.approximate_core import MEDIAN, within
from muntin.bench.core import Core, plan_of, slides
from muntin.bench.data_sets import BEGIN, SECOND, TIME, DataSet
from muntin.bench.shed_core import MEAN, shedding

PLAN = type(plan_of(data_sets.packets("even", 10), MEAN))
"""The class of plans, which is not in the same module in all revisions."""
DELAY = SECOND
PER_SECOND = 25_000
"""Rows per second of event time."""
LARGE, SMALL = 300_000, 50_000
"""Rows of a batch."""
SLIDE_KEYS, MODEL_KEYS = 1_000, 100
PACKETS, RIDES = 800_000, 500_000
SPEED = 0.5
"""How fast the column of the delta window grows, per second."""


@dataclass
class Ran:
    """One run of a workload."""

    cpu: dict[str, list[float]] = field(default_factory=dict)
    """Seconds of each step on the processor, by what the step does."""
    wall: dict[str, list[float]] = field(default_factory=dict)
    """Seconds of each step by the clock."""
    results: int = 0
    """Rows of results."""

    def timed(self, name: str | None, step: Callable[[], list[pa.RecordBatch]]) -> None:
        """Run a step. Without a name its time does not count."""
        wall, cpu = perf_counter(), process_time()
        batches = step()
        cpu, wall = process_time() - cpu, perf_counter() - wall
        self.results += sum(batch.num_rows for batch in batches)
        if name is not None:
            self.cpu.setdefault(name, []).append(cpu)
            self.wall.setdefault(name, []).append(wall)


@dataclass(frozen=True)
class Batch:
    """Tuples, and the watermark after them."""

    tuples: pa.Table
    watermark: int
    arriving: str | None = "batch"
    """What the figure of its arrival is called; None if it does not count."""
    closing: str | None = "closing"
    """The same for the windows that close with the watermark."""
    answer: str | None = None
    """The same for the part of it up to the answers, by the clock alone."""


@dataclass(frozen=True)
class Stream:
    """A query, and the batches that it gets."""

    plan: PLAN  # type: ignore[valid-type]
    batches: Sequence[Batch]

    def run(self) -> Ran:
        core, ran = Core(self.plan), Ran()
        for batch in self.batches:
            ran.timed(batch.arriving, partial(core.arrive, batch.tuples))
            ran.timed(batch.closing, partial(core.close, batch.watermark))
            if batch.answer is not None:
                for seconds in (ran.cpu, ran.wall):
                    seconds.setdefault(batch.answer, []).append(core.answer_seconds)
        core.forget()
        return ran


def uncounted(batch: Batch) -> Batch:
    return replace(batch, arriving=None, closing=None, answer=None)


def table(times: np.ndarray, rng: np.random.Generator, keys: int = 0) -> pa.Table:
    """Random values at some times, in seconds since the first."""
    columns = {"time": pa.array((BEGIN + times * SECOND).astype(np.int64)).cast(TIME)}
    if keys:
        columns["key"] = pa.array(rng.integers(0, keys, len(times)).astype(np.int32))
    return pa.table({**columns, "value": rng.random(len(times)), "grown": times * SPEED})


def query(tuples: pa.Table, window: W.Window, **aggregates: A.Aggregate) -> PLAN:  # type: ignore[valid-type]
    """The plan of a stream over the tuples of a table."""
    types = {column.name: column.type for column in tuples.schema}
    return PLAN.make(
        time="time",
        windows=[window],
        types=types,
        keys=[name for name in tuples.column_names if name == "key"],
        aggregates={name: aggregate.bind(types, None, TIME) for name, aggregate in aggregates.items()},
        shards=[0],
        streaming=True,
        delay=DELAY,
    )


def in_batches(begin: float, count: int, rows: int, keys: int, per_second: int = PER_SECOND) -> list[Batch]:
    """Batches that are out of order by up to half a second. The first two do not count. `begin` is in seconds."""
    rng, seconds, batches = np.random.default_rng(count), rows / per_second, list[Batch]()
    for number in range(1, count + 1):
        times = np.sort(rng.uniform(0, seconds, rows)) + rng.uniform(-0.5, 0.5, rows) + begin
        begin += seconds
        batch = Batch(table(np.maximum(times, 0.0), rng, keys), BEGIN + int(begin * SECOND) - DELAY)
        batches.append(batch if number > 2 else uncounted(batch))
    return batches


def named(batches: Iterable[Batch], suffix: str) -> list[Batch]:
    return [
        replace(
            batch,
            arriving=batch.arriving and f"{batch.arriving} {suffix}",
            closing=batch.closing and f"{batch.closing} {suffix}",
        )
        for batch in batches
    ]


def slide(size: int, large: int, small: int) -> Stream:
    """Sum and mean of 1,000 keys over `size` seconds, every second: large batches, then small ones.

    First come one row per key and second. They fill the windows, of which earlier ones have closed before, unseen.
    """
    rng = np.random.default_rng(size)
    seconds = np.repeat(np.arange(size), SLIDE_KEYS) + 0.5
    past = table(seconds, rng).add_column(1, "key", pa.array(np.tile(np.arange(SLIDE_KEYS, dtype=np.int32), size)))
    first = [uncounted(Batch(tuples, BEGIN + size * SECOND - DELAY)) for tuples in (past.slice(0, 0), past)]
    later = in_batches(size, large + 2, LARGE, SLIDE_KEYS)
    until = size + (large + 2) * LARGE / PER_SECOND
    plan = query(past, W.sliding(f"{size} seconds", "1 second"), total=A.sum("value"), mean=A.mean("value"))
    after = in_batches(until, small + 2, SMALL, SLIDE_KEYS)
    return Stream(plan, [*first, *named(later, f"of {LARGE:,} rows"), *named(after, f"of {SMALL:,} rows")])


def model(window: W.Window, numbered: bool = False) -> Stream:
    """Sum and mean of 100 keys, by any window. Windows over numbered tuples close when these arrive."""
    batches = in_batches(0, 10, SMALL, MODEL_KEYS)
    plan = query(batches[0].tuples, window, total=A.sum("value"), mean=A.mean("value"))
    return Stream(plan, [replace(batch, closing=None) for batch in batches] if numbered else batches)


def tiny() -> Stream:
    """The sum of one key, in batches of ten rows: what a batch costs besides its rows."""
    batches = in_batches(0, 150, 10, 0, per_second=10)
    return Stream(query(batches[0].tuples, W.sliding("10 seconds", "1 second"), total=A.sum("value")), batches)


def of_data(data: DataSet, plan: PLAN) -> Stream:  # type: ignore[valid-type]
    """A query over a data set of the benchmarks, slide by slide."""
    batches = [Batch(tuples, end, answer="answer") for end, tuples in slides(data)]
    first = data.size // data.slide
    return Stream(plan, [*map(uncounted, batches[:first]), *batches[first:]])


def median_of_packets(count: int, budget: int | None) -> Stream:
    """A median over windows of 47,000 tuples without keys."""
    data = data_sets.packets("even", count)
    return of_data(data, plan_of(data, MEDIAN, None if budget is None else within(budget)))


def shed(method: Literal["concept", "uniform"], rate: float) -> Stream:
    """The means of thousands of groups, of windows of 100,000 tuples before shedding."""
    data = data_sets.zipf(RIDES)
    return of_data(data, plan_of(data, MEAN, shedding=shedding(rate, method)))


TUPLES = 6 * PER_SECOND // MODEL_KEYS
"""Tuples of a key in the windows of the models, which all have 6 seconds by 100 milliseconds, except for sessions."""
EVERY = TUPLES // 60
GAP = 5 * SECOND * MODEL_KEYS // PER_SECOND
"""Microseconds: five mean intervals between the tuples of a key."""
WORKLOADS: Mapping[str, Callable[[], Stream]] = {
    "slide 60": partial(slide, 60, large=5, small=10),
    "slide 3600": partial(slide, 3600, large=2, small=5),
    "count": partial(model, W.count(TUPLES, EVERY), numbered=True),
    "session": partial(model, W.session(f"{GAP} microseconds")),
    "slide by tuple": partial(model, W.slide_by_tuple("6 seconds", EVERY), numbered=True),
    "slide by time": partial(model, W.slide_by_time(TUPLES, "100 milliseconds")),
    "delta": partial(model, W.delta("grown", 6 * SPEED, 0.1 * SPEED)),
    "approximate median": partial(median_of_packets, PACKETS, 150),
    "exact median": partial(median_of_packets, PACKETS // 4, None),
    "shed concept 0.9": partial(shed, "concept", 0.9),
    "shed concept 0.98": partial(shed, "concept", 0.98),
    "shed uniform 0.9": partial(shed, "uniform", 0.9),
    "shed uniform 0.98": partial(shed, "uniform", 0.98),
    "tiny batches": tiny,
}


def serve(names: Iterable[str]) -> None:
    """Run the workload of every name. Its data is made anew whenever the name changes."""
    print(json.dumps({"muntin": muntin.__file__, "workloads": list(WORKLOADS)}), flush=True)
    made, stream = "", None
    for line in names:
        name = line.strip()
        if stream is None or name != made:
            made, stream = name, WORKLOADS[name]()
        gc.collect()
        gc.disable()
        ran = stream.run()
        gc.enable()
        print(json.dumps({"cpu": ran.cpu, "wall": ran.wall, "results": ran.results}), flush=True)


if __name__ == "__main__":
    data_sets.FOLDER = Path("/nonexistent")  # so that every data set is generated
    serve(sys.stdin)
