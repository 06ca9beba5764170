"""What is shown of a state: its parts, and its panes."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import muntin
from muntin import aggregates as A
from muntin import testing
from muntin import windows as W
from muntin.engine.inspected import PARTS, PaneRows, described, parts, stored_metrics, totals
from muntin.errors import StateError
from muntin.testing.engine import OnEngine
from tests import naive
from tests.builders import CUSTOM, Stream, make_plan, naive_pane_values, row, sliding, us

NOON = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
NAMES = ("count", "sum_n", "mean_x", "min_x", "max_w", "first_w", "median_x", "composed")
SHOWN = [name for name in NAMES if name not in (*CUSTOM, "median_x")]

rows = st.lists(
    st.builds(
        row, st.integers(0, 40), st.sampled_from(["a", "b", None]), n=st.integers(-5, 5) | st.none(), w=st.text("xy")
    ),
    max_size=12,
)


@given(st.lists(rows, max_size=3), st.integers(0, 20))
def test_panes_have_what_each_aggregate_is_so_far(batches: list[list[naive.Row]], watermark: int) -> None:
    """Of the panes that open windows need; those of order-dependent and holistic aggregates are null."""
    windows = [sliding(6, 2), W.session(us(3)), W.count(2)]
    plan = make_plan(windows, names=NAMES, shards=(0, 1), streaming=True)
    stream = Stream(plan)
    for batch in batches:
        stream.batch(batch, 0)
    stream.batch([], watermark)
    found = {}
    for shard, state in stream.states.items():
        for each in PaneRows(plan).of(shard, state).to_pylist():
            micros = [naive_time(each[side]) for side in ("start", "end")]
            assert micros[1] == micros[0] + plan.grid.length
            assert each["shard"] == shard
            assert each["median_x"] is each["composed"] is None
            place = ((each["k"],), micros[0])
            assert place not in found
            found[place] = {name: each[name] for name in SHOWN}
    # The last window over a pane ends `6 - 2` behind the pane's own end.
    latest = [each for batch in batches for each in batch if each["t"] // 2 * 2 + 6 > watermark]
    expected = naive_pane_values(make_plan([sliding(6, 2)], names=SHOWN), latest)
    assert found.keys() == expected.keys()
    for place, values in expected.items():
        for name, (value,) in values.items():
            assert naive.same(found[place][name], value), (place, name)


def naive_time(time: object) -> int:
    import pyarrow as pa

    micros: int = pa.scalar(time, pa.timestamp("us", tz="UTC")).value
    return micros


def test_parts_are_those_of_the_header() -> None:
    plan = make_plan([sliding(40, 5)], names=("count", "median_x"), streaming=True)
    stream = Stream(plan)
    for watermark in (0, 8, 16):
        stream.batch([row(watermark + place) for place in range(4)], watermark)
    state = stream.states[0]
    assert state.header is not None
    found = list(parts(0, state.header))
    assert [each["part"] for each in found].count("header") == 1
    assert {each["part"] for each in found} == {"header", "panes", "chunk"}
    assert {each["watermark"] for each in found} == {16}
    assert len({each["version"] for each in found}) == 1
    assert all(set(each) <= set(PARTS.names) for each in found)
    assert sum(each.get("rows", 0) for each in found) == 8  # the chunk of the last pane is not complete
    assert totals(state.header)["rows"] == 12
    made_by = described(state.description)
    assert made_by is not None
    assert [each["name"] for each in made_by["aggregates"]] == ["count", "median_x"]
    assert described(None) is None


def test_another_query_or_damage_is_an_error() -> None:
    plan = make_plan([sliding(10, 5)], streaming=True)
    stream = Stream(plan)
    stream.batch([row(1)], 0)
    other = make_plan([sliding(10, 2)], streaming=True)
    with pytest.raises(StateError, match="made by another query"):
        PaneRows(other).of(0, stream.states[0])
    header = stream.states[0].header
    assert header is not None
    with pytest.raises(StateError, match="damaged"):
        list(parts(0, header[:-1] + b"?"))
    with pytest.raises(StateError, match="not one of Muntin's"):
        described(b"cos\nsystem\n(S'true'\ntR.")


@given(st.lists(st.lists(st.integers(0, 120), max_size=8), min_size=1, max_size=4), st.sampled_from([None, 0, 20]))
def test_the_state_knows_the_metrics_that_its_shards_have_reported(batches: list[list[int]], after: int | None) -> None:
    """All but those of workers' memory: after batches out of order, with late rows, and with old rows compressed."""

    def query(rows: Any) -> muntin.Query:
        windows = W.sliding("60 seconds", "10 seconds")
        over = muntin.over(rows, windows, time="ts", watermark="15 seconds", by="k").agg(m=A.median("v"), n=A.count())
        return over.compress(after=None if after is None else f"{after} seconds")

    stream = testing.Stream(query, "ts timestamp, k string, v long")
    reported = dict[str, int]()
    for seconds in batches:
        rows = [(NOON + timedelta(seconds=second), "ab"[second % 2], second) for second in seconds]
        step = stream.batch([*rows, (None, "a", 1)])
        reported = {**step.metrics}
    run = stream._run
    assert isinstance(run, OnEngine)
    found = [stored_metrics(state.header) for state in run._states.values() if state.header is not None]
    names = set().union(*found)
    folded = {
        name: (max if name == "compressed_after" else sum)(shard.get(name, 0) for shard in found) for name in names
    }
    same = [name for name in names if not name.startswith("total_") and name != "panes"]
    assert len(same) > 8
    assert {name: folded[name] for name in same} == {name: reported[name] for name in same}
    for name in ("rows", "late_rows", "invalid_rows", "results"):
        assert folded[f"total_{name}"] == sum(each.metrics[name] for each in stream.steps)
    assert folded["panes"] >= reported["panes"]
