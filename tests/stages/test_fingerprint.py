"""The fingerprints of varied queries, as literals: another value would lock a query out of its checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from muntin import aggregates as A
from muntin import windows as W
from muntin.engine.plan import Plan
from muntin.features.sampling.policy import Approximation
from muntin.features.shedding.policy import Shedding
from muntin.features.workers.policy import Workers
from muntin.holistic.applied import Applied
from muntin.joins.multiplied import multiplied
from muntin.joins.names import SIDE_FLAGS
from muntin.joins.names import TIME as PAIR_TIME
from tests.builders import BUILT_IN, TIME, TYPES, bind, make_plan
from tests.joins import union

ODD = W.sliding("1 hour 7 minutes 3 microseconds", "90 seconds", offset="1 ms")
DECIMALS = {**TYPES, "price": pa.decimal128(20, 4), "small": pa.decimal128(9, 2), "day": pa.date32()}


def of(windows: list[W.Window], keys: tuple[str, ...] = ("k",), **aggregates: A.Aggregate) -> Plan:
    bound = {name: bind(each, DECIMALS) for name, each in aggregates.items()}
    return Plan.make(time="t", windows=windows, types=DECIMALS, keys=keys, aggregates=bound, shards=[0])


def approximate(**others: Any) -> Approximation:
    given = {"groups": None, "combine": "l1", "incremental": True, "seed": 7} | others
    return Approximation.of(1000, 0.1, 0.95, **given)


def shed(method: str) -> Shedding:
    return Shedding.of(0.9, None, method, 3, 0.95)


def joined() -> Plan:
    types = dict(union.TYPES)
    both = {"total": multiplied(A.sum("n"), types, SIDE_FLAGS["left"], SIDE_FLAGS["right"], TIME)}
    window = W.tumbling("10 minutes")
    return Plan.make(time=PAIR_TIME, windows=[window], types=types, keys=("k",), aggregates=both, shards=[0])


QUERIES: dict[str, tuple[Callable[[], Plan], str]] = {
    "tumbling": (lambda: of([W.tumbling("15 minutes")], n=A.count()), "e24c65c955caebb0"),
    "sliding, odd": (lambda: of([ODD], n=A.count(), m=A.mean("x")), "9aceeb6bd90ca66a"),
    "cumulative": (lambda: of([W.cumulative("1 day", "1 hour", offset="30 minutes")], n=A.count()), "2c67ae2762cdf1fe"),
    "session": (lambda: of([W.session("7 minutes 1 second")], n=A.count(), last=A.last("w")), "3415a1cb4c2ebd72"),
    "count": (lambda: of([W.count(100, 20, "1 minute")], n=A.count()), "f062bac0ed54e914"),
    "count that forgets": (lambda: of([W.count(100, 20, forget_after="1 hour")], n=A.count()), "655fd9e2fd8857e8"),
    "slide by tuple": (lambda: of([W.slide_by_tuple("2 hours", 3)], n=A.count()), "b3b78ee30cb3a1d0"),
    "slide by time": (lambda: of([W.slide_by_time(50, "1 minute")], n=A.count()), "fef92ba6c31376f7"),
    "delta": (lambda: of([W.delta("x", 100, 2.5)], n=A.count()), "8497b8b5a52f6a5c"),
    "several windows, several keys": (
        lambda: of([W.tumbling("5 seconds", name="five"), ODD, W.session("1 hour")], ("k", "n"), n=A.count("w")),
        "e958bd5b2232e6fa",
    ),
    "no key": (lambda: of([ODD], (), n=A.count()), "1d1de2ca6661491c"),
    "every built-in aggregate": (lambda: make_plan([ODD], names=BUILT_IN), "036d72a6ab9ba4ae"),
    "every built-in aggregate of a session": (
        lambda: make_plan([W.session("1 hour")], names=BUILT_IN),
        "2533875894a62a18",
    ),
    "decimals and dates": (
        lambda: of([ODD], a=A.sum("price"), b=A.mean("small"), c=A.max("price"), d=A.min("day")),
        "da43b63bb86f85b1",
    ),
    "custom": (lambda: make_plan([ODD], names=["composed", "spread", "composed_where"]), "4df0e46481e9e5d6"),
    "custom of a session": (lambda: make_plan([W.session("1 hour")], names=["composed", "spread"]), "216116c4e9cbf7a0"),
    "holistic": (lambda: make_plan([ODD], names=["median_x", "distinct_w", "top_w", "count"]), "8eb9ad9a07792fb4"),
    "applied": (
        lambda: make_plan([ODD], names=[], applied=Applied(len, pa.schema([("n", pa.int64())]), ("x", "w"), "arrow")),
        "908db646b52406d6",
    ),
    "approximate": (
        lambda: make_plan([ODD], names=["median_x", "distinct_n", "mean_x"], approximation=approximate()),
        "2d44be7b42667171",
    ),
    "approximate, not incremental": (
        lambda: make_plan([ODD], names=["mean_x"], approximation=approximate(incremental=False)),
        "c49fdccf09c32113",
    ),
    "shed by concept": (
        lambda: make_plan([ODD], names=["count", "sum_n", "var_pop"], shedding=shed("concept")),
        "55a3cf3b68618bd0",
    ),
    "shed by chance": (
        lambda: make_plan([ODD], names=["count", "sum_where"], shedding=shed("uniform")),
        "d238703c2d1735a8",
    ),
    "shed and approximate": (
        lambda: make_plan([ODD], names=["median_x"], approximation=approximate(), shedding=shed("concept")),
        "2ae1b86917c3bc3f",
    ),
    "an active worker": (
        lambda: make_plan([ODD], shards=[0, 1, 2], workers=Workers("active", 3, batch=2)).of_shard(1),
        "913ee985438534d7",
    ),
    "a join that multiplies": (joined, "fcc2c1b325c54eac"),
    "a join of pairs": (lambda: union.pair_plan(ODD, ("k", "f"), shards=[0]), "888582441b78a0c5"),
}


@pytest.mark.parametrize("name", list(QUERIES))
def test_a_fingerprint_never_changes(name: str) -> None:
    make, expected = QUERIES[name]
    assert make().fingerprint == expected
