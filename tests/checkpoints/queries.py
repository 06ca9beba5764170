"""Queries whose state was written by version 0.1.0, and must be read by every later one.

`states/NAME.json.gz` has the state of each shard after the first batches, and what the same version answered in the
batches behind them. Never make them anew with later code: that is what they are for.
"""

from __future__ import annotations

import base64
import gzip
import json
import math
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from muntin import windows as W
from muntin.engine.plan import Plan
from muntin.engine.state import MemoryState
from muntin.features.compression.policy import Compression
from muntin.features.ranking.policy import Top
from muntin.features.sampling.policy import Approximation
from muntin.features.shedding.policy import Shedding
from muntin.features.workers.policy import Workers
from muntin.holistic.applied import Applied
from tests import builders, strategies
from tests.builders import Stream, cumulative, make_plan, row, sliding, us
from tests.naive import Row

STATES = Path(__file__).parent / "states"
TYPES = builders.TYPES | strategies.GROWING
BATCHES, WRITTEN = 9, 5
"""How many batches there are, and after how many of them the state was written."""
TUPLE_WINDOWS: list[W.Window] = [
    W.session(us(6), name="session"),
    W.count(6, 2, us(40), name="count"),
    W.slide_by_tuple(us(15), 4, name="by tuple"),
    W.slide_by_time(5, us(10), name="by time"),
    W.delta("d", 12, 4, name="delta"),
]
TIME_WINDOWS: list[W.Window] = [sliding(30, 10, 3, name="sliding"), cumulative(4, 10, name="cumulative")]
BUILT_IN = ["count", "sum_n", "mean_x", "var_pop", "max_w", "min_x", "first_w", "argmax_x_by_w", "max_count"]
HOLISTIC = ["median_x", "quantiles_n", "mode_w", "distinct_n", "top_w"]


def rows_and_spread(table: pa.Table) -> pa.Table:
    return pa.table({"rows": [table.num_rows], "total": [sum(x for x in table.column("x").to_pylist() if x)]})


FUNCTION = Applied(rows_and_spread, pa.schema([("rows", pa.int64()), ("total", pa.float64())]), ("x", "w"), "arrow")
APPROXIMATION = Approximation.of(6, 0.4, 0.8, None, "l1", True, 3)
COMPRESSION = Compression.of(us(15), "zstd", None, None, given_after=True)


def plan(windows: list[W.Window], names: list[str], keys: tuple[str, ...] = ("k",), **knobs: Any) -> Plan:
    knobs = {"delay": 20, "shards": (7, 3), **knobs}
    return make_plan(windows, keys, names, streaming=True, types=TYPES, **knobs)


QUERIES: Mapping[str, Callable[[], Plan]] = {
    "time": lambda: plan(TIME_WINDOWS, BUILT_IN, emit_late=True),
    "keys": lambda: plan(TIME_WINDOWS, ["count", "sum_x", "composed", "spread"], ("s", "f")),
    "no keys": lambda: plan(TIME_WINDOWS, ["count", "mean_n", "composed_where"], (), shards=(0,)),
    "tuples": lambda: plan(TUPLE_WINDOWS, ["count", "sum_n", "stddev_samp", "last_w", "sum_where"]),
    "all models": lambda: plan([*TIME_WINDOWS, *TUPLE_WINDOWS], ["count", "max_x", "spread"]),
    "holistic": lambda: plan([*TIME_WINDOWS, *TUPLE_WINDOWS], HOLISTIC),
    "compressed": lambda: plan(TIME_WINDOWS, ["median_x", "count"], compression=COMPRESSION),
    "function": lambda: plan(TIME_WINDOWS, [], applied=FUNCTION),
    "approximate": lambda: plan(TIME_WINDOWS, ["median_x", "mean_x", "count"], approximation=APPROXIMATION),
    "shed": lambda: plan(TIME_WINDOWS, ["count", "mean_x", "sum_n", "max_x"], shedding=Shedding(0.6, None)),
    "top": lambda: plan(TIME_WINDOWS, ["count", "mean_x"], top=Top(2, "mean_x", True)),
    "active": lambda: plan(TIME_WINDOWS, ["count", "sum_n"], workers=Workers("active", 2, 2)),
    "agnostic": lambda: plan(TIME_WINDOWS, ["median_x"], workers=Workers("agnostic", 2, tasks=3)),
}


def batches(seed: int = 20261118) -> list[tuple[list[Row], int]]:
    """The rows of each batch, out of order, some late and some invalid, and its watermark."""
    draw = random.Random(seed)
    made = []
    for number in range(BATCHES):
        rows = []
        for _ in range(40):
            t = number * 25 + draw.randint(-30, 25)
            one = row(
                None if draw.random() < 0.03 else t,
                draw.choice(["a", "b", "c", "d", None]),
                f=draw.choice([0.0, 1.5, None, math.nan]),
                s=draw.choice([None, {"a": 1.0, "b": "x"}, {"a": None, "b": "y"}]),
                x=draw.choice([None, draw.randint(-80, 80) / 8]),
                n=draw.choice([None, draw.randint(-100, 100)]),
                w=draw.choice([None, "", "a", "zz", "日本"]),
                kept=draw.choice([True, False, None]),
            )
            rows.append(strategies.grown(one, draw.choice([0, 0, 0, 1, -2]), 0.0))
        made.append((rows, max(0, number * 25 - 20)))
    return [*made, ([], 10_000)]


def answers(stream: Stream, rows: list[Row], watermark: int) -> list[str]:
    """What a batch emits, as text: results and late rows, in any order."""
    found, late = stream.batch(rows, watermark, tasks=2)
    return sorted([text(each) for share in found for each in share] + [text(("late", each)) for each in late])


def same(found: Any, expected: Any) -> bool:
    """Whether two answers are equal; the last bits of floats are not promised."""
    if isinstance(expected, float) and isinstance(found, float):
        return math.isclose(found, expected, rel_tol=1e-8, abs_tol=1e-8)
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(same(found[name], expected[name]) for name in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    return bool(found == expected)


def text(value: Any) -> str:
    """As JSON, with floats in nine digits."""
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return repr(value) if not math.isfinite(value) else float(f"{value:.9g}") + 0.0
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def load(name: str) -> tuple[dict[int, MemoryState], list[list[str]]]:
    """The states of the shards, and the answers of the batches that follow."""
    content = json.loads(gzip.decompress((STATES / f"{name.replace(' ', '-')}.json.gz").read_bytes()))
    states = {
        int(shard): MemoryState(
            base64.b64decode(state["header"]),
            {named: base64.b64decode(value) for named, value in state["values"].items()},
        )
        for shard, state in content["states"].items()
    }
    return states, content["answers"]
