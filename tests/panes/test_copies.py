"""Copies of segments on the host: as good as the state, and never needed."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from muntin.engine import state as values
from muntin.engine.state import MemoryState
from muntin.engine.store import Change, HotCache, PaneStore
from muntin.panes.watermarks import Watermarks
from muntin.spark.host.copies import LocalCopies
from muntin.spark.host.folder import HostFolder
from tests.builders import lift, make_plan, pane_values, row, sliding

QUERY = "0123456789abcdef" * 2
SEGMENT = f"7-{'0' * 32}"


@pytest.fixture(autouse=True)
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the query."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path / f"muntin-{os.geteuid()}" / QUERY


def test_a_copy_is_read_back_by_another_worker() -> None:
    LocalCopies(QUERY, 3).write(SEGMENT, b"bytes")
    assert LocalCopies(QUERY, 3).read(SEGMENT, 5) == b"bytes"
    assert LocalCopies(QUERY, 4).read(SEGMENT, 5) is None
    LocalCopies(QUERY, 3).delete(SEGMENT)
    assert LocalCopies(QUERY, 3).read(SEGMENT, 5) is None


def test_the_store_reads_copies_and_survives_damaged_ones(copies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "COPIED_BYTES", 0)
    plan, state = replace(make_plan([sliding(10, 5)]), host=HostFolder()), MemoryState()
    table = lift(plan, [row(1)])

    def cold() -> PaneStore:
        return PaneStore(plan, QUERY, 0, state, HotCache(capacity=1))

    cold().commit(Change(table, table, Watermarks.at(0)))
    (name,) = state.values
    original = state.values.pop(name)
    assert cold().table() is not None  # without the state's own value: the copy was read
    state.values[name] = original
    (copies / "0" / name).write_bytes(original[:-1] + b"?")
    found = cold().table()
    assert found is not None
    assert pane_values(plan, found) == pane_values(plan, table)
    cold().commit(Change(None, None, Watermarks.at(10**9)))  # all windows have closed
    assert [each.name for each in (copies / "0").iterdir()] == ["holder"]


def test_a_worker_gives_up_the_shards_that_another_one_has_now(copies: Path) -> None:
    plan, cache = replace(make_plan([sliding(10, 5)]), host=HostFolder()), HotCache(capacity=8)
    table = lift(plan, [row(1)])
    states = {shard: MemoryState() for shard in (0, 1)}
    headers = {}
    for shard in (0, 1):
        headers[shard] = PaneStore(plan, QUERY, shard, states[shard], cache).commit(
            Change(table, table, Watermarks.at(0))
        )
        cache.chunks(QUERY, shard)["chunk"] = b"bytes"
    (copies / "1" / "holder").write_text("another worker")
    PaneStore(plan, QUERY, 0, states[0], cache).commit(Change(table, None, Watermarks.at(1)))
    assert cache.table(QUERY, 1, headers[1].version) is None
    assert cache.chunks(QUERY, 1) == {}
    assert cache.chunks(QUERY, 0) == {"chunk": b"bytes"}
