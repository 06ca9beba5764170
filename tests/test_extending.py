"""The example of `docs/extending.md`: the page shows the file as it is, and its checksums are those of a plain loop."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from examples.feature_checksum import Checksum
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import MuntinError, StateError
from muntin import aggregates as A
from muntin import windows as W
from muntin.features.shedding.policy import Shedding
from muntin.features.workers.policy import Workers
from muntin.panes.keys import hashes
from tests import naive, strategies
from tests.builders import CASES, TYPES, Case, Step, Stream, aggregations, answer, bind, check, make_plan, row, sliding
from tests.naive import Aggregation, Row
from tests.naive_models import BEFORE_ALL, BEHIND_ALL
from tests.naive_models import Stream as NaiveStream

ROOT = Path(__file__).parents[1]
COLUMNS = st.lists(st.sampled_from(["k", "f", "s", "x", "n", "w", "kept", "t"]), min_size=1, max_size=3, unique=True)
TYPES_OF_MODELS = TYPES | strategies.GROWING


def of(columns: Sequence[str]) -> Checksum:
    return Checksum(tuple(columns))


def checksum(columns: Sequence[str]) -> Aggregation:
    """One row at a time, with Python's integers."""

    def aggregate(rows: Sequence[Row]) -> int:
        total = sum(hash_of(each, columns) for each in rows) % 2**64
        return total - 2**64 if total >= 2**63 else total

    return aggregate


def hash_of(row: Row, columns: Sequence[str]) -> int:
    values = [pa.array([row["t"]]), *(pa.array([row[name]], TYPES[name]) for name in columns)]
    return int(hashes(values, 1)[0])


@settings(max_examples=60)
@given(
    strategies.models(),
    st.sampled_from(["count", "sum_n", "last_w", "composed", "median_x"]),
    COLUMNS,
    strategies.SHARDS,
    strategies.growing_rows(st.none() | strategies.TIMES, max_size=30),
    st.data(),
)
def test_any_table_is_naive(
    windows: list[W.Window],
    name: str,
    columns: list[str],
    shards: tuple[int, ...],
    rows: list[Row],
    data: st.DataObject,
) -> None:
    """Windows of all models, beside an aggregate of any kind."""
    plan = make_plan(windows, names=[name], shards=shards, types=TYPES_OF_MODELS, options=[of(columns)])
    read = [] if plan.layout.tuples is None else [each for each in plan.layout.tuples.names if each in TYPES_OF_MODELS]
    named = {"checksum": checksum(columns)}
    oracle = NaiveStream(windows, plan.keys, read, named, named, BEFORE_ALL)
    found = [each for share in answer(plan, data.draw(strategies.cuts(rows))) for each in share]
    sums = [(place, {"checksum": values["checksum"]}) for place, values in found]
    check(sums, oracle.batch(rows, BEHIND_ALL).answers)


STEPS = strategies.steps(
    strategies.rows(st.none() | st.integers(-40, 50), max_size=6), [0, 0, 1, 7, 30, 100], max_size=8
)


@settings(max_examples=60)
@given(strategies.windows(), strategies.KEYS, COLUMNS, strategies.SHARDS, STEPS)
def test_any_stream_is_naive(
    windows: list[W.PaneWindow],
    keys: tuple[str, ...],
    columns: list[str],
    shards: tuple[int, ...],
    steps: list[Step],
) -> None:
    """With late rows and rows without a time, replayed batches, and workers that have never seen a shard."""
    stream = Stream(
        make_plan(windows, keys, ["count", "median_x"], shards=shards, streaming=True, options=[of(columns)])
    )
    named = {"count": naive.count(), "median_x": CASES["median_x"].naive, "checksum": checksum(columns)}
    oracle = naive.Stream(windows, keys, named)
    closing, closed = Step([], advance=400, tasks=1, cold=False, replay=False), 0
    for step in [*steps, closing]:
        rows = [each if each["t"] is None else {**each, "t": each["t"] + oracle.watermark} for each in step.rows]
        watermark = oracle.watermark + step.advance
        shares, _ = stream.run(step, rows, watermark)
        answers, _ = oracle.batch(rows, watermark)
        check([each for share in shares for each in share], answers)
        closed += len(answers)
        assert stream.total("checksummed_windows") == len(answers)
        assert stream.total("total_checksummed_windows") == closed


@given(
    strategies.windows(),
    COLUMNS,
    strategies.rows(st.integers(1, 60)),
    st.lists(st.booleans(), min_size=1, max_size=5),
    st.data(),
)
def test_a_stream_has_the_checksums_of_the_table(
    windows: list[W.PaneWindow], columns: list[str], rows: list[Row], restarts: list[bool], data: st.DataObject
) -> None:
    """Whatever the order of the rows, and however they are cut into batches."""
    table = make_plan(windows, options=[of(columns)])
    stream = Stream(make_plan(windows, shards=(5, 0, 11), streaming=True, options=[of(columns)]))
    mixed = data.draw(st.permutations(rows))
    for number, restart in enumerate(restarts):
        part = mixed[number :: len(restarts)]
        assert not any(stream.run(Step(part, 0, 2, cold=restart, replay=restart), part, 0)[0])
    shares, _ = stream.batch([], 1000)
    check([each for share in shares for each in share], dict(next(answer(table, [rows]))))


def test_another_row_is_another_checksum() -> None:
    window, rows = sliding(10, 10), [row(1, x=1.0), row(2, x=None)]
    seen = {
        one_checksum(window, each)
        for each in (
            rows,
            rows[:1],
            [*rows, *rows],
            [*rows, row(2, x=None), row(2, x=None)],  # a pair of equal rows does not cancel out
            [row(1, x=1.0), row(2, x=0.0)],
            [row(1, x=1.0), row(3, x=None)],
        )
    }
    assert len(seen) == 6
    assert one_checksum(window, rows) == one_checksum(window, rows[::-1])


def one_checksum(window: W.Window, rows: Sequence[Row]) -> int:
    ((_, values),) = next(answer(make_plan([window], options=[of(["x"])]), [rows]))
    assert isinstance(values["checksum"], int)
    return values["checksum"]


def test_the_page_shows_the_example() -> None:
    code = (ROOT / "examples" / "feature_checksum" / "__init__.py").read_text(encoding="utf-8")
    assert f"```python\n{code}```" in (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    assert "](docs/extending.md)" in (ROOT / "README.md").read_text(encoding="utf-8")


def aggregate_of_the_page() -> Callable[..., A.Aggregate]:
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    code = next(block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "class MeanSquare" in block)
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(code, "extending.md", "exec", dont_inherit=True), names)
    made: Callable[..., A.Aggregate] = names["MeanSquare"]
    return made


def mean_square(rows: Sequence[Row]) -> float | None:
    found = [row["x"] ** 2 for row in rows if row["x"] is not None]
    return sum(found) / len(found) if found else None


def test_the_aggregate_of_the_page_is_naive() -> None:
    aggregate = aggregate_of_the_page()
    rows = [row(t, x=None if t % 4 == 0 else t / 2) for t in range(1, 30)]
    windows = [sliding(10, 5), sliding(1, 1)]
    with patch.dict(CASES, mean_square=Case(aggregate(None, "x"), mean_square)):
        plan = make_plan(windows, names=["mean_square", "var_pop"])
        assert len(plan.layout.leaf_sets[0].partials) == 2  # the row count, and what both aggregates read
        found = next(answer(plan, [rows]))
        check(found, naive.answers(rows, windows, plan.keys, aggregations(plan)))
        shed = make_plan(windows, names=["mean_square"], shedding=Shedding.of(0.5, None, "concept", 0, 0.95))
        assert len(next(answer(shed, [rows]))) == len(found)
    with pytest.raises(MuntinError, match="mean_square needs a number, and 'w' is none"):
        bind(aggregate(None, "w"))


def test_other_columns_are_another_query() -> None:
    window = sliding(10, 10)
    stream = Stream(make_plan([window], streaming=True, options=[of(["x"])]))
    stream.batch([row(1)], 0)
    stream.plan = make_plan([window], streaming=True, options=[of(["n"])])
    with pytest.raises(StateError, match=re.escape("Checksum(('x',))")):
        stream.batch([row(2)], 0)


def test_jobs_are_counted() -> None:
    options = [of(["x"]), Workers("agnostic", 2, tasks=4)]
    stream = Stream(make_plan([sliding(10, 5)], streaming=True, options=options))
    shares, _ = stream.batch([row(t) for t in range(1, 40)], 100)
    assert stream.total("jobs") > 0
    assert stream.total("checksummed_windows") == sum(map(len, shares)) == 9
