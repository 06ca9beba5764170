from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from muntin import aggregates as A
from muntin import windows as W
from muntin.engine.layout import ROW_COUNT
from muntin.engine.metrics import ENGINE_METRICS, names
from muntin.engine.plan import Plan
from muntin.features.workers.policy import Workers
from muntin.partials.partial import Count, IntegerSum
from tests.builders import TIME, TYPES, Stream, bind, make_plan, row, sliding

WINDOW = sliding(10, 5)


def test_aggregates_share_their_partials() -> None:
    plan = make_plan([WINDOW], names=["sum_n", "mean_n", "count"])
    (panes,) = plan.layout.leaf_sets
    assert panes.partials == (ROW_COUNT, IntegerSum(None, "n"), Count(None, "n"))
    total, mean, count = plan.outputs
    assert total.slots == mean.slots == ((0, slice(1, 3)), (0, slice(3, 4)))
    assert count.slots == ((0, slice(0, 1)),)


def test_a_filter_makes_another_partial() -> None:
    plan = make_plan([WINDOW], names=["sum_n", "sum_where"])
    assert len(plan.layout.leaf_sets[0].partials) == 5


def test_custom_aggregates_have_leaves_of_their_own() -> None:
    plan = make_plan([WINDOW], names=["composed", "count", "spread", "composed_where"])
    assert [leaf_set.per_tuple for leaf_set in plan.layout.leaf_sets] == [False, True, False, True]
    assert [output.slots[0][0] for output in plan.outputs] == [1, 0, 2, 3]


def test_result_schema() -> None:
    one = make_plan([WINDOW], ("k", "f"), ["sum_n"])
    bounds = pa.struct([("start", TIME), ("end", TIME)])
    expected = {"window": bounds, "window_id": pa.int64(), "k": pa.string(), "f": pa.float64(), "sum_n": pa.int64()}
    assert dict(zip(one.result_schema.names, one.result_schema.types, strict=True)) == expected
    several = make_plan([WINDOW, sliding(20, 5)], (), ["sum_n"], emit_late=True)
    assert several.result_schema.names == ["window", "window_id", "window_name", "sum_n", "late", "lateness"]


def fingerprint(aggregate: A.Aggregate) -> str:
    bound = {"out": bind(aggregate)}
    return Plan.make(time="t", windows=[WINDOW], types=TYPES, keys=(), aggregates=bound, shards=[0]).fingerprint


def test_fingerprint_changes_with_the_meaning_of_the_state() -> None:
    plans = [
        make_plan([WINDOW]),
        make_plan([sliding(10, 2)]),
        make_plan([sliding(10, 5, offset=1)]),
        make_plan([WINDOW, sliding(20, 5)]),
        make_plan([WINDOW], ()),
        make_plan([WINDOW], ("k", "f")),
        make_plan([WINDOW], names=["sum_n"]),
        make_plan([WINDOW], names=["sum_where"]),
        make_plan([WINDOW], names=["composed"]),
        make_plan([WINDOW], names=["spread"]),
        make_plan([WINDOW], types=TYPES | {"n": pa.int32()}),
    ]
    assert len({plan.fingerprint for plan in plans}) == len(plans)


def test_fingerprint_is_the_same_for_the_same_state() -> None:
    assert make_plan([WINDOW]).fingerprint == make_plan([WINDOW], shards=[3, 4], streaming=True).fingerprint
    assert make_plan([WINDOW], names=["sum_n"]).fingerprint == make_plan([WINDOW], names=["mean_n"]).fingerprint
    renamed = replace(WINDOW, name="another")
    assert make_plan([WINDOW]).fingerprint == make_plan([renamed]).fingerprint
    # Functions live at other addresses after a restart.
    customs = [A.custom(lambda n: n, lambda a, b: a + b, lambda state: state) for _ in range(2)]
    assert fingerprint(customs[0]) == fingerprint(customs[1])


def test_fingerprint_never_changes() -> None:
    # A literal: another value would lock every query out of its checkpoint.
    types = {"t": TIME, "k": pa.string(), "n": pa.int64(), "w": pa.string()}
    assert make_plan([WINDOW], ("k",), ["count", "max_w", "composed"], types=types).fingerprint == "9e187c71e81100c4"


def test_a_query_reports_what_can_be_anything_but_zero() -> None:
    plain = {metric.name for metric in make_plan([WINDOW], names=["sum_n"]).reported}
    medians = {metric.name for metric in make_plan([WINDOW], names=["median_x"]).reported}
    jobs = {
        metric.name
        for metric in make_plan([WINDOW], names=["median_x"], workers=Workers("agnostic", 2, tasks=3)).reported
    }
    assert {"rows", "results", "panes", "state_bytes"} <= plain
    assert medians - plain == {metric.name for metric in ENGINE_METRICS if metric.about == "tuples"}
    assert jobs - medians >= {"jobs", "job_bytes"}


@pytest.mark.parametrize("window", [WINDOW, W.count(2), W.session("10 microseconds")], ids=["time", "count", "session"])
def test_what_is_not_reported_is_zero(window: W.Window) -> None:
    plan = make_plan([window], names=["sum_n"], streaming=True, delay=0)
    stream = Stream(plan)
    for begin in range(0, 60, 10):
        stream.batch([row(begin + i, n=i) for i in range(10)], begin)
    (metrics,) = stream.metrics.values()
    reported = set(names(plan.reported))
    assert metrics["total_rows"] == 60
    assert {name: value for name, value in metrics.values.items() if name not in reported and value} == {}
