"""Trees that live from batch to batch: what they combine, when they are made anew, and that nobody reads the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from muntin import aggregates as A
from muntin import windows as W
from muntin.arrays import Array, Int64Array
from muntin.engine import live, store
from muntin.engine.emitted import Results
from muntin.engine.live import LivePanes
from muntin.engine.map_stage import PaneStage
from muntin.engine.plan import Plan
from muntin.engine.shard import Shard
from muntin.engine.state import MemoryState
from muntin.engine.store import HotCache, PaneStore
from muntin.features.workers.policy import Workers
from muntin.panes.table import PaneTable
from tests.builders import TIME, living, make_plan, sliding
from tests.naive import Row

SECOND = 1_000_000
TYPES = {"t": TIME, "k": pa.int64(), "n": pa.int64()}


class Counted:
    """A sum, or the last value, that counts how many pairs are combined."""

    def __init__(self, *, last: bool = False) -> None:
        self.combines = 0
        self._last = last

    def aggregate(self) -> A.Aggregate:
        return A.custom(
            lambda n: n.astype(np.int64),
            self.combine,
            lambda n: n,
            returns="long",
            columns=["n"],
            commutative=not self._last,
        )

    def combine(self, left: Array, right: Array) -> Array:
        self.combines += len(left)
        return right if self._last else left + right


class Core:
    """A stream of one shard."""

    def __init__(self, windows: Sequence[W.Window], **aggregates: A.Aggregate) -> None:
        self.plan = Plan.make(
            time="t",
            windows=windows,
            types=TYPES,
            keys=["k"],
            aggregates={name: each.bind(TYPES, None, TIME) for name, each in aggregates.items()},
            shards=[0],
            streaming=True,
            delay=0,
        )
        self.state, self.cache = MemoryState(), HotCache(capacity=1)

    def batch(self, when: Int64Array, keys: Int64Array, watermark: int, n: Int64Array | None = None) -> list[Row]:
        """A batch of rows, and its results. All times are in seconds."""
        times = pa.array(when * SECOND + 1).cast(TIME)
        rows = pa.record_batch({"t": times, "k": keys, "n": np.ones(len(times), dtype=np.int64) if n is None else n})
        self.shard = Shard(self.plan, PaneStore(self.plan, "query", 0, self.state, self.cache), 0)
        emitted = self.shard.run(list(PaneStage(self.plan).run([rows])), watermark * SECOND)
        return [each for results in emitted if isinstance(results, Results) for each in results.rows.to_pylist()]

    def cold(self) -> PaneTable:
        """The table, as another worker reads it from the state."""
        table = PaneStore(self.plan, "query", 0, self.state, HotCache(capacity=1)).table()
        assert table is not None
        return table

    @property
    def live(self) -> LivePanes | None:
        entry = self.cache._live.get(("query", 0))
        return None if entry is None else entry[1]


def seconds(size: int, slide: int) -> W.TimeWindow:
    return sliding(size * SECOND, slide * SECOND)


def every(begin: int, end: int, keys: int) -> tuple[Int64Array, Int64Array]:
    """A row per second and key."""
    when, key = np.divmod(np.arange(begin * keys, end * keys), keys)
    return when, key


PANES = 4096
LEVELS = 10
"""Of the tree: the widest nodes have a quarter of these panes."""


@contextmanager
def unread() -> Iterator[None]:
    """Nobody reads the table."""
    reads = patch.object(LivePanes, "_read", side_effect=AssertionError("somebody reads the table"))
    with patch.object(store, "FANOUT", 1 << 20), reads:
        yield


def started(core: Core, keys: int, panes: int = PANES) -> None:
    """The windows are full, and the first two have closed."""
    core.batch(*every(0, 0, 1), panes - 1)
    core.batch(*every(0, panes, keys), panes - 1)
    core.batch(*every(panes, panes + 1, keys), panes + 1)
    assert core.live is not None


def plain(*, last: bool) -> A.Aggregate:
    return A.last("n") if last else A.sum("n")


@pytest.mark.parametrize("keys", [2, 40])
@pytest.mark.parametrize("last", [False, True])
def test_a_slide_combines_a_logarithm_of_the_panes(keys: int, last: bool) -> None:
    counted = Counted(last=last)
    core = Core([seconds(PANES, 1)], n=counted.aggregate(), plain=plain(last=last))
    started(core, keys)
    with unread():
        for end in range(PANES + 2, PANES + 25):
            counted.combines = 0
            results = core.batch(*every(end - 1, end, keys), end)
            assert len(results) == keys
            assert all(each["n"] == each["plain"] for each in results)
            # A path above the new leaf, and a window.
            assert counted.combines <= keys * (LEVELS + 2 * LEVELS + 4)


def test_windows_that_close_alone_and_those_of_other_models_share_the_tree() -> None:
    counted, keys = Counted(), 5
    windows = [seconds(PANES, 1), seconds(1000, 1), seconds(600, 10), W.cumulative("3000 seconds", "1 second")]
    core = Core(windows, n=counted.aggregate(), plain=A.sum("n"))
    started(core, keys)
    with unread():
        for end in range(PANES + 4, PANES + 34, 3):
            counted.combines = 0
            results = core.batch(*every(end - 3, end, keys), end)
            assert len(results) >= 9 * keys
            assert all(each["n"] == each["plain"] for each in results)
            assert counted.combines <= keys * (6 + LEVELS) + len(results) * (2 * LEVELS + 4)


def test_late_rows_recompute_the_paths_above_them() -> None:
    counted, keys = Counted(), 30
    core = Core([seconds(PANES, 1)], n=counted.aggregate(), plain=A.sum("n"))
    started(core, keys)
    with unread():
        counted.combines = 0
        late = np.array([PANES // 2, PANES // 2 + 1, PANES // 3]), np.array([3, 3, 7])
        assert core.batch(*late, PANES + 1) == []
        assert 0 < counted.combines <= 3 * (1 + LEVELS)
        assert core.shard.metrics["rows"] == 3
        results = core.batch(*every(PANES + 1, PANES + 2, keys), PANES + 2)
        assert all(each["n"] == each["plain"] for each in results)
        expected = dict.fromkeys(range(keys), PANES) | {3: PANES + 2, 7: PANES + 1}
        assert {each["k"]: each["n"] for each in results} == expected


@pytest.mark.parametrize("last", [False, True])
def test_a_row_before_others_of_its_pane(last: bool) -> None:
    """Where the order matters, a pane is combined anew from its tuples; not the others."""
    counted = Counted(last=last)
    core = Core([W.sliding("100 seconds", "2 seconds")], n=counted.aggregate(), plain=plain(last=last))
    with living():
        started(core, 2, panes=100)
        for at in (99, 98, 96, 97):
            counted.combines = 0
            core.batch(np.array([at]), np.array([1]), 101, np.array([1000 + at]))
            assert counted.combines <= 12
        assert core.live is not None
        for each in core.batch(*every(101, 110, 2), 110):
            assert each["n"] == each["plain"]


def test_a_cold_worker_builds_once() -> None:
    counted, keys = Counted(), 3
    core = Core([seconds(PANES, 1)], n=counted.aggregate(), plain=A.sum("n"))
    started(core, keys)
    core.cache = HotCache(capacity=1)
    counted.combines = 0
    core.batch(*every(PANES + 1, PANES + 2, keys), PANES + 2)
    assert core.live is not None
    assert PANES < counted.combines <= keys * (3 * PANES)  # one reduced window, and a tree
    counted.combines = 0
    results = core.batch(*every(PANES + 2, PANES + 3, keys), PANES + 3)
    assert counted.combines <= keys * (3 * LEVELS + 4)
    assert [each["n"] for each in results] == [PANES] * keys


def test_a_failed_batch_leaves_no_trees_behind() -> None:
    core, keys = Core([seconds(PANES, 1)], n=A.sum("n")), 3
    started(core, keys)
    with patch.object(MemoryState, "write_header", side_effect=OSError("full")), pytest.raises(OSError, match="full"):
        core.batch(*every(PANES + 1, PANES + 2, keys), PANES + 2)
    assert core.live is None
    for end in (PANES + 2, PANES + 3):
        assert [each["n"] for each in core.batch(*every(end - 1, end, keys), end)] == [PANES] * keys
    assert core.live is not None


def test_keys_come_and_go() -> None:
    """Their places in the ring are used again."""
    core = Core([seconds(64, 1)], n=A.sum("n"), last=A.last("n"))
    with living():
        sizes = []
        for end in range(1, 600, 3):
            key = np.arange(end // 30, end // 30 + 7)
            when, keys = np.repeat(np.arange(end - 1, end + 2), len(key)), np.tile(key, 3)
            results = core.batch(when, keys, end)
            assert {each["k"] for each in results} <= set(range((end - 66) // 30, end // 30 + 7))
            if core.live is not None:
                sizes.append(core.live.nbytes)
                assert core.shard.metrics["hot_bytes"] > sizes[-1]
        assert len(sizes) > 100
        assert max(sizes[50:]) <= max(sizes[:50])
        assert core.shard.metrics["panes"] == len(core.cold().panes)


def test_time_jumps_and_rows_of_the_future() -> None:
    """Trees are given up where the ring would be almost empty, and made anew later."""
    core, keys = Core([seconds(PANES, 1)], n=A.sum("n")), 3
    started(core, keys)
    core.batch(np.array([10**8]), np.array([1]), PANES + 1)
    assert core.live is None
    results = core.batch(*every(PANES + 1, PANES + 2, keys), PANES + 2)
    assert [each["n"] for each in results] == [PANES] * keys
    results = core.batch(*every(0, 0, 1), 10**8 + 1)
    assert len(results) == keys * (PANES - 1) + 1
    core.batch(*every(10**8, 10**8 + PANES, keys), 10**8 + 1)
    for end in range(10**8 + PANES, 10**8 + PANES + 3):
        results = core.batch(*every(end, end + 1, keys), end)
    assert core.live is not None
    assert [each["n"] for each in results] == [PANES, PANES, PANES]


@pytest.mark.parametrize(
    ("size", "keys"),
    [(1, 3000), (live.FEWEST_PANES - 1, 500), (PANES, live.FEWEST_LEAVES // PANES - 1)],
    ids=["tumbling", "few panes", "few leaves"],
)
def test_where_building_anew_is_cheaper_no_tree_lives(size: int, keys: int) -> None:
    core = Core([seconds(size, 1)], n=A.sum("n"))
    core.batch(*every(0, size, keys), 0)
    for end in range(size + 1, size + 4):
        core.batch(*every(end - 1, end, min(keys, 10)), end)
        assert core.live is None


def test_where_most_places_of_the_ring_would_be_empty_no_tree_lives() -> None:
    core, keys = Core([seconds(PANES, 1)], n=A.sum("n")), 500
    sparse = np.arange(keys * PANES // (2 * live.SPARSE))
    assert len(sparse) > live.FEWEST_LEAVES
    core.batch(*every(0, 0, 1), PANES - 1)
    core.batch(sparse // keys * 2 * live.SPARSE, sparse % keys, PANES - 1)
    for end in range(PANES + 1, PANES + 4):
        results = core.batch(*every(end - 1, end, 10), end)
        assert len(results) >= keys
        assert core.live is None


def test_no_tree_is_built_while_most_is_new() -> None:
    core, keys = Core([seconds(100, 1)], n=A.sum("n")), 100
    for begin in range(0, 1000, 100):
        core.batch(*every(begin, begin + 100, keys), begin + 100)
        assert core.live is None
    core.batch(*every(1000, 1005, keys), 1005)
    assert core.live is not None


def test_a_tree_is_given_up_where_most_is_new() -> None:
    core, keys = Core([seconds(100, 1)], n=A.sum("n")), 100
    started(core, keys, panes=100)
    core.batch(*every(101, 181, keys), 181)
    assert core.live is not None  # built anew, as less than half of the panes was new
    core.batch(*every(181, 381, keys), 381)
    assert core.live is None
    results = core.batch(*every(381, 382, keys), 382)
    assert [each["n"] for each in results] == [100] * keys
    assert core.live is not None


def test_tables_and_windows_for_tasks_have_no_trees() -> None:
    sizes = [sliding(24, 3)]
    assert make_plan(sizes, streaming=True).lives
    assert not make_plan(sizes).lives
    assert not make_plan([W.count(10)], streaming=True).lives
    for model in ("active", "agnostic"):
        plan = make_plan(sizes, streaming=True, shards=(0, 1), workers=Workers(model, tasks=2))
        assert not plan.of_shard(0).lives


def test_panes_are_in_memory_once() -> None:
    """The table reads them from the tree, as they are in the state."""
    keys, core = 40, Core([seconds(100, 1)], n=A.sum("n"), last=A.max("n"))
    with living():
        started(core, keys, panes=100)
        for end in range(102, 130):
            core.batch(*every(end - 1, end, keys), end, np.arange(keys) * end)
            (_, table), live = core.cache._tables["query", 0], core.live
            assert live is not None
            assert table.nbytes < 1000  # the keys
            fields = table.leaves[0].state
            assert len(fields) > len(live._sets[0][1].leaf_set.fields)  # no window asks for some
            assert live.nbytes < 2.4 * (len(table.panes) * sum(column.itemsize for column in fields)) + 20_000
            cold = core.cold()
            assert table.keys.equals(cold.keys)
            for mine, theirs in zip(table.leaves, cold.leaves, strict=True):
                assert np.array_equal(mine.key, theirs.key)
                assert np.array_equal(mine.time, theirs.time)
                assert all(map(np.array_equal, mine.state, theirs.state))


def test_leaves_of_a_tree_that_has_changed_cannot_be_read() -> None:
    core = Core([seconds(100, 1)], n=A.sum("n"))
    with living():
        started(core, 3, panes=100)
        (_, table) = core.cache._tables["query", 0]
        core.batch(*every(101, 102, 3), 102)
        assert len(table.panes) == 3 * 99
        with pytest.raises(AssertionError, match="changed"):
            table.panes.key  # noqa: B018


def test_a_row_before_all_panes_is_there_when_the_table_is_read() -> None:
    core = Core([seconds(100, 1)], n=A.sum("n"))
    with living():
        core.batch(*every(50, 60, 2), 1)
        for at in (70, 75, 10, 5):
            core.batch(np.array([at]), np.array([5]), 1)
            assert core.live is not None
        table = PaneStore(core.plan, "query", 0, core.state, core.cache).table()
        assert table is not None
        assert sorted((table.panes.time[table.panes.key == 2] // SECOND).tolist()) == [5, 10, 70, 75]
        assert len(table.panes) == len(core.cold().panes)
