"""Compression by key: rows of idle keys are compressed, those of active ones are not, and results are the same."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import windows as W
from muntin.engine.plan import Plan
from muntin.engine.store import HotCache
from muntin.errors import MuntinError
from muntin.features.compression.by_key import WORTHWHILE
from muntin.features.compression.policy import Compression
from muntin.panes import packed
from muntin.panes.table import PaneTable
from tests.builders import Step, Stream, make_plan, row, sliding, tiny
from tests.checkpoints.queries import QUERIES, TYPES, WRITTEN, answers, batches, load, same
from tests.chunks.test_chunks import (
    CODECS,
    PLANS,
    check_contents,
    check_metrics,
    compressed,
    headers,
    plan_of,
    run,
    stored,
    told,
)
from tests.naive import Row
from tests.stages.test_models import CLOSING, LIMITS, STEPS, check_state, shifted

BY_KEY = st.builds(
    lambda after, codec: Compression(after, codec[0], codec[1], unit="key"), st.sampled_from([0, 1, 7, 25, 80]), CODECS
)
ANY_UNIT = BY_KEY | st.builds(Compression, st.sampled_from([None, 0, 7, 25])) | st.just(Compression(None, memory=10**6))
Time = int
Key = str


@dataclass
class Tuples:
    """The times of the tuples of each key in a shard, by where they are."""

    compressed: dict[Key, list[Time]] = field(default_factory=lambda: defaultdict(list))
    uncompressed: dict[Key, list[Time]] = field(default_factory=lambda: defaultdict(list))
    waiting: dict[Key, list[Time]] = field(default_factory=lambda: defaultdict(list))

    def last(self, key: Key, finalized: Time) -> Time:
        places = (self.compressed, self.uncompressed, self.waiting)
        return max(time for place in places for time in place[key] if time < finalized)


def tuples_of(stream: Stream, shard: int) -> Tuples:
    store, found = stream.store(shard), Tuples()
    for chunk in store.header.chunks:
        table = packed.unpack_chunk(stream.plan.layout, stored(stream, shard, chunk))
        _add(table, found.compressed if chunk.compressed else found.uncompressed)
    panes = store.table()
    if panes is not None:
        _add(panes, found.waiting)
    return found


def _add(table: PaneTable, into: dict[Key, list[Time]]) -> None:
    keys = [repr(key) for key in table.keys.to_pylist()]
    assert table.tuples is not None
    for code, time in zip(table.tuples.key.tolist(), table.tuples.time.tolist(), strict=True):
        into[keys[code]].append(time)


@dataclass
class Idle:
    """What may be compressed: all tuples of a key up to its last one, once that was D ago; and what has to be."""

    after: int
    until: dict[tuple[int, Key], Time] = field(default_factory=dict)

    def check(self, stream: Stream) -> None:
        for shard, header in headers(stream).items():
            found, finalized = tuples_of(stream, shard), header.finalized
            last = {key: found.last(key, finalized) for key in [*found.compressed, *found.uncompressed]}
            idle = {key: finalized - time for key, time in last.items()}
            for key, since in idle.items():
                if since >= self.after:
                    self.until[shard, key] = max(self.until.get((shard, key), -(1 << 62)), last[key])
            for key, times in found.compressed.items():
                assert max(times, default=-(1 << 62)) <= self.until.get((shard, key), -(1 << 62)), "its key is active"
            left = {key: len(times) for key, times in found.uncompressed.items() if times}
            assert all(idle[key] < max(2 * self.after, 1) for key in left)
            forgotten = sum(count for key, count in left.items() if idle[key] >= self.after)
            assert forgotten < WORTHWHILE * sum(left.values()) or not forgotten


@settings(max_examples=15)
@given(PLANS, BY_KEY, STEPS, LIMITS)
def test_idle_keys_are_compressed_and_active_ones_are_not(
    plan: Plan, compression: Compression, steps: list[Step], limits: tuple[int, int, int]
) -> None:
    assert compression.after is not None
    stream, idle = Stream(compressed(plan, compression)), Idle(compression.after)
    with tiny(*limits):
        expected = list(run(Stream(plan), steps))
        before = headers(stream)
        for found, wanted in zip(run(stream, steps), expected, strict=True):
            assert found == wanted
            check_state(stream)
            check_metrics(stream, before)
            check_contents(stream)
            idle.check(stream)
            before = headers(stream)
    assert not any(header.chunks for header in before.values()) or plan.needs_order


@settings(max_examples=12)
@given(PLANS, st.lists(ANY_UNIT, min_size=1, max_size=4), STEPS, LIMITS)
def test_any_policy_goes_on_from_any_other(
    plan: Plan, policies: list[Compression], steps: list[Step], limits: tuple[int, int, int]
) -> None:
    """Every batch runs under another policy, by a worker that knows only the state."""
    with tiny(*limits):
        expected, watermark = list(run(Stream(plan), steps)), 0
        stream = Stream(plan)
        for number, step in enumerate([*steps, CLOSING]):
            stream.plan = compressed(plan, policies[number % len(policies)])
            stream.cache = HotCache(capacity=8)
            rows = [shifted(each, watermark) for each in step.rows]
            watermark += step.advance
            assert told(stream.run(step, rows, watermark)) == expected[number]
            check_state(stream)


@pytest.mark.parametrize("name", ["holistic", "compressed", "function"])
def test_old_state_goes_on_by_key(name: str) -> None:
    """A checkpoint of version 0.1.0, which knows no unit; then on without the unit again."""
    stream, (states, expected) = Stream(QUERIES[name]()), load(name)
    stream.restore(states)
    without = stream.plan
    option = Compression.of("3 microseconds", "zstd", None, None, given_after=True, unit="key")
    by_key = make_plan(
        without.windows,
        without.keys,
        [output.name for output in without.outputs],
        streaming=True,
        types=TYPES,
        delay=without.delay,
        shards=without.shards,
        applied=None if without.function is None else without.function.applied,  # type: ignore[attr-defined]
        compression=option,
    )
    half = WRITTEN + len(expected) // 2
    for number, ((rows, watermark), emitted) in enumerate(zip(batches()[WRITTEN:], expected, strict=True), WRITTEN):
        stream.plan = by_key if number < half else without
        for found, one in zip(answers(stream, rows, watermark), emitted, strict=True):
            assert same(json.loads(found), json.loads(one)), (found, one)
        if number < half:
            assert stream.total("total_compressions") > 0


# One stream, step by step


def keyed(after: int, *windows: W.Window, **others: Any) -> Stream:
    policy = Compression(after, unit="key", **others)
    return Stream(plan_of(list(windows) or [sliding(400, 10)], ("k",), ["median_x"], compression=policy))


def rows_of(keys: Iterable[str], times: Iterable[int]) -> list[Row]:
    return [{**row(t, k, x=float(t * 7 % 5)), "d": None, "e": None} for t in times for k in keys]


def by_place(stream: Stream) -> tuple[set[str], set[str]]:
    """The keys of compressed and of uncompressed tuples."""
    found = tuples_of(stream, 0)
    idle, active = ({key for key, times in place.items() if times} for place in (found.compressed, found.uncompressed))
    return idle, active


def name(key: str) -> str:
    return repr({"k": key})


def test_all_rows_of_an_idle_key_and_none_of_an_active_one() -> None:
    stream = keyed(30)
    for begin in range(0, 200, 10):
        keys = ["active", "idle"] if begin < 100 else ["active"]
        stream.batch(rows_of(keys, range(begin, begin + 10)), begin + 10)
        found = tuples_of(stream, 0)
        is_compressed = begin + 10 >= 99 + 30
        assert found.compressed[name("active")] == []
        assert found.compressed[name("idle")] == (list(range(100)) if is_compressed else [])
        assert sorted(found.uncompressed[name("active")]) == list(range(begin + 10))
        assert stream.total("compressed_tuples") == 100 * is_compressed
    assert stream.total("total_compressions") == 1
    (chunk,) = [chunk for chunk in headers(stream)[0].chunks if chunk.compressed]
    assert (chunk.first, chunk.last, chunk.tuples) == (0, 99, 100)


def test_a_key_that_returns_begins_anew() -> None:
    """Its rows from before stay compressed: nothing has to be decompressed to add a row."""
    stream = keyed(30)
    stream.batch(rows_of(["back", "always"], range(10)), 10)
    for begin in range(10, 60, 10):
        stream.batch(rows_of(["always"], range(begin, begin + 10)), begin + 10)
    decompressions = stream.total("total_decompressions")
    stream.batch(rows_of(["back", "always"], range(60, 70)), 70 - 1)
    found = tuples_of(stream, 0)
    assert found.compressed == {name("back"): list(range(10))}
    assert sorted(found.uncompressed[name("back")]) == []  # the last pane is not complete
    assert sorted(found.waiting[name("back")]) == list(range(60, 70))
    stream.batch([], 90)
    assert sorted(tuples_of(stream, 0).uncompressed[name("back")]) == list(range(60, 70))
    stream.batch([], 100)
    assert sorted(tuples_of(stream, 0).compressed[name("back")]) == [*range(10), *range(60, 70)]
    assert decompressions <= stream.total("total_decompressions")


def test_rows_that_wait_keep_their_key_active() -> None:
    stream = keyed(5, sliding(400, 100))
    stream.batch(rows_of(["a", "b"], range(90, 100)), 100)
    stream.batch(rows_of(["a"], range(100, 120)), 120)  # the pane from 100 to 200 is not complete
    assert by_place(stream) == ({name("b")}, {name("a")})


def test_late_rows_of_an_idle_key_are_compressed_at_once() -> None:
    stream = keyed(30)
    for begin in range(0, 100, 10):
        stream.batch(rows_of(["a", "b"] if begin < 20 else ["a"], range(begin, begin + 10)), begin + 10)
    stream.batch([*rows_of(["b"], [12, 13]), *rows_of(["a"], [14])], 100)
    found = tuples_of(stream, 0)
    assert sorted(found.compressed[name("b")]) == sorted([*range(20), 12, 13])
    assert found.compressed[name("a")] == []
    assert found.uncompressed[name("a")].count(14) == 2


def test_a_few_idle_keys_wait_for_others() -> None:
    """Splitting rewrites chunks: for one key in twenty, that is done once it was idle for 2 D."""
    stream = keyed(30)
    many = [f"key {i}" for i in range(20)]
    for begin in range(0, 200, 10):
        before = {chunk.name for chunk in headers(stream)[0].chunks}
        stream.batch(rows_of(many if begin < 50 else many[1:], range(begin, begin + 10)), begin + 10)
        finalized, after = begin + 10, headers(stream)[0].chunks
        assert {name("key 0")} == by_place(stream)[0] if finalized >= 49 + 60 else not by_place(stream)[0]
        if finalized - 10 < 49 + 60 <= finalized:
            assert len(before & {chunk.name for chunk in after}) == 5  # where that key has no rows
        else:
            assert before < {chunk.name for chunk in after}


def test_chunks_of_idle_keys_stay_few() -> None:
    """In every batch another key ends."""
    stream = keyed(0, sliding(4_000, 10))
    most = 0
    with tiny(fanout=4, useless=1 << 12, most=1 << 20):
        for begin in range(0, 1_000, 10):
            stream.batch(rows_of([f"key {begin}"], range(begin, begin + 10)), begin + 10)
            assert by_place(stream)[1] == set()
            most = max(most, len(headers(stream)[0].chunks))
    assert most < 3 * 6  # three of each size
    assert stream.total("compressed_tuples") == 1_000


def test_rows_that_no_window_needs_leave_the_chunks_of_idle_keys() -> None:
    stream = keyed(20, sliding(100, 10))
    for begin in range(0, 400, 10):
        keys = ["always", *(["long"] if begin < 100 else [])]
        stream.batch(rows_of(keys, range(begin, begin + 10)), begin + 10)
        times = tuples_of(stream, 0).compressed[name("long")]
        useless = [t for t in times if t < begin + 10 - 100 + 10]
        assert len(useless) <= len(times) / 2 + 10
    assert tuples_of(stream, 0).compressed == {}


def test_many_idle_rows_make_several_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muntin.features.compression.by_key.MOST_TUPLES", 70)
    stream = keyed(0, sliding(1_000, 100))
    stream.batch(rows_of(["a", "b"], range(100)), 100)
    assert [chunk.tuples for chunk in headers(stream)[0].chunks if chunk.compressed] == [70, 70, 60]


# What a user may write


def of(**arguments: Any) -> Compression:
    named: dict[str, Any] = {
        "after": "1 minute",
        "codec": "zstd",
        "level": None,
        "memory": None,
        "given_after": True,
    } | arguments
    return Compression.of(**named)


def test_the_unit_is_one_of_two() -> None:
    assert of(unit="key") == Compression(60_000_000, unit="key")
    assert of() == of(unit="pane") == Compression(60_000_000)
    with pytest.raises(MuntinError, match=r"unit is 'keys'; it can be 'pane' or 'key'\. Did you mean 'key'\?"):
        of(unit="keys")
    with pytest.raises(MuntinError, match="unit is None; it can be 'pane' or 'key'"):
        of(unit=None)


def test_memory_is_by_pane() -> None:
    with pytest.raises(MuntinError, match=r"compress\(unit='key'\) needs after=.*memory= compresses the oldest panes"):
        of(after=None, memory="1 GB", given_after=False, unit="key")


def test_as_it_is_written() -> None:
    assert of(unit="key", codec="lz4").written == '.compress(after="1 minute", codec="lz4", unit="key")'
    assert of().written == '.compress(after="1 minute")'


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (
            "1 minute",
            "Compression: zstd, of all rows of a key 1 minute to 2 minutes of event time after the last of them",
        ),
        ("0 seconds", "Compression: zstd, of all rows of a key as soon as they are complete (D = 0 seconds)."),
        (None, "Compression: none;"),
    ],
)
def test_the_plan_says_it(after: str | None, expected: str) -> None:
    plan = plan_of([sliding(40, 10)], ("k",), ["median_x"])
    (line,) = of(after=after, unit="key").explained(plan)
    assert line.startswith(expected)
