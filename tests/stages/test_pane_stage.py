from __future__ import annotations

from collections import Counter
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from muntin.engine import map_stage as pane_stage
from muntin.engine.emitted import Results
from muntin.engine.map_stage import PackedPanes, PaneStage
from muntin.engine.metrics import Metrics
from muntin.engine.plan import Plan
from muntin.engine.shard import Shard
from muntin.engine.state import MemoryState
from muntin.engine.store import HotCache, PaneStore
from muntin.panes import packed
from muntin.panes import pairs as pairs_module
from muntin.panes.pairs import Pairs
from muntin.panes.table import merge
from tests import naive, strategies
from tests.builders import (
    CASES,
    answer_table,
    check_panes,
    check_table,
    lift,
    make_plan,
    naive_pane_values,
    pack,
    pane_values,
    plain,
    read,
    row,
    sliding,
    to_batch,
)
from tests.naive import Row

NAMES = st.lists(st.sampled_from(list(CASES)), min_size=1, max_size=3, unique=True)
PLANS = st.builds(make_plan, strategies.windows(), strategies.KEYS, NAMES, shards=strategies.SHARDS)
MAYBE_TIMES = st.none() | strategies.TIMES


def inside(plan: Plan, rows: list[Row]) -> list[Row]:
    """The rows that some window holds."""
    return [each for each in rows if each["t"] is not None and naive.places(each, plan.windows, ())]


@given(PLANS, strategies.rows(MAYBE_TIMES), st.data())
def test_panes_and_counts_are_naive(plan: Plan, rows: list[Row], data: st.DataObject) -> None:
    panes_and_counts_are_naive(plan, rows, data)


def panes_and_counts_are_naive(plan: Plan, rows: list[Row], data: st.DataObject) -> None:
    flush, dense = data.draw(st.sampled_from([(10**6, 1 << 16), (4, -(10**6)), (0, 1 << 16)]))
    together = data.draw(st.sampled_from([1, 3, 1 << 18]))
    with (
        patch.multiple(pane_stage, FLUSH_LEAVES=flush, ROWS_TOGETHER=together),
        patch.object(pairs_module, "DENSE_GROUPS", dense),
    ):
        sent = pack(plan, data.draw(strategies.cuts(rows)))
    tables = [packed.unpack(plan.layout, each.panes) for each in sent if each.panes is not None]
    kept = inside(plan, rows)
    if tables:
        whole = merge(plan.layout, tables)
        check_table(plan, whole)
        check_panes(pane_values(plan, whole), naive_pane_values(plan, kept))
    assert bool(tables) == bool(kept)
    assert sum(each.rows for each in sent) == len(kept)
    assert sum(each.invalid_rows for each in sent) == sum(each["t"] is None for each in rows)
    assert sum(each.rows + each.invalid_rows + each.outside_rows for each in sent) == len(rows)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(-9, 9) | st.sampled_from([-(2**61), 2**61])), min_size=1))
def test_panes_far_apart(drawn: list[tuple[int, int]]) -> None:
    plan = make_plan([sliding(1, 1)], names=["count", "sum_n", "max_w"])
    rows = [row(t, k=str(key), n=t % 7, w=str(t)) for key, t in drawn]
    table = lift(plan, rows)
    check_table(plan, table)
    check_panes(pane_values(plan, table), naive_pane_values(plan, rows))


@given(PLANS, strategies.rows())
def test_a_key_is_always_in_the_same_shard(plan: Plan, rows: list[Row]) -> None:
    homes: dict[object, set[int]] = {}
    for each in [*pack(plan, [rows]), *pack(plan, [rows[::-1]])]:
        if each.panes is not None:
            table = packed.unpack(plan.layout, each.panes)
            for key, _ in pane_values(plan, table):
                homes.setdefault(key, set()).add(each.shard)
    assert all(len(shards) == 1 for shards in homes.values())


def test_tables_send_what_there_is_and_streams_a_heartbeat() -> None:
    table = make_plan([sliding(10, 10)], shards=[5, 6, 7])
    stream = make_plan([sliding(10, 10)], shards=[5, 6, 7], streaming=True)
    assert [each.shard for each in pack(stream, [])] == [5, 6, 7]
    assert pack(table, [[]]) == [PackedPanes(5, 0, 0, 0, None, None)]
    home = {each.shard for each in pack(table, [[row(1)]]) if each.panes is not None}
    assert len(home) == 1
    assert {each.shard for each in pack(table, [[row(1)]])} == home | {5}


def test_counts_that_belong_to_no_key_are_told_once() -> None:
    plan = make_plan([sliding(2, 10)], shards=[4, 5], streaming=True)
    sent = pack(plan, [[row(None), row(1), row(5)], [row(None), row(9)]])
    assert [(each.invalid_rows, each.outside_rows) for each in sent] == [(2, 2), (0, 0)]


def test_only_rows_between_all_windows_are_outside() -> None:
    gaps, other_gaps, dense = sliding(2, 10, name="a"), sliding(2, 10, 5, name="b"), sliding(10, 10, name="c")
    rows = [[row(t) for t in range(10)]]
    assert sum(each.outside_rows for each in pack(make_plan([gaps]), rows)) == 8
    assert sum(each.outside_rows for each in pack(make_plan([gaps, other_gaps]), rows)) == 6
    assert sum(each.outside_rows for each in pack(make_plan([gaps, dense]), rows)) == 0


def test_memory_is_bounded_by_sending_early() -> None:
    plan = make_plan([sliding(1, 1)])
    batches = [[row(10 * i + j) for j in range(10)] for i in range(20)]
    with patch.multiple(pane_stage, FLUSH_LEAVES=30, ROWS_TOGETHER=1):
        sent = pack(plan, batches)
    sizes = [packed.unpack(plan.layout, each.panes).size for each in sent if each.panes is not None]
    assert len(sizes) > 3
    assert max(sizes) <= 40
    assert sum(sizes) == 200


def test_what_merges_well_is_not_sent_early() -> None:
    plan = make_plan([sliding(100, 100)])
    with patch.multiple(pane_stage, FLUSH_LEAVES=5, ROWS_TOGETHER=1):
        sent = pack(plan, [[row(j)] for j in range(50)])
    assert [each.rows for each in sent] == [50]


def test_times_of_other_zones_and_units() -> None:
    plan = make_plan([sliding(10_000, 10_000)], ())
    columns = {name: pa.nulls(2, kind) for name, kind in plan.types.items()}
    columns["t"] = pa.array([-1, 12], pa.timestamp("ms", tz="Asia/Tokyo"))
    (sent,) = PaneStage(plan).run([pa.record_batch(columns)])
    assert sent.panes is not None
    assert packed.unpack(plan.layout, sent.panes).panes.time.tolist() == [-10_000, 10_000]


@given(strategies.rows(MAYBE_TIMES), strategies.SHARDS)
def test_late_candidates_are_all_rows_that_a_window_holds(rows: list[Row], shards: tuple[int, ...]) -> None:
    plan = make_plan([sliding(3, 5)], ("k",), shards=shards, emit_late=True, streaming=True)
    sent = [each for each in pack(plan, [rows]) if each.late_candidates is not None]
    candidates = [packed.unpack_rows(each.late_candidates or b"") for each in sent]
    times = [time for table in candidates for time in plain(table.column("t").combine_chunks())]
    assert sorted(times) == sorted(each["t"] for each in inside(plan, rows))
    for each, table in zip(sent, candidates, strict=True):
        assert each.rows == table.num_rows


def test_nothing_is_late_in_a_table() -> None:
    (sent,) = pack(make_plan([sliding(3, 5)], emit_late=True), [[row(1)]])
    assert sent.panes is not None
    assert sent.late_candidates is None


@given(strategies.rows(MAYBE_TIMES), strategies.SHARDS, st.booleans(), st.data())
def test_rows_ahead_of_the_clock_are_as_if_they_had_never_come(
    rows: list[Row], shards: tuple[int, ...], streaming: bool, data: st.DataObject
) -> None:
    plan = make_plan([sliding(10, 5)], ("k",), shards=shards, emit_late=True, streaming=streaming)
    flags = [each["t"] is not None and data.draw(st.booleans()) for each in rows]
    flags_or_null = pa.array([None if each["t"] is None else flag for each, flag in zip(rows, flags, strict=True)])
    batch = to_batch(rows, plan.types).append_column(pane_stage.AHEAD, flags_or_null.cast(pa.bool_()))
    sent = list(PaneStage(plan).run([batch]))
    ahead = [row for row, flag in zip(rows, flags, strict=True) if flag]
    others = pack(plan, [[row for row, flag in zip(rows, flags, strict=True) if not flag]])
    by_shard = {each.shard: each for each in others}
    for each in sent:
        expected = by_shard.get(each.shard, replace(each, panes=None, rows=0))
        assert (each.panes, each.latest, each.late_candidates, each.rows) == (
            (expected.panes, expected.latest, expected.late_candidates, expected.rows)
        )
    assert sum(each.ahead_rows for each in sent) == len(ahead)
    assert sum(each.invalid_rows for each in sent) == len(ahead) + sum(each["t"] is None for each in rows)
    emitted = [packed.unpack_rows(each.ahead) for each in sent if each.ahead is not None]
    found = [time for table in emitted for time in plain(table.column("t").combine_chunks())]
    assert sorted(found) == sorted(each["t"] for each in ahead)


def test_rows_ahead_of_the_clock_are_emitted_and_counted() -> None:
    rows = [row(5, "a", n=1), row(10**15, "b", n=2), row(None, "a", n=3)]
    ahead = pa.array([False, True, None])
    table = make_plan([sliding(10, 10)], ("k",), emit_late=True)
    metrics = Metrics()
    sent = list(PaneStage(table).run([to_batch(rows, table.types).append_column(pane_stage.AHEAD, ahead)]))
    found, late = read(table, answer_table(table, sent, metrics))
    assert [place[:2] for place, _ in found] == [(10, 0)]
    assert [(each["t"], each["k"], each["n"]) for each in late] == [(10**15, "b", 2)]
    assert (metrics.rows, metrics.invalid_rows, metrics.ahead_rows, metrics.late_rows) == (1, 2, 1, 0)
    plan = make_plan([sliding(10, 10)], ("k",), emit_late=True, streaming=True)
    sent = list(PaneStage(plan).run([to_batch(rows, plan.types).append_column(pane_stage.AHEAD, ahead)]))
    stage = Shard(plan, PaneStore(plan, "query", 0, MemoryState(), HotCache(8)))
    found, late = read(plan, [each.rows for each in stage.run(sent, 10) if isinstance(each, Results)])
    assert [place[:2] for place, _ in found] == [(10, 0)]
    assert [(each["t"], each["k"], each["n"]) for each in late] == [(10**15, "b", 2)]
    assert (stage.metrics.rows, stage.metrics.invalid_rows, stage.metrics.ahead_rows) == (1, 2, 1)
    assert (stage.metrics.total_invalid_rows, stage.metrics.total_ahead_rows) == (2, 1)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=40), st.booleans())
def test_pairs_are_counted_whether_or_not_most_of_them_occur(drawn: list[tuple[int, int]], dense: bool) -> None:
    codes, found_panes = np.array(drawn, dtype=np.int64).T
    with patch.object(pairs_module, "DENSE_GROUPS", 1 << 16 if dense else -(10**6)):
        pairs = Pairs.of(codes, 6, found_panes, 10)
    counts = pairs.counted()
    assert len(counts) == pairs.count
    key, pane = pairs.key_and_pane()
    told = {(k, p): n for k, p, n in zip(key.tolist(), pane.tolist(), counts.tolist(), strict=True) if n}
    assert told == Counter(drawn)
    key, pane = pairs.key_and_pane(pairs.groups)
    assert list(zip(key.tolist(), pane.tolist(), strict=True)) == drawn
    key, pane = pairs.key_and_pane(np.flatnonzero(counts))
    assert list(zip(key.tolist(), pane.tolist(), strict=True)) == sorted(set(drawn))
