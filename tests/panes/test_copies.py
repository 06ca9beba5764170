"""Copies of segments on the host: as good as the state, and never needed."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from muntin.panes import copies, values
from muntin.panes.copies import LocalCopies, forget, query_folder
from muntin.panes.marks import Marks
from muntin.panes.store import HotCache, PaneStore, Totals
from muntin.panes.values import MemoryState
from tests.builders import lift, make_plan, pane_values, row, sliding


@pytest.fixture(autouse=True)
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path


def test_a_copy_is_read_back_by_another_worker() -> None:
    LocalCopies("query", 3).write("segment", b"bytes")
    assert LocalCopies("query", 3).read("segment") == b"bytes"
    assert LocalCopies("query", 4).read("segment") is None
    LocalCopies("query", 3).delete("segment")
    assert LocalCopies("query", 3).read("segment") is None


def test_a_folder_that_others_can_write_to_is_not_trusted(host: Path) -> None:
    LocalCopies("query", 3).write("segment", b"bytes")
    query_folder("query").parent.chmod(0o777)
    assert LocalCopies("query", 3).read("segment") is None


def test_what_cannot_be_written_is_a_copy_less(host: Path) -> None:
    query_folder("query").parent.write_text("a file where the folder should be")
    LocalCopies("query", 3).write("segment", b"bytes")
    assert LocalCopies("query", 3).read("segment") is None


def test_copies_go_with_their_query(host: Path) -> None:
    LocalCopies("query", 3).write("segment", b"bytes")
    forget("query")
    assert not query_folder("query").exists()


def test_stale_queries_are_swept(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    LocalCopies("old", 0).write("segment", b"bytes")
    monkeypatch.setattr(copies, "_STALE_SECONDS", -1)
    LocalCopies("new", 0).write("segment", b"bytes")
    assert not query_folder("old").exists()
    assert LocalCopies("new", 0).read("segment") == b"bytes"


def test_the_store_reads_copies_and_survives_damaged_ones(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "COPIED_BYTES", 0)
    plan, state = make_plan([sliding(10, 5)]), MemoryState()
    table = lift(plan, [row(1)])

    def cold() -> PaneStore:
        return PaneStore(plan, "query", 0, state, HotCache(capacity=1))

    cold().commit(table, table, Marks.at(0), Totals())
    (name,) = state.values
    original = state.values.pop(name)
    assert cold().table() is not None  # without the state's own value: the copy was read
    state.values[name] = original
    (query_folder("query") / "0" / name).write_bytes(original[:-1] + b"?")
    found = cold().table()
    assert found is not None
    assert pane_values(plan, found) == pane_values(plan, table)
    cold().commit(None, None, Marks.at(10**9), Totals())  # all windows have closed
    assert [each.name for each in (query_folder("query") / "0").iterdir()] == ["holder"]


def test_a_worker_gives_up_the_shards_that_another_one_has_now(host: Path) -> None:
    plan, cache = make_plan([sliding(10, 5)]), HotCache(capacity=8)
    table = lift(plan, [row(1)])
    states = {shard: MemoryState() for shard in (0, 1)}
    headers = {}
    for shard in (0, 1):
        headers[shard] = PaneStore(plan, "query", shard, states[shard], cache).commit(
            table, table, Marks.at(0), Totals()
        )
        cache.chunks("query", shard)["chunk"] = b"bytes"
    (query_folder("query") / "1" / "holder").write_text("another worker")
    PaneStore(plan, "query", 0, states[0], cache).commit(table, None, Marks.at(1), Totals())
    assert cache.get("query", 1, headers[1].version) is None
    assert cache.chunks("query", 1) == {}
    assert cache.chunks("query", 0) == {"chunk": b"bytes"}
