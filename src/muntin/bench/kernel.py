"""The pane stage alone, on one core: tuples per second by keys, slides, order, batches and aggregates (SPRINGALD).

Each figure is beside plain NumPy on the same arrays: the pane and the key of each tuple as one number, and `bincount`
of the values by it. That makes no table of keys and panes, sends nothing, and knows that keys are small integers. `run`
is everything that a task does with its tuples, from Arrow to packed bytes; `lift` is what it does with each batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.progress import track

from muntin import aggregates as A
from muntin import windows as W
from muntin.arrays import Array, Int64Array
from muntin.bench.kernel_experiments import experiments
from muntin.bench.kernel_plot import draw
from muntin.bench.report import Record, show, write
from muntin.engine.map_stage import PaneStage
from muntin.engine.plan import Plan
from muntin.spark.memory import keep_freed_memory

EPOCH = 1_700_000_000_000_000
"""The time of the first tuple, in microseconds. The next ones follow every microsecond."""
OUT_OF_ORDER = 500_000
"""Tuples that are not in order are early or late by up to this many microseconds."""
SIZE = timedelta(seconds=1)
TIME = pa.timestamp("us", tz="UTC")
AGGREGATES: Mapping[str, Mapping[str, A.Aggregate]] = {
    "count": {"a": A.count()},
    "sum": {"a": A.sum("x")},
    "sum of integers": {"a": A.sum("n")},
    "mean": {"a": A.mean("x")},
    "variance": {"a": A.var_pop("x")},
    "min and max": {"a": A.min("x"), "b": A.max("x")},
    "all of these": {
        "a": A.count(),
        "b": A.sum("x"),
        "c": A.sum("n"),
        "d": A.mean("x"),
        "e": A.var_pop("x"),
        "f": A.min("x"),
        "g": A.max("x"),
    },
}
KeyType: TypeAlias = Literal["int", "bigint", "string"]
KEY_TYPES: Mapping[KeyType, pa.DataType] = {"int": pa.int32(), "bigint": pa.int64(), "string": pa.string()}


@dataclass(frozen=True)
class Case:
    """Tuples, and a query over them."""

    rows: int
    keys: int = 1
    key_type: KeyType = "int"
    slide: int = 10_000
    """In microseconds."""
    ordered: bool = True
    batch: int | None = None
    """Tuples per batch, if they come in several."""
    aggregate: str = "sum"
    lift: bool = False

    @property
    def name(self) -> str:
        keys = "no keys" if self.keys == 1 else f"{self.keys:,} keys ({self.key_type})"
        parts = ["lift" if self.lift else "run", keys, self.aggregate, f"slide {_shown(self.slide)}"]
        parts += [] if self.ordered else ["out of order"]
        parts += [] if self.batch is None else [f"batches of {self.batch:,}"]
        return ", ".join(parts)


def _shown(slide: int) -> str:
    return f"{slide / 1e6:g} s" if slide >= 1_000_000 else f"{slide / 1e3:g} ms"


def cases(rows: int) -> list[Case]:
    """Each of the settings in turn, with the others as they are by default."""
    plain = Case(rows)
    keyed = replace(plain, keys=1_000)
    found = [replace(plain, lift=lift, ordered=ordered) for lift in (True, False) for ordered in (True, False)]
    found += [
        replace(plain, keys=keys, key_type=kind, lift=lift)
        for lift in (True, False)
        for keys in (500, 1_000, 100_000, 1_000_000)
        for kind in KEY_TYPES
    ]
    found += [replace(case, slide=slide) for case in (plain, keyed) for slide in (100, 1_000, 100_000, 1_000_000)]
    found += [replace(keyed, keys=keys, ordered=False) for keys in (1_000, 100_000)]
    found += [replace(keyed, batch=size) for size in (10_000, 100_000)]
    found += [replace(case, aggregate=name) for case in (plain, keyed) for name in AGGREGATES if name != "sum"]
    return found


TARGETS = {Case(0, lift=True): 150e6, Case(0, lift=True, keys=100_000): 40e6}
"""Tuples per second, on one core."""


@dataclass(frozen=True)
class Data:
    """The tuples of a case."""

    case: Case
    times: Int64Array
    keys: Int64Array
    values: Array

    @classmethod
    def of(cls, case: Case) -> Data:
        rng = np.random.default_rng(0)
        times = EPOCH + np.arange(case.rows)
        if not case.ordered:
            times += rng.integers(-OUT_OF_ORDER, OUT_OF_ORDER, case.rows)
        return cls(case, times, rng.integers(0, case.keys, case.rows), rng.random(case.rows))

    @cached_property
    def batch(self) -> pa.RecordBatch:
        columns = {
            "t": pa.array(self.times).view(TIME),
            "x": pa.array(self.values),
            "n": pa.array((self.values * 1_000).astype(np.int64)),
        }
        if self.case.keys > 1:
            columns["k"] = pa.array(self.keys).cast(KEY_TYPES[self.case.key_type])
        return pa.record_batch(columns)

    @cached_property
    def plan(self) -> Plan:
        types = dict(zip(self.batch.schema.names, self.batch.schema.types, strict=True))
        return Plan.make(
            time="t",
            windows=[W.sliding(SIZE, timedelta(microseconds=self.case.slide))],
            types=types,
            keys=["k"] if self.case.keys > 1 else [],
            aggregates={
                name: aggregate.bind(types, None, TIME) for name, aggregate in AGGREGATES[self.case.aggregate].items()
            },
            shards=[0],
        )

    def muntin(self) -> None:
        if self.case.lift:
            read = self.batch.select(list(self.plan.types))
            PaneStage(self.plan).lift(read, np.asarray(read.column("t").cast(pa.int64())))
            return
        read = self.batch.select(list(self.plan.types))
        size = self.case.batch or self.case.rows
        for _ in PaneStage(self.plan).run(read.slice(begin, size) for begin in range(0, self.case.rows, size)):
            pass

    def numpy(self) -> None:
        panes = (self.times - int(self.times.min())) // self.case.slide
        count = int(panes.max()) + 1
        np.bincount(panes if self.case.keys == 1 else self.keys * count + panes, weights=self.values)


def measured(data: Data, rounds: int) -> tuple[float, float]:
    """Tuples per second of Muntin and of NumPy: the median of several rounds, in which they take turns."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for number in range(rounds + 1):
        for is_ours, work in ((True, data.muntin), (False, data.numpy)):
            begun = perf_counter()
            work()
            if number:  # the first round warms up
                seconds[is_ours].append(perf_counter() - begun)
    return data.case.rows / median(seconds[True]), data.case.rows / median(seconds[False])


def run(out: Path, quick: bool = False) -> int:
    """Measure, show and write; 0 if every target is met."""
    keep_freed_memory()
    console = Console()
    rows, rounds = (100_000, 1) if quick else (1_000_000, 5)
    records, rates = [], {}
    for case in track(cases(rows), "measuring", console=console, transient=True):
        ours, plain = measured(Data.of(case), rounds)
        rates[case] = ours, plain
        records.append(Record(case.name, ours, plain, ours / plain, None, baseline_name="NumPy"))
    for target, rate in TARGETS.items():
        case = replace(target, rows=rows)
        ours, _ = rates[case]
        goal = None if quick else 1.0
        records.append(Record(f"{case.name}: target", ours, rate, ours / rate, goal, baseline_name="target"))
    show(records, "The pane stage on one core, tuples per second", console)
    write(records, out / "kernel.json")
    draw(curves(rates), out / "kernel.png")
    console.print(f"\n{out / 'kernel.json'} and {out / 'kernel.png'}")
    missed = any(record.meets is False for record in records)
    return max(int(missed), experiments(out, quick))


def curves(rates: Mapping[Case, tuple[float, float]]) -> dict[str, dict[int, float]]:
    """Tuples per second by the number of keys, for each type of keys."""
    found: dict[str, dict[int, float]] = {}
    for case, (ours, plain) in rates.items():
        if case != Case(case.rows, case.keys, case.key_type, lift=case.lift):
            continue  # another setting than keys
        found.setdefault(f"{'lift' if case.lift else 'run'}, {case.key_type}", {})[case.keys] = ours
        if case.key_type == "int" and case.lift:
            found.setdefault("plain NumPy", {})[case.keys] = plain
    return found
