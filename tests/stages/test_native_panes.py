"""Panes from ordinary aggregates, here computed naively, are those of the pane stage."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin import aggregates as A
from muntin import windows as W
from muntin.engine.batch import Arrived
from muntin.engine.emitted import Results
from muntin.engine.map_stage import PackedPanes, PaneStage
from muntin.engine.metrics import Metrics
from muntin.engine.native_order import Digit
from muntin.engine.native_panes import NativePanes
from muntin.engine.native_partials import NativeAggregate
from muntin.engine.plan import Plan
from muntin.engine.shard import EVERYTHING, Shard
from muntin.engine.store import TableStore
from muntin.errors import MuntinError

TYPES = {
    "t": pa.timestamp("us"),
    "k": pa.float64(),
    "x": pa.float64(),
    "n": pa.int64(),
    "i": pa.int16(),
    "d": pa.decimal128(18, 2),
    "s": pa.decimal128(7, 2),
    "b": pa.int8(),
    "day": pa.date32(),
    "kept": pa.bool_(),
}
AGGREGATES: dict[str, tuple[A.Aggregate, str | None]] = {
    "rows": (A.count(), None),
    "some": (A.count("x"), "kept"),
    "n": (A.sum("n"), None),
    "i": (A.sum("i"), "kept"),
    "d": (A.sum("d"), None),
    "mean_d": (A.mean("d"), None),
    "low_d": (A.min("d"), "kept"),
    "high_d": (A.max("d"), None),
    "low": (A.min("x"), None),
    "high": (A.max("x"), None),
    "low_n": (A.min("n"), None),
    "high_t": (A.max("t"), None),
    "mean": (A.mean("x"), None),
    "var": (A.var_pop("x"), None),
    "first_i": (A.first("i"), None),
    "last_i": (A.last("i"), "kept"),
    "first_s": (A.first("s"), "kept"),
    "last_s": (A.last("s"), None),
    "first_day": (A.first("day"), None),
    "last_day": (A.last("day"), None),
    "last_flag": (A.last("kept"), None),
    "when_low": (A.argmin("i"), None),
    "when_high": (A.argmax("day"), "kept"),
    "arg": (A.argmin("s", "b"), None),
    "arg_high": (A.argmax("i", "b"), "kept"),
    "arg_flag": (A.argmax("kept", "s"), None),
}
SUMS: dict[str, tuple[A.Aggregate, str | None]] = {
    "total": (A.sum("x"), None),
    "some_n": (A.sum("n"), "kept"),
    "i": (A.sum("i"), None),
    "some_s": (A.sum("s"), "kept"),
}
"""Whose counts are only read for whether there are values."""
FLOATS = st.sampled_from([math.nan, -0.0, 0.0, 1.5, -2.25, 1e9, None])
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "t": st.one_of(
                st.none(), st.integers(-9_000_000, 9_000_000), st.sampled_from([-1, 0, 299_999, 300_000, 999_999])
            ),
            "k": FLOATS,
            "x": FLOATS,
            "n": st.sampled_from([-(1 << 62), 1 << 61, -1, 0, 1, None]),
            "i": st.sampled_from([-(1 << 15), (1 << 15) - 1, None]),
            "d": st.sampled_from(
                [Decimal("-9999999999999999.99"), Decimal("0.01"), Decimal("9999999999999999.99"), None]
            ),
            "s": st.sampled_from([Decimal("-99999.99"), Decimal("99999.99"), Decimal("0.05"), None]),
            "b": st.sampled_from([-128, 127, 0, None]),
            "day": st.sampled_from([date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31), None]),
            "kept": st.sampled_from([True, False, None]),
        }
    ),
    min_size=1,
    max_size=30,
)
WINDOWS = [W.sliding("3 seconds", "1 second"), W.sliding("2 seconds", "5 seconds", offset="300 milliseconds")]


def plan_of(window: W.TimeWindow, aggregates: Mapping[str, tuple[A.Aggregate, str | None]]) -> Plan:
    bound = {name: given.bind(TYPES, where, TYPES["t"]) for name, (given, where) in aggregates.items()}
    return Plan.make(time="t", windows=[window], types=TYPES, keys=["k"], shards=[0], aggregates=bound)


def columns_of(rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    return pa.record_batch(
        [pa.array([row[name] for row in rows], pa.int64() if name == "t" else kind) for name, kind in TYPES.items()],
        names=list(TYPES),
    ).cast(pa.schema(TYPES.items()))


def canonical(number: float | None) -> Any:
    return "NaN" if number is not None and math.isnan(number) else number if number is None else number + 0.0


def order(value: Any) -> tuple[bool, Any]:
    is_nan = isinstance(value, float) and math.isnan(value)
    return is_nan, 0 if is_nan else value


def mean(found: list[Any]) -> float | None:
    return math.fsum(found) / len(found) if found else None


def variance(found: list[Any]) -> float | None:
    middle = mean(found)
    return None if middle is None else mean([(value - middle) ** 2 for value in found])


def total(found: list[Any]) -> Any:
    return sum(found) if found else None


NAIVE: dict[str, Callable[[list[Any]], Any]] = {
    "count": len,
    "sum": total,
    "high sum": lambda found: total([value >> 32 for value in found]),
    "low sum": lambda found: total([value & 0xFFFFFFFF for value in found]),
    "mean": mean,
    "variance": variance,
    "min": lambda found: min(found, key=order, default=None),
    "max": lambda found: max(found, key=order, default=None),
}


def packed(digits: Sequence[Digit], row: dict[str, Any], start: int) -> int | None:
    total = -(1 << (sum(digit.bits for digit in digits) - 1))
    for index, digit in enumerate(digits):
        value = row["t"] - start if digit.column is None else row[digit.column]
        if digit.nullness:
            number = int(value is None)
        elif value is None and not digit.optional:
            return None
        elif value is None:
            number = 0
        else:
            value = (value - date(1970, 1, 1)).days if isinstance(value, date) else value
            number = int(value * 10**digit.scale) + digit.shift
            number = digit.mask - number if digit.inverted else number
        assert 0 <= number <= digit.mask
        total += number << sum(later.bits for later in digits[index + 1 :])
    return total


def computed(aggregate: NativeAggregate, rows: Sequence[dict[str, Any]], start: int | None) -> Any:
    kept = [row for row in rows if aggregate.where is None or row[aggregate.where]]
    if aggregate.function == "least":
        if start is None:
            return None
        return min((least for row in kept if (least := packed(aggregate.digits, row, start)) is not None), default=None)
    found = [1 if aggregate.column is None else row[aggregate.column] for row in kept]
    return NAIVE[aggregate.function]([value for value in found if value is not None])


def kind_of(aggregate: NativeAggregate) -> pa.DataType:
    if aggregate.function in ("mean", "variance"):
        return pa.float64()
    if aggregate.function in ("min", "max"):
        return TYPES[str(aggregate.column)]
    if aggregate.function == "sum" and aggregate.column in ("d", "s"):
        return pa.decimal128(28, 2)
    return pa.float64() if aggregate.function == "sum" and aggregate.column == "x" else pa.int64()


def grouped(plan: Plan, panes: NativePanes, rows: Sequence[dict[str, Any]]) -> pa.Table:
    groups: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        start = None if row["t"] is None else int(plan.grid.starts(pa.array([row["t"]]).to_numpy())[0])
        groups.setdefault((canonical(row["k"]), start), []).append(row)
    keys = pa.array([math.nan if key == "NaN" else key for key, _ in groups], pa.float64())
    columns = [keys, pa.array([start for _, start in groups], pa.int64())]
    columns += [
        pa.array([computed(aggregate, found, start) for (_, start), found in groups.items()], kind_of(aggregate))
        for aggregate in panes.aggregates
    ]
    return pa.Table.from_arrays(columns, names=[str(number) for number in range(len(columns))])


def answers(plan: Plan, sent: list[PackedPanes] | Arrived) -> tuple[dict[Any, dict[str, Any]], Metrics]:
    stage = Shard(plan, TableStore(plan))
    emitted = [item.rows for item in stage.run(sent, EVERYTHING) if isinstance(item, Results)]
    rows = [row for batch in emitted for row in batch.to_pylist()]
    return {(row["window_id"], canonical(row["k"])): row for row in rows}, stage.metrics


@given(ROWS, st.sampled_from(WINDOWS), st.sampled_from([AGGREGATES, SUMS]))
def test_panes_from_aggregates_are_those_of_the_pane_stage(
    rows: list[dict[str, Any]], window: W.TimeWindow, aggregates: Mapping[str, tuple[A.Aggregate, str | None]]
) -> None:
    plan = plan_of(window, aggregates)
    panes = NativePanes.of(plan)
    assert isinstance(panes, NativePanes)
    arrived, sent = panes.arrived(plan, grouped(plan, panes, rows)), list(PaneStage(plan).run([columns_of(rows)]))
    try:
        expected, others = answers(plan, sent)
    except MuntinError as overflow:
        with pytest.raises(MuntinError, match=re.escape(str(overflow))):
            answers(plan, arrived)
        return
    native, metrics = answers(plan, arrived)
    assert native.keys() == expected.keys()
    assert metrics["results"] == others["results"]
    for place, row in native.items():
        for name in aggregates:
            ours, other = row[name], expected[place][name]
            if name in ("mean", "var", "total") and ours is not None and not math.isnan(ours):
                assert ours == pytest.approx(other, rel=1e-9, abs=1e-6)
            else:
                assert repr(ours) == repr(other), name


@pytest.mark.parametrize(
    ("aggregate", "changed", "why"),
    [
        (A.first("x"), {}, "no counterpart of 'a'"),
        (A.argmin("n", "x"), {}, "no counterpart of 'a'"),
        (A.last("n"), {}, "no counterpart of 'a'"),
        (A.last("d"), {}, "no counterpart of 'a'"),
        (A.first("i"), {"windows": [W.tumbling("4000 days")]}, "no counterpart of 'a'"),
        (A.first("x"), {}, "would sort all rows"),
        (A.max_count("x"), {}, "no counterpart of 'a'"),
        (A.median("x"), {}, "some answers need the rows"),
        (A.count(), {"streaming": True}, "a stream"),
        (A.count(), {"windows": [W.count(3)]}, "windows over rows"),
        (A.count(), {"windows": [W.tumbling("1 second"), W.session("1 second")]}, "windows over rows"),
        (A.count(), {"late_row": pa.struct(list(TYPES.items()))}, "whole rows"),
        (A.custom(lambda x: x, lambda a, b: a + b, lambda s: s, columns=["x"]), {}, "custom aggregates"),
    ],
)
def test_reasons_for_the_pane_stage(aggregate: A.Aggregate, changed: dict[str, Any], why: str) -> None:
    arguments = {"windows": [W.tumbling("1 second")], **changed}
    plan = Plan.make(
        time="t",
        types=TYPES,
        keys=["k"],
        shards=[0],
        aggregates={"a": aggregate.bind(TYPES, None, TYPES["t"])},
        **arguments,
    )
    reason = NativePanes.of(plan)
    assert isinstance(reason, str)
    assert why in reason


def test_what_no_answer_needs_is_not_computed() -> None:
    def computed(**aggregates: A.Aggregate) -> list[tuple[str, str | None]]:
        panes = NativePanes.of(plan_of(WINDOWS[0], {name: (given, None) for name, given in aggregates.items()}))
        assert isinstance(panes, NativePanes)
        return [(aggregate.function, aggregate.column) for aggregate in panes.aggregates]

    assert computed(total=A.sum("x")) == [("sum", "x")]
    assert computed(total=A.sum("x"), mean=A.mean("x")) == [("sum", "x"), ("count", "x")]
    assert computed(rows=A.count(), low=A.min("x")) == [("count", None), ("min", "x")]
