"""The active model: who owns which window, who gets which pane, and that all of it adds up to the query."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import windows as W
from muntin.engine.map_stage import PaneStage
from muntin.engine.plan import Plan
from muntin.features.workers.dealing import Deal, DealtWindow
from muntin.features.workers.policy import Workers
from muntin.panes import packed
from muntin.panes.grid import PaneGrid
from tests import strategies
from tests.builders import make_plan, row, sliding, to_batch
from tests.naive import Row

COUNTS = st.integers(1, 5)
DEALS = st.tuples(COUNTS, COUNTS).flatmap(
    lambda shape: st.builds(Deal, st.integers(0, shape[0] - 1), st.just(shape[0]), st.just(shape[1]))
)
IDS = st.integers(-100, 100)


@given(DEALS)
def test_own_ids_are_the_windows_of_the_worker_in_order(deal: Deal) -> None:
    naive = [i for i in range(-200, 200) if i // deal.batch % deal.workers == deal.worker]
    assert [i for i in range(-200, 200) if deal.owns(np.array([i]))[0]] == naive
    own = np.arange(-20, 20)
    shared = deal.shared(own)
    assert np.all(deal.owns(shared))
    first = naive.index(int(shared[0]))
    assert shared.tolist() == naive[first : first + len(own)]


@given(DEALS, IDS)
def test_the_next_and_the_last_own_id(deal: Deal, at: int) -> None:
    owned = [i for i in range(at - 60, at + 60) if deal.owns(np.array([i]))[0]]
    assert deal.shared(deal.from_(at)) == min(i for i in owned if i >= at)
    assert deal.shared(deal.until(at)) == max(i for i in owned if i <= at)
    assert deal.from_(np.array([at]))[0] == deal.from_(at)
    assert deal.until(np.array([at]))[0] == deal.until(at)


@given(strategies.windows(max_size=1), DEALS, st.lists(st.integers(-200, 200), min_size=1, max_size=20))
def test_mapping_and_extent_of_dealt_windows(windows: list[W.PaneWindow], deal: Deal, times: list[int]) -> None:
    (window,) = windows
    dealt = DealtWindow.of(window, deal)
    at = np.array(times)
    for time, first, last in zip(times, dealt.first_containing(at), dealt.last_containing(at), strict=True):
        holding = [i for i in range(-2000, 2000) if window.start(i) <= time < window.end(i)]
        own = [i for i in holding if deal.owns(np.array([i]))[0]]
        assert dealt.public_id(np.arange(first, last + 1)).tolist() == own
    time = times[0]
    assert window.end(deal.shared(dealt.last_ended(time))) <= time < window.end(deal.shared(dealt.last_ended(time) + 1))


@given(strategies.windows(), DEALS)
def test_private_panes_meet_every_edge_and_are_made_of_whole_panes(windows: list[W.PaneWindow], deal: Deal) -> None:
    private, shared = PaneGrid.of([DealtWindow.of(window, deal) for window in windows]), PaneGrid.of(windows)
    assert private.length % shared.length == 0
    assert (private.offset - shared.offset) % shared.length == 0
    for window in windows:
        own = DealtWindow.of(window, deal)
        edges = np.concatenate([own.start(np.arange(-9, 9)), own.end(np.arange(-9, 9))])
        assert np.array_equal(private.starts(edges), edges)


def test_private_panes_are_as_long_as_the_private_slide_allows() -> None:
    window = sliding(12, 2)
    assert PaneGrid.of([DealtWindow.of(window, Deal(1, 3, 1))]) == PaneGrid(6, 2)
    assert PaneGrid.of([DealtWindow.of(window, Deal(1, 3, 2))]) == PaneGrid(2, 0)


def active(plan: Plan, count: int, batch: int) -> Plan:
    return make_plan(
        plan.windows,
        plan.keys,
        [output.name for output in plan.outputs],
        shards=tuple(range(count)),
        workers=Workers("active", count, batch),
    )


def sent_times(plan: Plan, rows: Sequence[Row]) -> dict[int, list[int]]:
    """The times of the tuples that each worker gets, where every tuple is a pane of its own or sent as it is."""
    times: dict[int, list[int]] = {}
    for each in PaneStage(plan).run([to_batch(rows, plan.types)]):
        if each.panes is not None:
            table = packed.unpack(plan.layout, each.panes)
            found = table.panes.time if table.tuples is None else table.tuples.time
            times[each.shard] = sorted(found.tolist())
    return times


@pytest.mark.parametrize("name", ["count", "median_x"])
@settings(max_examples=60)
@given(
    window=st.builds(sliding, st.integers(1, 20), st.integers(1, 9), st.integers(-5, 5)),
    count=COUNTS,
    batch=COUNTS,
    times=st.sets(st.integers(-50, 50), min_size=1, max_size=30),
)
def test_tuples_go_to_the_workers_that_the_mapping_names(
    name: str, window: W.TimeWindow, count: int, batch: int, times: set[int]
) -> None:
    """Every tuple has a key of its own, so that none hides behind another in its pane."""
    plan = active(make_plan([window], ("k",), [name]), count, batch)
    rows = [row(t, k=str(t)) for t in sorted(times)]
    expected: dict[int, list[int]] = {}
    for t in sorted(times):
        at = np.array([t])
        holding = range(int(window.first_containing(at)[0]), int(window.last_containing(at)[0]) + 1)
        for worker in {i // batch % count for i in holding}:
            expected.setdefault(worker, []).append(t if name == "median_x" else int(plan.grid.starts(at)[0]))
    assert sent_times(plan, rows) == {worker: sorted(found) for worker, found in expected.items()}


def test_rows_are_counted_once() -> None:
    plan = active(make_plan([sliding(10, 1)]), 3, 1)
    sent = list(PaneStage(plan).run([to_batch([row(t) for t in range(7)])]))
    assert sum(each.rows for each in sent) == 7
    assert sum(each.panes is not None for each in sent) == 3


def test_a_worker_has_a_state_of_its_own() -> None:
    plan = active(make_plan([sliding(10, 1)]), 3, 1)
    marks = {plan.of_shard(worker).fingerprint for worker in range(3)}
    marks |= {active(plan, 3, 2).of_shard(0).fingerprint, plan.fingerprint}
    assert len(marks) == 5
