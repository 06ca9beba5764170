"""What the tests share: standard rows, plans without Spark, a state in memory, and a stream without an engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from muntin import aggregates as A
from muntin import windows as W
from muntin.arrays import Array, State
from muntin.engine import live, stages, store
from muntin.engine import map_stage as pane_stage
from muntin.engine.chunks import bundles, needed
from muntin.engine.chunks import store as chunk_store
from muntin.engine.emitted import Emitted
from muntin.engine.features import Option, Task
from muntin.engine.functions import AppliedFunction
from muntin.engine.map_stage import PackedPanes, PaneStage
from muntin.engine.metrics import Metrics
from muntin.engine.operators import leaf_index
from muntin.engine.operators import operator as operator_module
from muntin.engine.operators import time as time_operators
from muntin.engine.operators.operator import Output
from muntin.engine.plan import Plan
from muntin.engine.state import MemoryState
from muntin.engine.store import HotCache, PaneStore
from muntin.engine.zoned.store import ZonedStore
from muntin.features.compression.policy import Compression
from muntin.features.ranking.policy import Top
from muntin.features.sampling.policy import Approximation
from muntin.features.shedding.policy import Shedding
from muntin.features.workers.jobs import computed
from muntin.features.workers.policy import Workers
from muntin.holistic import frequent
from muntin.holistic.applied import Applied
from muntin.panes.table import PaneTable
from tests import naive
from tests.naive import Aggregation, Answers, Place, Row

NEVER_COMPRESSED = Compression(None)
TIME = pa.timestamp("us", tz="UTC")
TYPES: dict[str, pa.DataType] = {
    "t": TIME,
    "k": pa.string(),
    "f": pa.float64(),
    "s": pa.struct([("a", pa.float64()), ("b", pa.string())]),
    "x": pa.float64(),
    "n": pa.int64(),
    "w": pa.string(),
    "kept": pa.bool_(),
}


@dataclass(frozen=True)
class Case:
    """An aggregate and what it should be."""

    aggregate: A.Aggregate
    naive: Aggregation


def lift_affine(n: Array) -> tuple[Array, Array]:
    return n % 97 + 1, n % 89


def compose(left: State, right: State) -> State:
    return left[0] * right[0] % naive.PRIME, (left[1] * right[0] + right[1]) % naive.PRIME


def one_number(state: State) -> Array:
    return np.asarray(state[0] * naive.PRIME + state[1])


BUILT_IN: dict[str, Case] = {
    "count": Case(A.count(), naive.count()),
    "count_x": Case(A.count("x"), naive.count("x")),
    "sum_n": Case(A.sum("n"), naive.total("n")),
    "sum_x": Case(A.sum("x"), naive.total("x")),
    "mean_n": Case(A.mean("n"), naive.mean("n")),
    "mean_x": Case(A.mean("x"), naive.mean("x")),
    "var_pop": Case(A.var_pop("x"), naive.variance("x", sample=False)),
    "var_samp": Case(A.var_samp("n"), naive.variance("n", sample=True)),
    "stddev_pop": Case(A.stddev_pop("n"), naive.variance("n", sample=False, root=True)),
    "stddev_samp": Case(A.stddev_samp("x"), naive.variance("x", sample=True, root=True)),
    "min_x": Case(A.min("x"), naive.least("x")),
    "max_x": Case(A.max("x"), naive.greatest("x")),
    "min_w": Case(A.min("w"), naive.least("w")),
    "max_w": Case(A.max("w"), naive.greatest("w")),
    "min_kept": Case(A.min("kept"), naive.least("kept")),
    "first_x": Case(A.first("x"), naive.first("x")),
    "first_w": Case(A.first("w"), naive.first("w")),
    "last_n": Case(A.last("n"), naive.last("n")),
    "last_w": Case(A.last("w"), naive.last("w")),
    "argmin_w_by_x": Case(A.argmin("w", "x"), naive.arg("w", "x", largest=False)),
    "argmax_x_by_w": Case(A.argmax("x", "w"), naive.arg("x", "w", largest=True)),
    "argmin_time": Case(A.argmin("n"), naive.arg("t", "n", largest=False)),
    "argmax_time": Case(A.argmax("x"), naive.arg("t", "x", largest=True)),
    "min_count": Case(A.min_count("w"), naive.extreme_count("w", largest=False)),
    "max_count": Case(A.max_count("x"), naive.extreme_count("x", largest=True)),
    "count_where": Case(A.count(where="kept"), naive.where("kept", naive.count())),
    "sum_where": Case(A.sum("n", where="kept"), naive.where("kept", naive.total("n"))),
    "max_where": Case(A.max("w", where="kept"), naive.where("kept", naive.greatest("w"))),
}
CUSTOM: dict[str, Case] = {
    "composed": Case(A.custom(lift_affine, compose, one_number, returns="long"), naive.composed("n")),
    "composed_where": Case(
        A.custom(lift_affine, compose, one_number, returns="long", where="kept"),
        naive.where("kept", naive.composed("n")),
    ),
    "spread": Case(
        A.custom(
            lambda n: {"low": n, "high": n},
            lambda a, b: {"low": np.minimum(a["low"], b["low"]), "high": np.maximum(a["high"], b["high"])},
            lambda state: state["high"] - state["low"],
            returns="long",
            commutative=True,
        ),
        naive.spread("n"),
    ),
}
HOLISTIC: dict[str, Case] = {
    "median_x": Case(A.median("x"), naive.quantile("x", 0.5)),
    "quantiles_n": Case(A.quantile("n", [0.0, 0.1, 0.75, 1.0]), naive.quantiles("n", (0.0, 0.1, 0.75, 1.0))),
    "p90_where": Case(A.quantile("x", 0.9, where="kept"), naive.where("kept", naive.quantile("x", 0.9))),
    "mode_w": Case(A.mode("w"), naive.mode("w")),
    "mode_x": Case(A.mode("x"), naive.mode("x")),
    "distinct_n": Case(A.count_distinct("n"), naive.count_distinct("n")),
    "distinct_w": Case(A.count_distinct("w", where="kept"), naive.where("kept", naive.count_distinct("w"))),
    "distinct_x": Case(A.count_distinct("x"), naive.count_distinct("x")),
    "top_w": Case(A.top_k("w", 2), naive.top_k("w", 2)),
}
CASES = BUILT_IN | CUSTOM | HOLISTIC


def us(length: int) -> timedelta:
    return timedelta(microseconds=length)


def sliding(size: int, slide: int, offset: int = 0, name: str | None = None) -> W.TimeWindow:
    return W.sliding(us(size), us(slide), offset=us(offset), name=name)


def cumulative(steps: int, step: int, offset: int = 0, name: str | None = None) -> W.CumulativeWindow:
    return W.cumulative(us(steps * step), us(step), offset=us(offset), name=name)


def bind(aggregate: A.Aggregate, types: Mapping[str, pa.DataType] = TYPES) -> A.Bound:
    """In these tests a filter is the name of a boolean column."""
    return aggregate.bind(types, aggregate.where, TIME)


def make_plan(
    windows: Sequence[W.Window],
    keys: Sequence[str] = ("k",),
    names: Iterable[str] = ("count",),
    *,
    shards: Sequence[int] = (0,),
    emit_late: bool = False,
    streaming: bool = False,
    types: Mapping[str, pa.DataType] = TYPES,
    delay: int | None = None,
    applied: Applied | None = None,
    compression: Compression | None = None,
    approximation: Approximation | None = None,
    shedding: Shedding | None = None,
    top: Top | None = None,
    workers: Workers | None = None,
    options: Sequence[Option] = (),
) -> Plan:
    given = (compression, approximation, shedding, top, workers, *options)
    return Plan.make(
        time="t",
        windows=windows,
        types=types,
        keys=keys,
        aggregates={name: bind(CASES[name].aggregate, types) for name in names},
        shards=shards,
        late_row=pa.struct(list(types.items())) if emit_late else None,
        streaming=streaming,
        delay=delay,
        function=None if applied is None else AppliedFunction(applied),
        options=[option for option in given if option is not None],
    )


def aggregations(plan: Plan) -> dict[str, Aggregation]:
    return {output.name: CASES[output.name].naive for output in plan.outputs}


def row(t: int | None, k: str | None = "a", **others: Any) -> Row:
    return {"t": t, "k": k, "f": 0.0, "s": None, "x": 1.0, "n": 1, "w": "w", "kept": True, **others}


def to_batch(rows: Sequence[Row], types: Mapping[str, pa.DataType] = TYPES) -> pa.RecordBatch:
    return pa.record_batch([pa.array([row[name] for row in rows], kind) for name, kind in types.items()], list(types))


def lift(plan: Plan, rows: Sequence[Row]) -> PaneTable:
    return PaneStage(plan).lift(to_batch(rows, plan.types), np.array([row["t"] for row in rows], dtype=np.int64))


def plain(column: pa.Array) -> list[Any]:
    """As Python values, with times as integers."""
    values: list[Any] = (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
    return values


def read(plan: Plan, batches: Iterable[pa.RecordBatch]) -> tuple[list[tuple[Place, dict[str, Any]]], list[Row]]:
    """Results in their order, and the late rows among them."""
    results, late = [], []
    for batch in batches:
        assert batch.schema == plan.result_schema
        columns = {name: plain(batch.column(name)) for name in batch.schema.names if name not in ("window", "late")}
        start, end = (plain(part) for part in batch.column("window").flatten())
        rows = plain_rows(batch.column("late")) if plan.late_row is not None else [None] * batch.num_rows
        for i, whole in enumerate(rows):
            if whole is not None:
                late.append(whole)
                continue
            title = columns["window_name"][i] if len(plan.windows) > 1 else plan.windows[0].title
            key = tuple(naive.comparable(columns[name][i]) for name in plan.keys)
            place = (end[i], start[i], title, columns["window_id"][i], key)
            named = [output.name for output in plan.outputs] + ["partial"] * plan.schema.has_partial
            named += [] if plan.function is None else plan.function.schema.names
            named += ["quality"] * (plan.schema.is_estimated)
            named += [column.name for column in plan.schema.added]
            results.append((place, {name: columns[name][i] for name in named}))
    return results, late


def plain_rows(column: pa.StructArray) -> list[Row | None]:
    parts = {field.name: plain(part) for field, part in zip(column.type, column.flatten(), strict=True)}
    return [
        {name: values[i] for name, values in parts.items()} if valid else None
        for i, valid in enumerate(column.is_valid().to_pylist())
    ]


def check(found: Sequence[tuple[Place, dict[str, Any]]], expected: Answers) -> None:
    """The same windows, each once, with the same values."""
    assert dict(found).keys() == expected.keys()
    assert len(found) == len(expected)
    for place, values in found:
        for name, value in values.items():
            assert naive.same(value, expected[place][name]), (place, name, value, expected[place][name])


def check_window_order(found: Sequence[tuple[Place, dict[str, Any]]]) -> None:
    bounds = [place[:2] for place, _ in found]
    assert bounds == sorted(bounds)


def pack(plan: Plan, batches: Iterable[Sequence[Row]]) -> list[PackedPanes]:
    """One task of the pane stage."""
    return list(stages.pane_stage(plan).run(to_batch(rows, plan.types) for rows in batches))


def by_shard(plan: Plan, sent: Iterable[PackedPanes]) -> dict[int, list[PackedPanes]]:
    shares: dict[int, list[PackedPanes]] = {shard: [] for shard in plan.shards}
    for each in sent:
        shares[each.shard].append(each)
    return shares


def answer(plan: Plan, batches: Iterable[Sequence[Row]]) -> Iterator[list[tuple[Place, dict[str, Any]]]]:
    """A table through both stages: the results of every shard."""
    for shard, share in by_shard(plan, pack(plan, batches)).items():
        yield read(plan, answer_table(plan_of(plan, shard), share))[0]


def plan_of(plan: Plan, shard: int) -> Plan:
    """The plan that a shard follows: where it is an active worker, its own."""
    return plan.of_shard(shard)


def advance_table(plan: Plan, sent: Iterable[PackedPanes], metrics: Metrics | None = None) -> Iterator[Emitted]:
    """What one shard of a table emits."""
    sent = list(sent)
    emitted, counted = stages.table_run(plan, sent, sent[0].shard if sent else plan.shards[0], Task())
    yield from emitted
    if metrics is not None:
        for name, value in counted.values.items():
            metrics.values[name] = metrics.get(name) + value


def answer_table(plan: Plan, sent: Iterable[PackedPanes], metrics: Metrics | None = None) -> Iterator[pa.RecordBatch]:
    """The results of one shard of a table."""
    yield from computed(plan, advance_table(plan, sent, metrics))


Found: TypeAlias = tuple[list[list[tuple[Place, dict[str, Any]]]], list[Row]]
"""The results of every shard, and all late rows."""


@dataclass(frozen=True)
class Step:
    """One batch. Times are relative to the watermark before it, so that every batch has late and early rows."""

    rows: list[Row]
    advance: int
    tasks: int
    cold: bool
    """Whether the shards come to a worker that has never seen them."""
    replay: bool
    """Whether the batch fails after its work is done and before it commits, and runs again."""


@contextmanager
def living(lives: bool = True) -> Iterator[None]:
    """Trees live wherever they can, in rings without much room; or nowhere."""
    few, sparse = (0, 1 << 10) if lives else (1 << 40, 1)
    with patch.multiple(
        live, FEWEST_PANES=few, FEWEST_LEAVES=few, CHANGED=0, SPARSE=sparse, TOO_SPARSE=sparse, ROOM=1 << 20
    ):
        yield


@contextmanager
def tiny(fanout: int, useless: int, most: int) -> Iterator[None]:
    """Fold, rewrite and slice early, answer from pieces however many edges windows have, and look at every leaf.

    Trees live wherever they can, in small rings, unless `useless` is 0.
    """
    with (
        living(bool(useless)),
        patch.object(operator_module, "FEW_EDGES", 0),
        patch.multiple(leaf_index, FEW=most % 2, MANY=most),
        patch.multiple(store, FANOUT=fanout, USELESS_LEAVES=useless),
        patch.object(operator_module, "MOST_ANSWERS", most),
        patch.object(time_operators, "MOST_ANSWERS", most),
        patch.multiple(pane_stage, FLUSH_LEAVES=most, ROWS_TOGETHER=most),
        patch.multiple(chunk_store, FANOUT=fanout, LARGE=most),
        patch.object(bundles, "BUNDLE_BYTES", 700 * most),
        patch.object(needed, "USELESS_TUPLES", useless),
        patch.object(frequent, "MOST_COUNTS", most),
    ):
        yield


class Stream:
    """A streaming query without an engine: both stages, and for every shard its state."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.states = {shard: MemoryState() for shard in plan.shards}
        self.cache = HotCache(capacity=8)
        self.metrics: dict[int, Metrics] = {}
        self.clock = 0
        """The processing time of the next batch, in milliseconds."""

    def store(self, shard: int) -> PaneStore:
        store = self._store(shard)
        assert isinstance(store, PaneStore)
        return store

    def _store(self, shard: int) -> PaneStore | ZonedStore:
        return stages.stream_store(plan_of(self.plan, shard), "query", shard, self.states[shard], self.cache)

    def batch(self, rows: Sequence[Row], watermark: int, tasks: int = 1) -> Found:
        results, late = [], []
        for batches in self.told(rows, watermark, tasks):
            found, too_late = read(self.plan, batches)
            results.append(found)
            late += too_late
        return results, late

    def told(self, rows: Sequence[Row], watermark: int, tasks: int = 1) -> Iterator[list[pa.RecordBatch]]:
        """What every shard tells in a batch."""
        sent = [each for task in range(tasks) for each in pack(self.plan, [rows[task::tasks]])]
        for shard, share in by_shard(self.plan, sent).items():
            plan = plan_of(self.plan, shard)
            stage = stages.window_stage(plan, self._store(shard), shard, Task(clock=self.clock))
            batches = list(computed(self.plan, stage.run(share, watermark)))
            self.metrics[shard] = stage.metrics
            yield batches

    def run(self, step: Step, rows: Sequence[Row], watermark: int) -> Found:
        """A batch as the step says, of these rows."""
        if step.cold:
            self.cache = HotCache(capacity=8)
        if step.replay:
            before = self.snapshot()
            self.batch(rows, watermark, step.tasks)
            self.restore(before)  # the cache still has what was never committed
        return self.batch(rows, watermark, step.tasks)

    def snapshot(self) -> dict[int, MemoryState]:
        return {shard: state.copy() for shard, state in self.states.items()}

    def restore(self, snapshot: Mapping[int, MemoryState]) -> None:
        self.states = {shard: state.copy() for shard, state in snapshot.items()}

    def total(self, metric: str) -> int:
        return sum(each.get(metric) for each in self.metrics.values())


def decomposable(plan: Plan) -> list[Output]:
    return [output for output in plan.outputs if output.bound.holistic is None]


def pane_values(plan: Plan, table: PaneTable) -> dict[tuple[Any, int], dict[str, list[Any]]]:
    """What a table means: for every (key, pane) the answer of each of its leaves, in order, per aggregate."""
    meaning: dict[tuple[Any, int], dict[str, list[Any]]] = {}
    key_values = list(zip(*(table.keys.column(key).to_pylist() for key in plan.keys), strict=True))
    for output in decomposable(plan):
        leaves = table.leaves[output.slots[0][0]]
        states = [table.leaves[leaf_set].state[fields] for leaf_set, fields in output.slots]
        lowered = plain(output.bound.lower(states, table.dictionaries))
        starts = plan.grid.starts(leaves.time).tolist()
        for code, start, value in zip(leaves.key.tolist(), starts, lowered, strict=True):
            key = tuple(naive.comparable(part) for part in key_values[code]) if plan.keys else ()
            meaning.setdefault((key, start), {}).setdefault(output.name, []).append(value)
    return meaning


def naive_pane_values(plan: Plan, rows: Sequence[Row]) -> dict[tuple[Any, int], dict[str, list[Any]]]:
    panes: dict[tuple[Any, int], list[Row]] = {}
    for each in rows:
        start = (each["t"] - plan.grid.offset) // plan.grid.length * plan.grid.length + plan.grid.offset
        panes.setdefault((naive.key_of(each, plan.keys), start), []).append(each)
    meaning: dict[tuple[Any, int], dict[str, list[Any]]] = {}
    for place, held in panes.items():
        for output in decomposable(plan):
            of = CASES[output.name].naive
            if plan.layout.leaf_sets[output.slots[0][0]].per_tuple:
                tuples = sorted((each["t"], of([each])) for each in held if of([each]) is not None)
                values = [value for _, value in tuples]
            else:
                values = [of(held)]
                if output.name in CUSTOM and values == [None]:  # no tuple counts: no leaf
                    values = []
            if values:
                meaning.setdefault(place, {})[output.name] = values
    return meaning


def check_panes(found: Mapping[Any, Mapping[str, list[Any]]], expected: Mapping[Any, Mapping[str, list[Any]]]) -> None:
    assert found.keys() == expected.keys()
    for place, named in found.items():
        assert named.keys() == expected[place].keys()
        for name, values in named.items():
            others = expected[place][name]
            assert len(values) == len(others), (place, name)
            assert all(map(naive.same, values, others)), (place, name, values, others)


def check_table(plan: Plan, table: PaneTable) -> None:
    """What every pane table keeps to: leaves in order, codes of keys and ranks of values within bounds."""
    for leaf_set, leaves in zip(plan.layout.leaf_sets, table.leaves, strict=True):
        order = list(zip(leaves.key.tolist(), leaves.time.tolist(), strict=True))
        assert order == sorted(order)
        assert leaf_set.per_tuple or len(set(order)) == len(order)
        assert all(0 <= code < table.keys.num_rows for code, _ in order)
        assert len(leaves.state) == len(leaf_set.fields)
        for state, each in zip(leaves.state, leaf_set.fields, strict=True):
            assert len(state) == len(leaves)
            assert state.dtype == np.dtype(each.dtype)
            if each.dictionary is not None and len(state):
                ranks = ~state if each.inverted else state
                assert ranks.min() >= 0
                assert ranks.max() <= max(len(table.dictionaries[each.dictionary]) - 1, 0)
