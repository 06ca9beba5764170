"""What is said of a query that goes on with another one's checkpoint: every difference that matters, and no other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import pyarrow as pa
import pytest

from muntin import aggregates as A
from muntin import windows as W
from muntin.engine.changes import changes
from muntin.engine.description import decode, encode
from muntin.engine.functions import AppliedFunction
from muntin.engine.plan import Plan
from muntin.features.sampling.policy import Approximation
from muntin.features.shedding.policy import Shedding
from muntin.features.workers.policy import Workers
from muntin.holistic.applied import Applied
from muntin.joins.both_sides import BothSides
from muntin.joins.multiplied import multiplied
from muntin.joins.names import SIDE_FLAGS
from muntin.joins.names import TIME as PAIR_TIME
from muntin.joins.product import Origin, Product
from tests.builders import TIME
from tests.joins import union

TYPES = {"t": TIME, "u": TIME, "route": pa.string(), "driver": pa.int32(), "fare": pa.float64(), "n": pa.int64()}
TEN = W.tumbling("10 seconds")
HOUR = W.sliding("1 hour", "1 minute")


@dataclass(frozen=True)
class Made:
    """A query without an engine, which reads only what it needs, as one of the public interface does."""

    windows: tuple[W.Window, ...] = (TEN,)
    time: str = "t"
    keys: tuple[str, ...] = ("route",)
    aggregates: Mapping[str, A.Aggregate] = field(default_factory=lambda: {"trips": A.count(), "mean": A.mean("fare")})
    types: Mapping[str, pa.DataType] = field(default_factory=lambda: TYPES)
    applied: Applied | None = None
    approximation: Approximation | None = None
    shedding: Shedding | None = None
    batch: int | None = None

    def plan(self) -> Plan:
        bound = {}
        filters: dict[str, pa.DataType] = {}
        for name, each in self.aggregates.items():
            where = None if each.where is None else f"__muntin_where_{each.where}"
            filters |= {} if where is None else {where: pa.bool_()}
            bound[name] = replace(each.bind(self.types, where, self.types[self.time]), written=repr(each))
        read = [self.time, *self.keys, *(c for each in bound.values() for c in each.inputs if c not in filters)]
        read += [window.column for window in self.windows if isinstance(window, W.DeltaWindow)]
        read += [] if self.applied is None else self.applied.columns
        plan = Plan.make(
            time=self.time,
            windows=self.windows,
            types={name: self.types[name] for name in dict.fromkeys(read)} | filters,
            keys=self.keys,
            aggregates=bound,
            shards=[0],
            function=None if self.applied is None else AppliedFunction(self.applied),
            options=[
                option
                for option in (
                    self.approximation,
                    self.shedding,
                    None if self.batch is None else Workers("active", 1, batch=self.batch),
                )
                if option is not None
            ],
        )
        return plan if self.batch is None else plan.of_shard(0)


def told(old: Plan, new: Plan) -> list[str]:
    made_by = decode(encode(old.description))
    assert made_by is not None
    return changes(made_by, new.description)


def applied(*columns: str) -> Applied:
    return Applied(len, pa.schema([("n", pa.int64())]), columns, "arrow")


def approximate(seed: int = 0, **others: Any) -> Approximation:
    return Approximation.of(
        1000, 0.1, 0.95, **({"groups": None, "combine": "l1", "incremental": True} | others), seed=seed
    )


def shed(method: str = "concept") -> Shedding:
    return Shedding.of(0.9, None, method, 0, 0.95)


BASE = Made()
MEDIAN = Made(aggregates={"mid": A.median("fare")})
BOTH = Made(windows=(TEN, HOUR))

PAIRS: dict[str, tuple[Made, Made, list[str]]] = {
    "size": (BASE, replace(BASE, windows=(W.tumbling("20 seconds"),)), ["window size 10 seconds → 20 seconds"]),
    "slide": (
        Made(windows=(HOUR,)),
        Made(windows=(W.sliding("1 hour", "2 minutes"),)),
        ["window slide 1 minute → 2 minutes"],
    ),
    "size and slide": (
        Made(windows=(HOUR,)),
        Made(windows=(W.sliding("2 hours", "2 minutes"),)),
        ["window size 1 hour → 2 hours", "window slide 1 minute → 2 minutes"],
    ),
    "offset": (
        BASE,
        Made(windows=(W.tumbling("10 seconds", offset="3 seconds"),)),
        ["window new offset 3 seconds"],
    ),
    "another model": (
        BASE,
        Made(windows=(W.session("10 seconds"),)),
        ['window W.tumbling(size="10 seconds") → W.session(gap="10 seconds")'],
    ),
    "gap": (
        Made(windows=(W.session("5 minutes"),)),
        Made(windows=(W.session("1 hour"),)),
        ["window gap 5 minutes → 1 hour"],
    ),
    "tuples": (
        Made(windows=(W.count(100, 10, "1 minute"),)),
        Made(windows=(W.count(50, 10),)),
        ["window size 100 → 50", "window max_wait 1 minute removed"],
    ),
    "step": (
        Made(windows=(W.cumulative("1 day", "1 hour"),)),
        Made(windows=(W.cumulative("1 day", "2 hours"),)),
        ["window step 1 hour → 2 hours"],
    ),
    "every tuple": (
        Made(windows=(W.slide_by_tuple("1 hour", 3),)),
        Made(windows=(W.slide_by_tuple("1 hour", 4),)),
        ["window every 3 → 4"],
    ),
    "every time": (
        Made(windows=(W.slide_by_time(3, "1 hour"),)),
        Made(windows=(W.slide_by_time(3, "2 hours"),)),
        ["window every 1 hour → 2 hours"],
    ),
    "delta": (
        Made(windows=(W.delta("fare", 10, 1),)),
        Made(windows=(W.delta("n", 10, 2.5),)),
        ["window column fare → n", "window slide 1 → 2.5"],
    ),
    "window added": (BASE, BOTH, ['new window W.sliding(size="1 hour", slide="1 minute")']),
    "window removed": (BOTH, BASE, ['window W.sliding(size="1 hour", slide="1 minute") removed']),
    "windows reordered": (
        BOTH,
        Made(windows=(HOUR, TEN)),
        [
            'order of windows W.tumbling(size="10 seconds"), W.sliding(size="1 hour", slide="1 minute") → '
            'W.sliding(size="1 hour", slide="1 minute"), W.tumbling(size="10 seconds")'
        ],
    ),
    "one of two windows": (
        BOTH,
        Made(windows=(TEN, W.sliding("2 hours", "1 minute"))),
        ['window W.sliding(size="1 hour", slide="1 minute"): size 1 hour → 2 hours'],
    ),
    "key added": (BASE, Made(keys=("route", "driver")), ["new key 'driver'"]),
    "key removed": (BASE, Made(keys=()), ["key 'route' removed"]),
    "another key": (BASE, Made(keys=("driver",)), ["key 'route' removed", "new key 'driver'"]),
    "keys reordered": (
        Made(keys=("route", "driver")),
        Made(keys=("driver", "route")),
        ["order of keys route, driver → driver, route"],
    ),
    "type of a key": (
        BASE,
        Made(types={**TYPES, "route": pa.int64()}),
        ["key 'route' string → bigint"],
    ),
    "type of a column": (
        BASE,
        Made(types={**TYPES, "fare": pa.decimal128(10, 2)}),
        ["column 'fare' double → decimal(10,2)"],
    ),
    "type of the time": (
        BASE,
        Made(types={**TYPES, "t": pa.timestamp("us")}),
        ["time column 't' timestamp → timestamp_ntz"],
    ),
    "time column": (BASE, Made(time="u"), ["time column 't' → 'u'"]),
    "aggregate added": (
        BASE,
        Made(aggregates={**BASE.aggregates, "p95": A.quantile("fare", 0.95)}),
        ['new aggregate p95 = A.quantile("fare", 0.95)'],
    ),
    "aggregate removed": (
        BASE,
        Made(aggregates={"trips": A.count()}),
        ['aggregate mean removed (A.mean("fare"))'],
    ),
    "another column": (
        BASE,
        Made(aggregates={"trips": A.count(), "mean": A.mean("n")}),
        ['aggregate mean A.mean("fare") → A.mean("n")'],
    ),
    "another function": (
        BASE,
        Made(aggregates={"trips": A.count(), "mean": A.max("fare")}),
        ['aggregate mean A.mean("fare") → A.max("fare")'],
    ),
    "a filter": (
        BASE,
        Made(aggregates={"trips": A.count(where="n > 1"), "mean": A.mean("fare")}),
        ['aggregate trips A.count() → A.count(where="n > 1")'],
    ),
    "another filter": (
        Made(aggregates={"trips": A.count(where="n > 1")}),
        Made(aggregates={"trips": A.count(where="n > 2")}),
        ['aggregate trips A.count(where="n > 1") → A.count(where="n > 2")'],
    ),
    "a filter of a median": (
        MEDIAN,
        Made(aggregates={"mid": A.median("fare", where="n > 1")}),
        ['aggregate mid A.median("fare") → A.median("fare", where="n > 1")'],
    ),
    "a long filter": (
        Made(aggregates={"trips": A.count(where="n > 1" + " or n = 7" * 20 + " or n = 8")}),
        Made(aggregates={"trips": A.count(where="n > 1" + " or n = 7" * 20 + " or n = 9")}),
        ["aggregate trips keeps another state than before, or has another filter"],
    ),
    "the state of a custom aggregate": (
        Made(aggregates={"own": A.custom(lambda n: n, lambda a, b: a + b, lambda s: s)}),
        Made(aggregates={"own": A.custom(lambda n: n * 1.5, lambda a, b: a + b, lambda s: s)}),
        ["aggregate own keeps another state than before, or has another filter"],
    ),
    "the order of aggregates": (
        Made(aggregates={"a": A.sum("n"), "b": A.max("fare")}),
        Made(aggregates={"b": A.max("fare"), "a": A.sum("n")}),
        ["order of aggregates a, b → b, a"],
    ),
    "columns of a function": (
        Made(aggregates={}, applied=applied("fare", "n")),
        Made(aggregates={}, applied=applied("fare", "driver")),
        ["the function: column 'n' removed", "the function: new column 'driver'"],
    ),
    "a function instead": (
        MEDIAN,
        Made(aggregates={}, applied=applied("fare", "n")),
        ["what is computed: aggregates → a function of windows"],
    ),
    "approximation": (
        MEDIAN,
        replace(MEDIAN, approximation=approximate()),
        [".approximate(budget=1000, error=0.1) added"],
    ),
    "seed": (
        replace(MEDIAN, approximation=approximate()),
        replace(MEDIAN, approximation=approximate(seed=7)),
        ["seed of approximate() 0 → 7"],
    ),
    "what is sampled": (
        replace(BASE, approximation=approximate()),
        replace(BASE, approximation=approximate(incremental=False)),
        [".approximate(budget=1000, error=0.1) → .approximate(budget=1000, error=0.1, incremental=False)"],
    ),
    "shedding": (BASE, replace(BASE, shedding=shed()), [".shed(rate=0.9) added"]),
    "no shedding": (replace(BASE, shedding=shed()), BASE, [".shed(rate=0.9) removed"]),
    "method of shedding": (
        replace(BASE, shedding=shed()),
        replace(BASE, shedding=shed("uniform")),
        ["method of shed() 'concept' → 'uniform'"],
    ),
    "active workers": (BASE, replace(BASE, batch=2), ["worker model of parallel() not active → active"]),
    "batch of active workers": (replace(BASE, batch=2), replace(BASE, batch=4), ["batch of parallel() 2 → 4"]),
    "several at once": (
        BASE,
        Made(
            windows=(W.tumbling("20 seconds"),),
            keys=(),
            aggregates={**BASE.aggregates, "p95": A.quantile("fare", 0.95)},
        ),
        ["window size 10 seconds → 20 seconds", "key 'route' removed", 'new aggregate p95 = A.quantile("fare", 0.95)'],
    ),
    "only what matters": (  # the mean has another name, and the sum follows from what it keeps
        BASE,
        Made(
            windows=(W.tumbling("20 seconds", name="mine"),),
            aggregates={"n": A.count(), "average": A.mean("fare"), "total": A.sum("fare")},
        ),
        ["window size 10 seconds → 20 seconds"],
    ),
}


@pytest.mark.parametrize("name", list(PAIRS))
def test_what_differs_is_told(name: str) -> None:
    old, new, expected = PAIRS[name]
    assert old.plan().fingerprint != new.plan().fingerprint
    found = told(old.plan(), new.plan())
    assert found == expected
    assert told(new.plan(), old.plan())  # and so is the way back


def test_all_of_these_differ_and_all_differences_are_told() -> None:
    """Every pair of all these queries: what the fingerprint tells apart, the description does."""
    made = [each.plan() for old, new, _ in PAIRS.values() for each in (old, new)]
    for one, other in combinations(made, 2):
        assert bool(told(one, other)) == (one.fingerprint != other.fingerprint)


def test_nothing_is_told_of_what_means_the_same() -> None:
    assert MEDIAN.plan().fingerprint == Made(aggregates={}, applied=applied("fare")).plan().fingerprint
    assert told(MEDIAN.plan(), Made(aggregates={}, applied=applied("fare")).plan()) == []
    others = [
        Made(windows=(W.tumbling("10 seconds", name="mine"),)),
        Made(aggregates={"n": A.count(), "total": A.sum("fare")}),
    ]
    for other in others:
        assert other.plan().fingerprint == BASE.plan().fingerprint
        assert told(BASE.plan(), other.plan()) == []


def joined(window: W.Window = TEN, on: tuple[str, ...] = ("k",), column: str = "n") -> Plan:
    types = dict(union.TYPES)
    bound = multiplied(A.sum(column), types, SIDE_FLAGS["left"], SIDE_FLAGS["right"], TIME)
    named = {"total": replace(bound, written=repr(A.sum(column)))}
    return Plan.make(
        time=PAIR_TIME, windows=[window], types=types, keys=on, aggregates=named, shards=[0], options=[BothSides(())]
    )


def rows(*columns: str) -> Plan:
    types = {PAIR_TIME: TIME, SIDE_FLAGS["left"]: pa.bool_(), "k": pa.string(), **{c: union.TYPES[c] for c in columns}}
    product = Product.of({column: Origin(column, "left") for column in columns}, types)
    window = W.tumbling("10 seconds")
    return Plan.make(
        time=PAIR_TIME, windows=[window], types=types, keys=("k",), aggregates={}, shards=[0], function=product
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (joined(), joined(W.tumbling("20 seconds")), ["window size 10 seconds → 20 seconds"]),
        (joined(), joined(on=("k", "f")), ["new key 'f'"]),
        (joined(), joined(column="x"), ['aggregate total A.sum("n") → A.sum("x")']),
        (rows("x"), rows("x", "n"), ["joined rows: new column 'n'"]),
        (rows("x", "n"), rows("x"), ["joined rows: column 'n' removed"]),
        (joined(), BASE.plan(), ["a join → a query"]),
    ],
)
def test_what_differs_of_a_join_is_told(old: Plan, new: Plan, expected: list[str]) -> None:
    assert old.fingerprint != new.fingerprint
    assert told(old, new) == expected


def test_a_description_is_small_and_has_a_version() -> None:
    value = encode(Made(aggregates={f"n{i}": A.mean("fare") for i in range(10)}).plan().description)
    assert len(value) < 3000
    assert json.loads(value)["version"] == 1
    assert decode(value.replace(b'"version":1', b'"version":2')) is None
