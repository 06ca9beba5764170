from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.engine import store as stores
from muntin.engine.plan import Plan
from muntin.engine.pruning import open_rows, without_closed
from muntin.engine.state import MemoryState
from muntin.engine.store import Change, Header, HotCache, PaneStore, Segment
from muntin.errors import StateError
from muntin.panes import packed
from muntin.panes.packed import Kind, seal
from muntin.panes.table import merge
from muntin.panes.watermarks import Watermarks
from muntin.windows import PaneWindow
from tests import naive, strategies
from tests.builders import check_panes, lift, make_plan, naive_pane_values, pane_values, row, sliding
from tests.naive import Row

PLAN = make_plan([sliding(10, 5)], names=["sum_n", "max_w", "composed"])


def open_store(state: MemoryState, plan: Plan = PLAN, cache: HotCache | None = None) -> PaneStore:
    return PaneStore(plan, "query", 0, state, cache or HotCache(capacity=1))


def commit(store: PaneStore, rows: list[Row], watermark: int = 0) -> Header:
    added = lift(PLAN, rows) if rows else None
    present = [each for each in (store.table(), added) if each is not None]
    table = without_closed(merge(PLAN.layout, present), PLAN, Watermarks.at(watermark)) if present else None
    return store.commit(Change(table, added, Watermarks.at(watermark), {"rows": len(rows)}))


@given(st.lists(strategies.rows(max_size=4), max_size=12), st.integers(2, 4))
def test_what_was_committed_is_read_back(batches: list[list[Row]], fanout: int) -> None:
    state = MemoryState()
    with patch.object(stores, "FANOUT", fanout):
        for batch in batches:
            commit(open_store(state), batch, watermark=-1000)
    rows = [row for batch in batches for row in batch]
    store = open_store(state)
    table = store.table()
    check_panes({} if table is None else pane_values(PLAN, table), naive_pane_values(PLAN, rows))
    assert store.header.totals.get("rows", 0) == len(rows)
    assert not store.cache_hit


def test_segments_are_folded_tier_by_tier() -> None:
    state, tiers = MemoryState(), []
    with patch.object(stores, "FANOUT", 2):
        for t in range(8):
            header = commit(open_store(state), [row(t)])
            tiers.append([segment.tier for segment in header.segments])
    assert tiers == [[0], [1], [1, 0], [2], [2, 0], [2, 1], [2, 1, 0], [3]]
    assert len(state.values) == 1


@settings(max_examples=15)
@given(st.integers(1, 150), st.integers(2, 5))
def test_the_number_of_segments_is_logarithmic(batches: int, fanout: int) -> None:
    plan = make_plan([sliding(10**6, 10**6)], ())
    state = MemoryState()
    table = lift(plan, [row(1)])
    tiers, power = 1, fanout
    while power <= batches:
        tiers, power = tiers + 1, power * fanout
    with patch.object(stores, "FANOUT", fanout):
        for _ in range(batches):
            header = open_store(state, plan).commit(Change(table, table, Watermarks.at(0)))
    assert len(header.segments) <= (fanout - 1) * tiers
    assert state.values.keys() == {segment.name for segment in header.segments}


def test_segments_go_once_their_last_window_has_closed() -> None:
    state = MemoryState()
    commit(open_store(state), [row(1)])  # its last window ends at 10
    commit(open_store(state), [row(12)])  # and this one's at 20
    assert [segment.ends for segment in commit(open_store(state), [], 9).segments] == [10, 20]
    assert [segment.ends for segment in commit(open_store(state), [], 10).segments] == [20]
    assert commit(open_store(state), [], 20).segments == ()
    assert state.values == {}


def test_a_fold_drops_closed_panes() -> None:
    state = MemoryState()
    with patch.object(stores, "FANOUT", 2):
        commit(open_store(state), [row(1), row(100)])
        commit(open_store(state), [row(101)], watermark=50)
    table = open_store(state).table()
    assert table is not None
    assert table.panes.time.tolist() == [100]


# The cache


def test_the_cache_is_trusted_only_for_the_very_version() -> None:
    state, cache = MemoryState(), HotCache(capacity=1)
    commit(open_store(state, cache=cache), [row(1)])
    store = open_store(state, cache=cache)
    warm = store.table()
    assert store.cache_hit
    before = state.copy()
    commit(store, [row(2)])
    store = open_store(before, cache=cache)
    cold = store.table()
    assert not store.cache_hit
    assert cold is not None
    assert warm is not None
    check_panes(pane_values(PLAN, cold), pane_values(PLAN, warm))


def test_the_cache_gives_up_the_least_recently_used() -> None:
    cache = HotCache(capacity=2)
    table = lift(PLAN, [row(1)])
    cache.put_table("q", 1, "a", table)
    cache.put_table("q", 2, "b", table)
    assert cache.table("q", 1, "a") is table
    cache.put_table("q", 3, "c", table)
    places = ((1, "a"), (2, "b"), (3, "c"))
    assert [cache.table("q", shard, version) is not None for shard, version in places] == [True, False, True]


def test_the_cache_tells_queries_apart() -> None:
    cache = HotCache(capacity=2)
    table = lift(PLAN, [row(1)])
    cache.put_table("q", 1, "a", table)
    assert cache.table("other", 1, "a") is None
    assert cache.table("q", 1, "b") is None
    assert cache.table("q", 1, "a") is None  # given up: the state has moved on


# What cannot be used is an error


def test_another_query() -> None:
    state = MemoryState()
    commit(open_store(state), [row(1)])
    with pytest.raises(
        StateError, match=r"What differs: aggregate max_w removed; aggregate composed removed\. Restore"
    ):
        open_store(state, make_plan([sliding(10, 5)], names=["sum_n"]))
    another = make_plan([sliding(10, 2)], names=["sum_n", "max_w", "composed"])
    with pytest.raises(StateError, match=r"What differs: window slide 5 microseconds → 2 microseconds\. Restore"):
        open_store(state, another)
    for unreadable in (None, b"", seal(Kind.DESCRIPTION, b"?"), seal(Kind.DESCRIPTION, b'{"version": 99}')):
        state.description = unreadable  # none: as checkpoints of earlier versions
        with pytest.raises(StateError, match="a query with other windows, keys, columns or aggregates"):
            open_store(state, another)


def test_a_description_is_written_once_and_when_it_changes() -> None:
    state = MemoryState()
    with patch.object(state, "write_description", wraps=state.write_description) as writes:
        for t in range(3):
            commit(open_store(state), [row(t)])
        assert writes.call_count == 1
        # A checkpoint of an earlier version: its header knows of no description.
        content = packed.unpack_header(state.header or b"")
        assert content.pop("described")
        with patch.object(packed, "FORMAT_VERSION", 3):
            state.header, state.description = packed.pack_header(content), None
        commit(open_store(state), [row(4)])
        assert writes.call_count == 2
        assert state.description is not None
        # The same state under another name.
        bound = {f"my_{output.name}": output.bound for output in PLAN.outputs}
        renamed = Plan.make(
            time="t", windows=PLAN.windows, types=PLAN.types, keys=PLAN.keys, aggregates=bound, shards=[0]
        )
        assert renamed.fingerprint == PLAN.fingerprint
        open_store(state, renamed).commit(Change(None, None, Watermarks.at(0)))
        assert writes.call_count == 3
        assert b"my_composed" in state.description


def test_another_number_of_shards() -> None:
    state = MemoryState()
    commit(open_store(state), [row(1)])
    other = make_plan([sliding(10, 5)], names=["sum_n", "max_w", "composed"], shards=[0, 1, 2])
    with pytest.raises(StateError, match=r"made with 1 shards, and the query now has 3\. Set spark.sql.shuffle"):
        open_store(state, other)


def test_a_missing_segment() -> None:
    state = MemoryState()
    commit(open_store(state), [row(1)])
    state.values.clear()
    with pytest.raises(StateError, match=r"Value 0-.* is missing from the state of shard 0"):
        open_store(state).table()


def test_a_damaged_header() -> None:
    state = MemoryState()
    commit(open_store(state), [row(1)])
    assert state.header is not None
    state.header = state.header[:-1] + b"?"
    with pytest.raises(StateError, match="damaged"):
        open_store(state)


@given(st.lists(st.builds(Segment, st.text(), *[st.integers(-(2**62), 2**62)] * 4)), st.integers(-(2**62), 2**62))
def test_header_round_trip(segments: list[Segment], watermark: int) -> None:
    header = Header("print", 3, "version", watermark, watermark, 7, tuple(segments), {"rows": 1, "late_rows": 2})
    assert Header.decode(header.encode()) == header


# What is open


@given(strategies.windows(), strategies.rows(min_size=1), strategies.TIMES)
def test_open_rows_and_panes(windows: list[PaneWindow], rows: list[Row], watermark: int) -> None:
    plan = make_plan(windows, ("k",), ["count", "max_w", "composed"])
    table = lift(plan, rows)
    still_open = [row for row in rows if any(end > watermark for end, *_ in naive.places(row, windows, ()))]
    kept, late = open_rows(table, plan, Watermarks.at(watermark), lambda late, times, watermarks, of_tuples: late)
    expected = naive_pane_values(plan, still_open)
    check_panes(pane_values(plan, kept), expected)
    check_panes(pane_values(plan, without_closed(table, plan, Watermarks.at(watermark))), expected)
    assert late == len(rows) - len(still_open)
