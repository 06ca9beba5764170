"""Every window model, alone and among others, in tables and in streams, against their literal definitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import windows as W
from muntin.engine.metrics import Metrics
from muntin.engine.plan import Plan
from muntin.engine.pruning import without_closed
from muntin.engine.store import HotCache, PaneStore
from muntin.features.workers.feature import ActiveWorkers
from muntin.panes.tuples import MEMBERSHIP
from tests import builders, naive, naive_models, strategies
from tests.builders import (
    CASES,
    CUSTOM,
    HOLISTIC,
    Step,
    Stream,
    aggregations,
    answer_table,
    by_shard,
    check,
    make_plan,
    pack,
    plan_of,
    read,
    row,
    tiny,
    us,
)
from tests.naive import Aggregation, Place, Row
from tests.naive_models import BEFORE_ALL, BEHIND_ALL

TYPES = builders.TYPES | strategies.GROWING
NAMES = st.lists(st.sampled_from([*CASES, *CUSTOM, *HOLISTIC]), min_size=1, max_size=4, unique=True)
IN_ORDER: dict[str, Aggregation] = {
    "composed": naive.composed_as_they_are("n"),
    "composed_where": naive.where("kept", naive.composed_as_they_are("n")),
}
Results = list[tuple[Place, dict[str, Any]]]
BEHIND = 10_000


def plans(windows: st.SearchStrategy[list[W.Window]]) -> st.SearchStrategy[Plan]:
    return st.builds(table_plan, windows, strategies.KEYS, NAMES, strategies.SHARDS)


def table_plan(windows: list[W.Window], keys: tuple[str, ...], names: list[str], shards: tuple[int, ...]) -> Plan:
    return make_plan(windows, keys, without_order(names, windows), shards=shards, types=TYPES)


def without_order(names: list[str], windows: list[W.Window]) -> list[str]:
    """The order of equal times in a session has tests of its own, below."""
    if not any(isinstance(window, W.SessionWindow) for window in windows):
        return names
    return [name for name in names if name not in IN_ORDER] or ["count"]


DELAYS = st.none() | st.integers(1, 20)


def stream_plans(windows: st.SearchStrategy[list[W.Window]]) -> st.SearchStrategy[Plan]:
    return st.builds(stream_plan, windows, strategies.KEYS, NAMES, strategies.SHARDS, st.booleans(), DELAYS)


def stream_plan(
    windows: list[W.Window],
    keys: tuple[str, ...],
    names: list[str],
    shards: tuple[int, ...] = (0,),
    emit_late: bool = False,
    delay: int | None = None,
) -> Plan:
    names = without_order(names, windows)
    return make_plan(windows, keys, names, shards=shards, emit_late=emit_late, streaming=True, types=TYPES, delay=delay)


ALONE: dict[str, st.SearchStrategy[W.Window]] = strategies.MODELS | {
    f"{model}, forgetting": windows for model, windows in strategies.FORGETTING.items()
}


def of_model(model: str) -> st.SearchStrategy[list[W.Window]]:
    return ALONE[model].map(lambda window: [window])


def oracle_of(plan: Plan, watermark: int = 0) -> naive_models.Stream:
    over_panes = aggregations(plan)
    over_tuples = {name: IN_ORDER.get(name, of) for name, of in over_panes.items()}
    columns = [] if plan.layout.tuples is None else [n for n in plan.layout.tuples.names if n != MEMBERSHIP]
    return naive_models.Stream(plan.windows, plan.keys, columns, over_panes, over_tuples, watermark, plan.delay)


def table_of(plan: Plan, rows: Sequence[Row]) -> naive_models.Batch:
    """A table is a stream of one batch between the watermarks before and behind all times."""
    return oracle_of(plan, BEFORE_ALL).batch(rows, BEHIND_ALL)


LIMITS = st.tuples(st.integers(2, 8), st.sampled_from([0, 1, 1 << 12]), st.sampled_from([1, 3, 1 << 20]))


def check_order(plan: Plan, found: Results) -> None:
    """Each operator answers in the order of its windows' ends."""
    for each in plan.operators:
        titles = {window.title for _, window in each.windows}
        builders.check_window_order([result for result in found if result[0][2] in titles])


# Tables


def check_table(plan: Plan, parts: Sequence[Sequence[Row]]) -> None:
    expected = table_of(plan, [each for part in parts for each in part])
    metrics, found = Metrics(), []
    for shard, share in by_shard(plan, pack(plan, parts)).items():
        results, _ = read(plan, answer_table(plan_of(plan, shard), share, metrics))
        check_order(plan, results)
        found += results
    check(found, expected.answers)
    assert metrics.results == len(found)
    assert (metrics.rows, metrics.invalid_rows, metrics.outside_rows) == (
        expected.rows,
        expected.invalid_rows,
        expected.outside_rows,
    )


MAYBE_TIMES = st.none() | strategies.TIMES


@pytest.mark.parametrize("model", ALONE)
def test_any_table_of_one_model_is_naive(model: str) -> None:
    @settings(max_examples=25)
    @given(plans(of_model(model)), strategies.growing_rows(MAYBE_TIMES, max_size=30), LIMITS, st.data())
    def is_naive(plan: Plan, rows: list[Row], limits: tuple[int, int, int], data: st.DataObject) -> None:
        with tiny(*limits):
            check_table(plan, data.draw(strategies.cuts(rows)))

    is_naive()


@settings(max_examples=40)
@given(plans(strategies.models()), strategies.growing_rows(MAYBE_TIMES, max_size=30), LIMITS, st.data())
def test_any_table_of_several_models_is_naive(
    plan: Plan, rows: list[Row], limits: tuple[int, int, int], data: st.DataObject
) -> None:
    with tiny(*limits):
        check_table(plan, data.draw(strategies.cuts(rows)))


@settings(max_examples=30)
@given(plans(strategies.models()), strategies.growing_rows(), st.integers(1, 3), st.data())
def test_several_tasks_are_as_one(plan: Plan, rows: list[Row], tasks: int, data: st.DataObject) -> None:
    sent = [each for task in range(tasks) for each in pack(plan, [rows[task::tasks]])]
    shares = by_shard(plan, data.draw(st.permutations(sent))).values()
    check([each for share in shares for each in read(plan, answer_table(plan, share))[0]], table_of(plan, rows).answers)


# Streams


STEPS = strategies.steps(
    strategies.growing_rows(st.none() | st.integers(-10, 30) | st.integers(0, 2), max_size=6),
    [0, 1, 7, 20, 60],
    max_size=8,
)
CLOSING = Step([], advance=1000, tasks=1, cold=False, replay=False)


def shifted(each: Row, by: int) -> Row:
    """LazyAggregates, and its δ larger, as far as they are there."""
    moved = {name: each[name] if each[name] is None else each[name] + by for name in ("t", "d", "e")}
    return {**each, **moved}


def check_state(stream: Stream) -> None:
    """Nothing is in the state but what its header names, and a cold worker finds in it what a warm one has."""
    for shard, state in stream.states.items():
        header = stream.store(shard).header
        of_chunks = {each.location.value for each in header.chunks}
        assert state.values.keys() == {each.name for each in header.segments} | of_chunks
        warm = stream.store(shard).table()
        plan = plan_of(stream.plan, shard)
        cold = PaneStore(plan, "query", shard, state, HotCache(capacity=1)).table()
        sizes = [
            [] if each is None else [*map(len, each.leaves), 0 if each.tuples is None else len(each.tuples)]
            for each in (cold, warm if warm is None else without_closed(warm, plan, header.watermarks))
        ]
        assert sizes[0] == sizes[1] or not any(sizes[0] + sizes[1])


def repeated(rows: Sequence[Row]) -> list[str]:
    return sorted(repr(naive.comparable({name: each[name] for name in TYPES})) for each in rows)


def check_stream(plan: Plan, steps: Sequence[Step]) -> None:
    stream, oracle = Stream(plan), oracle_of(plan)
    counted: Counter[str] = Counter()
    for step in [*steps, CLOSING]:
        rows = [shifted(each, oracle.watermark) for each in step.rows]
        watermark = oracle.watermark + step.advance
        found, late = stream.run(step, rows, watermark)
        expected = oracle.batch(rows, watermark)
        for share in found:
            check_order(plan, share)
        check([each for share in found for each in share], expected.answers)
        assert repeated(late) == repeated(expected.late if plan.late_row is not None else [])
        counts = {
            "rows": expected.rows,
            "late_rows": len(expected.late),
            "invalid_rows": expected.invalid_rows,
            "outside_rows": expected.outside_rows,
            "results": len(expected.answers),
        }
        counted.update(counts)
        assert {name: stream.total(name) for name in counts} == counts
        assert {name: stream.total(f"total_{name}") for name in counted} == counted
        # Those of whole windows also wait for their chunk to be complete, and active workers may all have a tuple.
        if not plan.keeps_tuples and plan.feature(ActiveWorkers) is None:
            assert stream.total("tuples") == expected.waiting
        check_state(stream)


@pytest.mark.parametrize("model", ALONE)
def test_any_stream_of_one_model_is_naive(model: str) -> None:
    @settings(max_examples=20)
    @given(stream_plans(of_model(model)), STEPS, LIMITS)
    def is_naive(plan: Plan, steps: list[Step], limits: tuple[int, int, int]) -> None:
        with tiny(*limits):
            check_stream(plan, steps)

    is_naive()


@settings(max_examples=40)
@given(stream_plans(strategies.models()), STEPS, LIMITS)
def test_any_stream_of_several_models_is_naive(plan: Plan, steps: list[Step], limits: tuple[int, int, int]) -> None:
    with tiny(*limits):
        check_stream(plan, steps)


EXACT = [name for name in CASES if not name.startswith(("var", "stddev"))]  # these within rounding only


def sorted_results(shares: Sequence[Results]) -> list[str]:
    return sorted(repr(each) for share in shares for each in share)


@settings(max_examples=30)
@given(strategies.models(), strategies.KEYS, strategies.growing_rows(st.integers(0, 12)), st.data())
def test_neither_batches_nor_the_order_of_arrival_matter(
    windows: list[W.Window], keys: tuple[str, ...], rows: list[Row], data: st.DataObject
) -> None:
    names = data.draw(st.lists(st.sampled_from(EXACT), min_size=1, max_size=4, unique=True))
    plan = stream_plan(windows, keys, names)

    def results_of(parts: Sequence[Sequence[Row]]) -> list[str]:
        stream = Stream(plan)
        for part in parts:
            stream.batch(part, 0)
        return sorted_results(stream.batch([], BEHIND)[0])

    assert results_of(data.draw(strategies.cuts(data.draw(st.permutations(rows))))) == results_of([rows])


@settings(max_examples=30)
@given(stream_plans(strategies.models()), strategies.growing_rows(st.integers(0, 60)), st.data())
def test_a_stream_of_a_table_is_the_table(plan: Plan, rows: list[Row], data: st.DataObject) -> None:
    """If every row comes before the watermark gets to it.

    Not to be late is enough for all models but sessions: a row at the watermark or little behind it may be within the
    gap of a session that has closed.
    """
    parts = data.draw(strategies.cuts(sorted(rows, key=lambda row: row["t"])))
    stream = Stream(plan)
    found: list[Results] = []
    for i, part in enumerate(parts):
        watermark = min((each["t"] - 1 for lazy in parts[i + 1 :] for each in lazy), default=BEHIND)
        found += stream.batch(part, watermark)[0]
    assert stream.total("total_late_rows") == 0
    check([each for share in found for each in share], table_of(plan, rows).answers)


@settings(max_examples=20)
@given(stream_plans(strategies.models()), STEPS, LIMITS, st.data())
def test_a_replay_from_an_older_state_gives_the_same(
    plan: Plan, steps: list[Step], limits: tuple[int, int, int], data: st.DataObject
) -> None:
    stream, watermark = Stream(plan), 0
    batches, snapshots, told = [], [], []
    with tiny(*limits):
        for step in [*steps, CLOSING]:
            rows = [shifted(each, watermark) for each in step.rows]
            watermark += step.advance
            batches.append((rows, watermark))
            snapshots.append(stream.snapshot())
            told.append(sorted_results(stream.batch(rows, watermark)[0]))
        begin = data.draw(st.integers(0, len(steps)))
        stream.restore(snapshots[begin])
        again = [sorted_results(stream.batch(*batch)[0]) for batch in batches[begin:]]
    assert again == told[begin:]


# Ties


def composed(plan: Plan, *parts: Sequence[Row]) -> list[Any]:
    stream = Stream(plan)
    for part in parts:
        stream.batch(part, 0)
    return [values["composed"] for share in stream.batch([], 1000)[0] for _, values in share]


@pytest.mark.parametrize(
    "window",
    [
        W.count(2),
        W.slide_by_tuple(us(10), 2),
        W.slide_by_time(2, us(10)),
        W.delta("d", 5, 1),
    ],
    ids=lambda window: window.label,
)
def test_equal_times_go_by_the_values_of_the_columns(window: W.Window) -> None:
    # The affine map of 97 sorts before that of 96: an order by states would not be the order by values.
    plan = make_plan([window], (), ["composed"], streaming=True, types=TYPES)
    a, b = {**row(5, n=96), "d": 1, "e": None}, {**row(5, n=97), "d": 1, "e": None}
    trigger = [{**row(50, n=None), "d": 3, "e": None}] if isinstance(window, W.DeltaWindow) else []
    expected = [naive.composed_as_they_are("n")([a, b])]
    for parts in ([[a, b]], [[b, a]], [[a], [b]], [[b], [a]]):
        assert composed(plan, *parts, trigger) == expected


def test_equal_times_of_a_session_go_by_their_states() -> None:
    plan = make_plan([W.session(us(10))], (), ["composed"], streaming=True, types=TYPES)
    a, b = {**row(5, n=96), "d": 1, "e": None}, {**row(5, n=97), "d": 1, "e": None}
    expected = [naive.composed_as_they_are("n")([b, a])]
    for parts in ([[a, b]], [[b, a]], [[a], [b]], [[b], [a]]):
        assert composed(plan, *parts, []) == expected


@settings(max_examples=30)
@given(
    strategies.SESSIONS, strategies.KEYS, strategies.growing_rows(st.integers(0, 60), max_size=30), LIMITS, st.data()
)
def test_a_session_combines_its_tuples_in_time_order(
    window: W.SessionWindow, keys: tuple[str, ...], rows: list[Row], limits: tuple[int, int, int], data: st.DataObject
) -> None:
    plan = make_plan([window], keys, ["composed", "max_w", "composed_where"], streaming=True, types=TYPES)
    rows = list({each["t"]: each for each in rows}.values())  # one at each time
    stream, oracle = Stream(plan), oracle_of(plan)
    with tiny(*limits):
        for part in data.draw(strategies.cuts(rows)):
            watermark = oracle.watermark + data.draw(st.integers(0, 15))
            found, _ = stream.batch(part, watermark, tasks=2)
            check([each for share in found for each in share], oracle.batch(part, watermark).answers)
            check_state(stream)
        found, _ = stream.batch([], BEHIND)
        check([each for share in found for each in share], oracle.batch([], BEHIND).answers)
