"""The queries that are killed: every option and every window model, with late rows emitted where possible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

import muntin
from muntin import aggregates as A
from muntin import windows as W
from muntin.arrays import Array

Victim = Literal["driver", "jvm", "worker", "workers", "daemon", "executor"]
LOCAL: tuple[Victim, ...] = ("worker", "driver", "workers", "daemon", "jvm")
ON_CLUSTER: tuple[Victim, ...] = ("worker", "executor", "driver", "daemon")
WITH_COPIES: tuple[Victim, ...] = ("workers", "daemon", "worker", "driver")
"""A restarted driver does not read the copies of the one before."""
DELAY = "5 seconds"
SHARDS = 2
RUNS = ("disturbed", "undisturbed")
"""Each run has its own folder, with a checkpoint and a sink."""


@dataclass(frozen=True)
class Scenario:
    """A query, its input, and the results that must be the same after kills."""

    build: Callable[[DataFrame, DataFrame], DataFrame]
    """Builds the query from two streams. Most queries read only the first."""
    rows: int = 300
    """Rows per file."""
    files: int = 10
    only: tuple[str, ...] = ()
    """The compared result columns, if others depend on the clock. A dot selects a field of a struct."""
    rounded: bool = False
    """Whether results are estimates. A replay may change their last bits, as documented."""
    uncertain: tuple[str, ...] = ()
    """Counters that depend on the clock, or on the caches of the workers."""
    must_count: tuple[str, ...] = ("rows", "results", "late_rows", "invalid_rows")
    """Counters that must not be 0, or the scenario would show nothing."""
    cluster: bool = False
    copies: bool = False
    """Whether values are large enough for copies on the host. Copies must appear, and are damaged after each kill."""

    @property
    def victims(self) -> tuple[Victim, ...]:
        return ON_CLUSTER if self.cluster else WITH_COPIES if self.copies else LOCAL


def over(stream: DataFrame, *windows: W.Window) -> muntin.Query:
    return muntin.over(stream, *windows, time="ts", watermark=DELAY, by="k")


def counted(stream: DataFrame, *windows: W.Window) -> muntin.Query:
    """Decomposable aggregates, whose state is partial results."""
    return over(stream, *windows).agg(
        rows=A.count(),
        total=A.sum("v"),
        least=A.min("v"),
        first=A.first("n"),
        last=A.last("n"),
        some=A.sum("n", where="v > 0"),
    )


def holistic(stream: DataFrame, *windows: W.Window) -> muntin.Query:
    """Holistic aggregates, whose state is tuples."""
    return over(stream, *windows).agg(
        rows=A.count(), middle=A.median("v"), distinct=A.count_distinct("n"), values=A.collect("n")
    )


SLIDING = W.sliding("30 seconds", "5 seconds")


def rich(stream: DataFrame, _: DataFrame) -> DataFrame:
    query = holistic(stream, SLIDING, W.count(20, 5, name="last-20"))
    return query.compress(after="10 seconds").late("emit").to_df()


def several(stream: DataFrame, _: DataFrame) -> DataFrame:
    windows = (
        W.tumbling("20 seconds", name="tumbling"),
        W.sliding("20 seconds", "4 seconds", name="sliding"),
        W.cumulative("1 minute", "10 seconds", name="cumulative"),
        W.session("2 seconds", name="session"),
        W.count(30, 10, name="count"),
        W.slide_by_tuple("10 seconds", 20, name="by-tuple"),
        W.slide_by_time(10, "5 seconds", name="by-time"),
        W.delta("x", 20_000, 5_000, name="delta"),
    )
    return counted(stream, *windows).late("emit").to_df()


def approximate(stream: DataFrame, _: DataFrame) -> DataFrame:
    query = over(stream, SLIDING).agg(rows=A.count(), middle=A.median("v"), p90=A.quantile("v", 0.9))
    return query.approximate(budget=700, error=0.1).late("emit").to_df()


def shed(method: Literal["concept", "uniform"]) -> Callable[[DataFrame, DataFrame], DataFrame]:
    def build(stream: DataFrame, _: DataFrame) -> DataFrame:
        query = over(stream, SLIDING).agg(rows=A.count(), total=A.sum("v"), mean=A.mean("n"), middle=A.median("n"))
        return query.shed(rate=0.6, method=method).late("emit").to_df()

    return build


def shed_by_latency(stream: DataFrame, _: DataFrame) -> DataFrame:
    query = over(stream, SLIDING).agg(rows=A.count(), mean=A.mean("n"))
    return query.shed(target_latency="50 milliseconds").to_df()


def parallel(
    model: Literal["keyed", "active", "agnostic"], ordered: bool = False
) -> Callable[[DataFrame, DataFrame], DataFrame]:
    def build(stream: DataFrame, _: DataFrame) -> DataFrame:
        return holistic(stream, SLIDING).parallel(model=model, workers=2, ordered=ordered).late("emit").to_df()

    return build


def top(stream: DataFrame, _: DataFrame) -> DataFrame:
    return counted(stream, SLIDING).top(3, by="total").late("emit").to_df()


def top_of_shed(stream: DataFrame, _: DataFrame) -> DataFrame:
    query = over(stream, SLIDING).agg(rows=A.count(), mean=A.mean("n"))
    return query.shed(rate=0.5).top(3, by="mean").to_df()


def all_at_once(stream: DataFrame, _: DataFrame) -> DataFrame:
    query = over(stream, SLIDING, W.tumbling("20 seconds")).agg(rows=A.count(), middle=A.median("n"))
    return query.shed(rate=0.3).compress(after="5 seconds").top(4, by="middle").late("emit").to_df()


def lift_path(v: Array) -> dict[str, Array]:
    return {"first": v, "last": v, "length": np.zeros(len(v))}


def combine_paths(left: dict[str, Array], right: dict[str, Array]) -> dict[str, Array]:
    """The path length of a value, up and down, which depends on the order."""
    step = np.abs(right["first"] - left["last"])
    return {"first": left["first"], "last": right["last"], "length": left["length"] + step + right["length"]}


def path_length(state: dict[str, Array]) -> Array:
    return state["length"]


def custom(stream: DataFrame, _: DataFrame) -> DataFrame:
    path = A.custom(lift_path, combine_paths, path_length, columns="v")
    return over(stream, SLIDING, W.session("2 seconds")).agg(rows=A.count(), path=path).late("emit").to_df()


def summary(tuples: pa.Table) -> pa.Table:
    """A result that depends on every row, and on their order."""
    values = np.asarray(tuples.column("n"))
    return pa.table({"size": [len(values)], "weighed": [int((values * np.arange(1, len(values) + 1)).sum())]})


def applied(stream: DataFrame, _: DataFrame) -> DataFrame:
    query = over(stream, SLIDING, W.slide_by_tuple("10 seconds", 10)).apply(summary, "size long, weighed long")
    return query.compress(after="5 seconds").late("emit").to_df()


def joined(stream: DataFrame, other: DataFrame) -> muntin.Join:
    window = W.sliding("6 seconds", "3 seconds")
    return muntin.join(stream, other, window, on="k", time="ts", watermark=(DELAY, "8 seconds"))


def join_rows(stream: DataFrame, other: DataFrame) -> DataFrame:
    return joined(stream, other).rows(["left_v", "right_n"]).late("emit").to_df()


def join_products(stream: DataFrame, other: DataFrame) -> DataFrame:
    return joined(stream, other).agg(pairs=A.count(), total=A.sum("left_v")).late("emit").to_df()


def join_pairs(stream: DataFrame, other: DataFrame) -> DataFrame:
    return joined(stream, other).agg(pairs=A.count(), more=A.count(where="left_n > right_n")).to_df()


def copied(stream: DataFrame, _: DataFrame) -> DataFrame:
    return holistic(stream, W.sliding("40 seconds", "10 seconds")).compress(after="20 seconds").late("emit").to_df()


def over_one(query: Callable[..., muntin.Query], *windows: W.Window) -> Callable[[DataFrame, DataFrame], DataFrame]:
    return lambda stream, _: query(stream, *windows).late("emit").to_df()


SCENARIOS: dict[str, Scenario] = {
    "rich": Scenario(rich),
    "tumbling": Scenario(over_one(counted, W.tumbling("10 seconds"))),
    "sliding": Scenario(over_one(counted, SLIDING)),
    "cumulative": Scenario(over_one(counted, W.cumulative("1 minute", "10 seconds"))),
    "session": Scenario(over_one(holistic, W.session("2 seconds"))),
    "count": Scenario(over_one(holistic, W.count(25, 10, max_wait="5 seconds"))),
    "slide-by-tuple": Scenario(over_one(counted, W.slide_by_tuple("20 seconds", 10))),
    "slide-by-time": Scenario(over_one(holistic, W.slide_by_time(40, "5 seconds"))),
    "delta": Scenario(over_one(counted, W.delta("x", 20_000, 3_000))),
    "several": Scenario(several),
    "approximate": Scenario(
        approximate, rows=1500, rounded=True, must_count=("rows", "results", "approximate_windows")
    ),
    "shed-concept": Scenario(shed("concept"), rows=600, rounded=True, must_count=("rows", "results", "shed_rows")),
    "shed-uniform": Scenario(shed("uniform"), rows=600, rounded=True, must_count=("rows", "results", "shed_rows")),
    "shed-latency": Scenario(
        shed_by_latency,
        rows=600,
        only=("window", "k", "rows", "quality.size"),
        uncertain=("shed_rows", "exact_windows", "approximate_windows"),
        must_count=("rows", "results", "late_rows", "shed_rows"),
    ),
    "compress-memory": Scenario(
        lambda stream, _: holistic(stream, SLIDING).compress(memory="64 KB").late("emit").to_df(),
        rows=900,
        must_count=("rows", "results", "late_rows", "compressions"),
    ),
    "parallel-keyed": Scenario(parallel("keyed")),
    "parallel-active": Scenario(parallel("active")),
    "parallel-agnostic": Scenario(parallel("agnostic", ordered=True)),
    "top": Scenario(top),
    "top-of-shed": Scenario(top_of_shed, rows=600, rounded=True, must_count=("rows", "results", "shed_rows")),
    "all-at-once": Scenario(all_at_once, rows=600, rounded=True, must_count=("rows", "results", "shed_rows")),
    "custom": Scenario(custom),
    "apply": Scenario(applied),
    "join-rows": Scenario(join_rows),
    "join-products": Scenario(join_products),
    "join-pairs": Scenario(join_pairs),
    "copies": Scenario(copied, rows=30_000, copies=True),
    "cluster-sliding": Scenario(over_one(counted, SLIDING), cluster=True),
    "cluster-copies": Scenario(copied, rows=30_000, copies=True, cluster=True),
    "cluster-agnostic": Scenario(parallel("agnostic"), cluster=True),
}
