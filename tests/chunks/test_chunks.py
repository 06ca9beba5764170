"""Chunks over the life of a stream: whatever becomes of them, the results are the same to the bit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import windows as W
from muntin.arrays import BoolArray
from muntin.engine.chunks.store import Chunk, ChunkStore
from muntin.engine.contents import ShardTuples
from muntin.engine.metrics import Metrics
from muntin.engine.operators.operator import Answers, WindowOperator
from muntin.engine.plan import Plan
from muntin.engine.store import Header, HotCache
from muntin.errors import MuntinError
from muntin.features.compression.policy import Compression
from muntin.panes import packed
from tests import builders, naive, strategies
from tests.builders import CASES, HOLISTIC, NEVER_COMPRESSED, Found, Step, Stream, make_plan, row, sliding, tiny, us
from tests.naive import Row
from tests.stages.test_models import CLOSING, DELAYS, LIMITS, STEPS, check_state, shifted, without_order

TYPES = builders.TYPES | strategies.GROWING
ONE_MODEL = st.one_of(st.builds(sliding, strategies.LENGTHS, strategies.LENGTHS), *strategies.MODELS.values())
WINDOWS = ONE_MODEL.map(lambda window: [window]) | strategies.models()
OVER_TIME = strategies.windows() | strategies.SESSIONS.map(lambda window: [window])
NAMES = st.tuples(
    st.lists(st.sampled_from(list(HOLISTIC)), min_size=1, max_size=2, unique=True),
    st.lists(st.sampled_from(list(CASES)), max_size=2, unique=True),
).map(lambda both: list(dict.fromkeys([*both[0], *both[1]])))
CODECS = st.sampled_from([("snappy", None), ("lz4", None), ("lz4", 9), ("zstd", None), ("zstd", 1), ("zstd", 19)])
DELAYED = st.builds(lambda after, codec: Compression(after, *codec), st.sampled_from([None, 0, 1, 7, 25]), CODECS)
WITHIN_MEMORY = st.builds(
    lambda codec, memory: Compression(None, codec[0], codec[1], memory),
    CODECS,
    st.sampled_from([4_000, 8_000, 16_000, 40_000]),
)


def plan_of(
    windows: Sequence[W.Window],
    keys: tuple[str, ...],
    names: list[str],
    shards: tuple[int, ...] = (0,),
    delay: int | None = None,
    compression: Compression = NEVER_COMPRESSED,
) -> Plan:
    names = without_order(names, list(windows))
    return make_plan(
        windows, keys, names, shards=shards, streaming=True, types=TYPES, delay=delay, compression=compression
    )


PLANS = st.builds(plan_of, WINDOWS, strategies.KEYS, NAMES, strategies.SHARDS, DELAYS)


def compressed(plan: Plan, compression: Compression) -> Plan:
    """The same query under another policy."""
    return make_plan(
        plan.windows,
        plan.keys,
        [output.name for output in plan.outputs],
        shards=plan.shards,
        streaming=True,
        types=TYPES,
        delay=plan.delay,
        compression=compression,
    )


def told(found: Found) -> str:
    """Results as they are, in their order: floating numbers to the last bit but for which NaN."""
    return repr(found)


def run(stream: Stream, steps: Sequence[Step]) -> Iterator[str]:
    watermark = 0
    for step in [*steps, CLOSING]:
        rows = [shifted(each, watermark) for each in step.rows]
        watermark += step.advance
        yield told(stream.run(step, rows, watermark))


def headers(stream: Stream) -> dict[int, Header]:
    return {shard: stream.store(shard).header for shard in stream.plan.shards}


# Results


@settings(max_examples=25)
@given(PLANS, DELAYED, STEPS, LIMITS)
def test_any_delay_and_codec_gives_the_same(
    plan: Plan, compression: Compression, steps: list[Step], limits: tuple[int, int, int]
) -> None:
    stream = Stream(compressed(plan, compression))
    with tiny(*limits):
        expected = list(run(Stream(plan), steps))
        before = headers(stream)
        for found, wanted in zip(run(stream, steps), expected, strict=True):
            assert found == wanted
            check_state(stream)
            check_metrics(stream, before)
            check_contents(stream)
            before = headers(stream)
            for header in before.values():
                check_age(header, compression)


@settings(max_examples=25)
@given(PLANS, WITHIN_MEMORY, STEPS, LIMITS)
def test_any_limit_of_memory_gives_the_same_or_is_said_to_be_too_small(
    plan: Plan, compression: Compression, steps: list[Step], limits: tuple[int, int, int]
) -> None:
    assert compression.memory is not None
    stream = Stream(compressed(plan, compression))
    with tiny(*limits):
        expected = iter(list(run(Stream(plan), steps)))
        before = headers(stream)
        try:
            for found in run(stream, steps):
                assert found == next(expected)
                check_state(stream)
                check_metrics(stream, before)
                for shard, header in headers(stream).items():
                    check_oldest_first(before[shard], header)
                    assert stream.metrics[shard].resident_bytes <= compression.memory // len(plan.shards)
                before = headers(stream)
        except MuntinError as error:
            assert f"memory= leaves to each shard (shards: {len(plan.shards)})" in str(error)  # noqa: PT017


def check_metrics(stream: Stream, before: dict[int, Header]) -> None:
    """What is told of chunks is what the header says of them."""
    for shard, metrics in stream.metrics.items():
        header, earlier = stream.store(shard).header, before[shard]
        resident = stream.cache.chunks("query", shard)
        chunks = {chunk.name: chunk for chunk in header.chunks}
        assert metrics.chunks == len(chunks) == len(header.chunks)
        assert metrics.chunk_tuples == sum(chunk.tuples for chunk in header.chunks)
        assert metrics.compressed_chunks == sum(chunk.compressed for chunk in header.chunks)
        sizes = {name: len(value) for name, value in stream.states[shard].values.items()}
        assert all(sizes[chunk.location.value] == chunk.location.size for chunk in header.chunks)
        hot = [chunk for chunk in header.chunks if not chunk.compressed]
        assert metrics.uncompressed_bytes == sum(chunk.size for chunk in hot) == sum(chunk.raw for chunk in hot)
        assert metrics.compressed_bytes == sum(chunk.size for chunk in header.chunks if chunk.compressed)
        assert metrics.state_bytes == sum(sizes.values())
        assert resident.keys() <= chunks.keys()
        assert metrics.resident_bytes == sum(map(len, resident.values()))
        assert metrics.left_chunks == len(chunks) - len(resident)
        assert all(value == stored(stream, shard, chunks[name]) for name, value in resident.items())
        youngest = max((chunk.last for chunk in header.chunks if chunk.compressed), default=header.finalized)
        assert metrics.compressed_after == max(0, header.finalized - youngest)
        known = {chunk.name for chunk in earlier.chunks}
        assert metrics.compressions >= sum(chunk.compressed for name, chunk in chunks.items() if name not in known)
        assert metrics.total_compressions == earlier.totals.get("compressions", 0) + metrics.compressions
        assert metrics.total_decompressions == earlier.totals.get("decompressions", 0) + metrics.decompressions


def stored(stream: Stream, shard: int, chunk: Chunk) -> bytes:
    """The bytes of a chunk in the state."""
    location, value = chunk.location, stream.states[shard].values[chunk.location.value]
    return (
        value
        if location.offset is None
        else bytes(packed.unseal(packed.Kind.BUNDLE, value)[location.offset :][: chunk.size])
    )


def chunk_names(stream: Stream) -> list[tuple[int, str]]:
    named = ((shard, name) for shard, state in stream.states.items() for name in sorted(state.values))
    return [(shard, name) for shard, name in named if name.startswith(("chunk-", "bundle-"))]


def check_contents(stream: Stream) -> None:
    """Tuples by key and time; no columns but those of the query, and no keys but those of the tuples."""
    layout = stream.plan.layout
    for shard, header in headers(stream).items():
        for chunk in header.chunks:
            table = packed.unpack_chunk(layout, stored(stream, shard, chunk))
            assert table.tuples is not None
            assert table.tuples.columns.schema == layout.tuples
            assert set(table.tuples.key.tolist()) == set(range(table.keys.num_rows))
            places = list(zip(table.tuples.key.tolist(), table.tuples.time.tolist(), strict=True))
            assert places == sorted(places)
            times = table.tuples.time
            assert (chunk.first, chunk.last, chunk.tuples) == (times.min(), times.max(), len(times))
            assert chunk.last < header.finalized


def check_age(header: Header, compression: Compression) -> None:
    """Exactly those are compressed that were not updated for D: so no other is older than one of them.

    That also holds right after pieces are folded: the new one is as old as the youngest of them, and chunks age last.
    """
    for chunk in header.chunks:
        due = compression.after is not None and header.finalized - chunk.last >= compression.after
        assert chunk.compressed == due


def check_oldest_first(before: Header, header: Header) -> None:
    """A batch under a limit compresses from the oldest chunk on, so none that it left alone is older.

    Chunks that were compressed in earlier batches may be younger than a chunk of tuples that came late, or that was
    folded: there is no need to compress that one as long as all fit.
    """
    known = {chunk.name for chunk in before.chunks}
    fresh = [age(chunk) for chunk in header.chunks if chunk.compressed and chunk.name not in known]
    alone = [age(chunk) for chunk in header.chunks if not chunk.compressed]
    assert not fresh or not alone or max(fresh) <= min(alone)


def age(chunk: Chunk) -> tuple[int, int]:
    return chunk.last, chunk.first


# The life of a chunk


@settings(max_examples=15)
@given(OVER_TIME, strategies.KEYS, NAMES, DELAYED, STEPS, LIMITS)
def test_chunks_go_when_their_last_window_has_closed(
    windows: list[W.Window],
    keys: tuple[str, ...],
    names: list[str],
    compression: Compression,
    steps: list[Step],
    limits: tuple[int, int, int],
) -> None:
    stream = Stream(plan_of(windows, keys, names, compression=compression))
    with tiny(*limits):
        for _ in run(stream, steps):
            (header,) = headers(stream).values()
            if not isinstance(windows[0], W.SessionWindow):
                for chunk in header.chunks:
                    (latest, *_) = max(naive.places({"t": chunk.last}, windows, ()))
                    assert latest > header.watermark
    assert header.chunks == ()
    assert not chunk_names(stream)
    assert not stream.cache.chunks("query", 0)


def in_order(batches: int, keys: Sequence[str] = ("a", "b", "c"), length: int = 10) -> Iterator[tuple[list[Row], int]]:
    """Rows in the order of their time, and the watermark behind each batch."""
    for batch in range(batches):
        times = range(batch * length, (batch + 1) * length)
        rows = [row(t, k, x=float(t * 7 % 5), n=t % 3, w=f"{t * t % 11}") for t in times for k in keys]
        yield [{**each, "d": None, "e": None} for each in rows], (batch + 1) * length


@pytest.mark.parametrize("after", [None, 0, 20])
def test_a_chunk_is_written_once_when_it_is_complete(after: int | None) -> None:
    plan = plan_of([sliding(40, 10)], ("k",), ["median_x"], compression=Compression(after))
    stream = Stream(plan)
    written: Counter[tuple[int, bool]] = Counter()
    names: set[str] = set()
    for rows, watermark in in_order(12):
        stream.batch(rows, watermark - 3)  # so the last three times of each batch wait
        for chunk in headers(stream)[0].chunks:
            assert chunk.first // 10 == chunk.last // 10
            assert chunk.tuples == 30
            if chunk.name not in names:
                names.add(chunk.name)
                written[chunk.first // 10, chunk.compressed] += 1
    assert set(written.values()) == {1}
    assert {pane for pane, _ in written} == set(range(11))
    assert len(headers(stream)[0].chunks) == 3


def test_a_chunk_is_kept_for_the_rare_key_that_needs_it() -> None:
    stream = Stream(plan_of([W.count(3)], ("k",), ["median_x"]))
    stream.batch([{**row(1, "rare", x=5.0), "d": None, "e": None}], 5)
    for rows, watermark in in_order(20):
        stream.batch([{**each, "t": each["t"] + 10} for each in rows], watermark + 10)
    (header,) = headers(stream).values()
    assert min(chunk.first for chunk in header.chunks) == 1
    late = [{**row(300, "rare", x=x), "d": None, "e": None} for x in (7.0, 9.0)]
    ((results,), _) = stream.batch(late, 400)
    assert [values for place, values in results if place[4] == ("rare",)] == [{"median_x": 7.0}]


def test_chunks_of_rare_keys_are_written_anew() -> None:
    with tiny(fanout=4, useless=10, most=1 << 20):
        stream = Stream(plan_of([W.count(3)], ("k",), ["median_x"]))
        stream.batch([{**row(1, "rare", x=5.0), "d": None, "e": None}], 5)
        for rows, watermark in in_order(20):
            stream.batch([{**each, "t": each["t"] + 10} for each in rows], watermark + 10)
            tuples = sum(chunk.tuples for chunk in headers(stream)[0].chunks)
            assert tuples <= 2 * 7 + 10 + 30  # twice what is needed, what is no matter, and the batch


# Decompression


@contextmanager
def opened() -> Iterator[tuple[Counter[str], Counter[str]]]:
    """The compressed chunks that are opened for windows, and those for being written anew."""
    for_windows: Counter[str] = Counter()
    others: Counter[str] = Counter()
    into = [for_windows]
    open_chunk, rewrite = ChunkStore.open, ChunkStore.rewrite

    def recording(self: ChunkStore, chunk: Chunk) -> object:
        into[-1][chunk.name] += chunk.compressed
        return open_chunk(self, chunk)

    def rewriting(self: ChunkStore, *arguments: object, **named: object) -> None:
        into.append(others)
        rewrite(self, *arguments, **named)  # type: ignore[arg-type]
        into.pop()

    with patch.object(ChunkStore, "open", recording), patch.object(ChunkStore, "rewrite", rewriting):
        yield for_windows, others


@settings(max_examples=20)
@given(PLANS, DELAYED, STEPS, LIMITS)
def test_windows_decompress_a_chunk_once_per_batch_at_most(
    plan: Plan, compression: Compression, steps: list[Step], limits: tuple[int, int, int]
) -> None:
    stream = Stream(compressed(plan, compression))
    watermark = 0
    with tiny(*limits):
        for step in [*steps, CLOSING]:
            rows = [shifted(each, watermark) for each in step.rows]
            watermark += step.advance
            if step.cold:
                stream.cache = HotCache(capacity=8)
            with opened() as (for_windows, others):
                stream.batch(rows, watermark)
            assert max(for_windows.values(), default=0) <= 1
            assert max(others.values(), default=0) <= 1
            assert stream.total("decompressions") == for_windows.total() + others.total()
            if not stream.total("results"):
                assert for_windows.total() == 0


def test_only_the_chunks_of_closing_windows_are_decompressed() -> None:
    plan = plan_of([sliding(20, 10), sliding(80, 80, name="long")], ("k",), ["median_x"], compression=Compression(0))
    stream = Stream(plan)
    with opened() as (for_windows, others):
        for rows, watermark in in_order(7):
            for_windows.clear()
            stream.batch(rows, watermark)
            chunks = {chunk.name: chunk for chunk in headers(stream)[0].chunks}
            assert {chunks[name].first for name in for_windows if name in chunks} <= {watermark - 20}
            assert for_windows.total() <= 1  # the window before the last pane is that of the batch
        stream.batch([], 100)
        assert not others.total()


# Memory


def run_in_order(plan: Plan, cold: bool) -> tuple[list[str], list[Metrics]]:
    """The results of each batch, and what the only shard did; cold, every batch comes to another worker."""
    stream = Stream(plan)
    found, metrics = [], []
    for rows, watermark in [*in_order(16, keys=[f"key {i}" for i in range(8)]), ([], 10_000)]:
        if cold:
            stream.cache = HotCache(capacity=8)
        found.append(told(stream.batch(rows, watermark)))
        metrics.append(stream.metrics[0])
    return found, metrics


@contextmanager
def groups() -> Iterator[list[int]]:
    """In how many groups of keys windows were answered."""
    counts: list[int] = []
    key_groups = ShardTuples._key_groups

    def counting(self: ShardTuples, operator: WindowOperator, answers: Answers) -> list[BoolArray | None]:
        found = key_groups(self, operator, answers)
        counts.append(len(found))
        return found

    with patch.object(ShardTuples, "_key_groups", counting):
        yield counts


@pytest.mark.parametrize(("memory", "least_groups"), [(5_000, 8), (7_000, 4), (12_000, 2), (50_000, 1)])
@pytest.mark.parametrize("cold", [False, True])
def test_groups_of_keys_under_a_limit_give_the_same(memory: int, least_groups: int, cold: bool) -> None:
    windows = [sliding(80, 10), sliding(40, 40, name="other")]
    names = ["median_x", "mode_w", "sum_n", "distinct_n"]
    expected, _ = run_in_order(plan_of(windows, ("k",), names), cold=False)
    with groups() as counts:
        found, metrics = run_in_order(
            plan_of(windows, ("k",), names, compression=Compression(None, memory=memory)), cold
        )
    assert found == expected
    assert max(counts) >= least_groups
    assert max(each.resident_bytes for each in metrics) <= memory
    if not cold:
        assert (sum(each.compressions for each in metrics) > 0) == (memory < 50_000)


def test_the_oldest_chunks_are_compressed_first_and_then_left_to_the_state() -> None:
    """Of chunks that came in order, and of which no window had need yet."""
    seen = set()
    for memory in range(4_000, 24_000, 1_000):
        # Windows end at 10 and at 90, and there are rows in between.
        plan = plan_of([sliding(90, 80)], ("k",), ["median_x"], compression=Compression(None, "lz4", memory=memory))
        stream = Stream(plan)
        for rows, watermark in [*in_order(9, keys=[f"key {i}" for i in range(12)])][1:]:
            stream.batch(rows, watermark - 10)
            chunks = headers(stream)[0].chunks
            are_compressed = [chunk.compressed for chunk in chunks]
            are_resident = [chunk.name in stream.cache.chunks("query", 0) for chunk in chunks]
            assert are_compressed == sorted(are_compressed, reverse=True)
            assert are_resident == sorted(are_resident)
            assert all(are_compressed) or all(are_resident)
            assert stream.total("resident_bytes") <= memory
            seen.add((any(are_compressed), all(are_compressed), all(are_resident)))
    assert {(False, False, True), (True, False, True), (True, True, False)} <= seen


def test_with_less_load_fresh_chunks_stay_as_they_are_again() -> None:
    plan = plan_of([sliding(30, 10)], ("k",), ["median_x"], compression=Compression(None, memory=6_000))
    stream = Stream(plan)
    for batch, (rows, watermark) in enumerate(in_order(24, keys=[f"key {i}" for i in range(20)])):
        stream.batch(rows if batch < 12 else rows[:2], watermark)
        if batch == 11:
            assert stream.total("compressed_chunks") > 0
    assert stream.total("compressed_chunks") == 0
    assert stream.total("total_compressions") > 0


@pytest.mark.parametrize("shards", [(0,), (0, 1)])
def test_one_chunk_that_is_larger_than_the_limit(shards: tuple[int, ...]) -> None:
    compression = Compression(None, memory=2_000 * len(shards))
    # With the pane from 1000 to 2000 no window ends.
    stream = Stream(plan_of([sliding(3000, 2000)], (), ["median_x"], shards, compression=compression))
    stream.batch([{**row(1000 + t), "d": None, "e": None} for t in range(300)], 1500)
    message = (
        rf"^One chunk of 300 tuples takes \d KB, more than the 2 KB that memory= leaves to each shard "
        rf"\(shards: {len(shards)}\); give more memory, or use windows with a shorter slide"
    )
    with pytest.raises(MuntinError, match=message):
        stream.batch([], 2000)


def test_a_key_whose_tuples_are_larger_than_the_limit() -> None:
    compression = Compression(None, memory=4_000)
    stream = Stream(plan_of([sliding(400, 10)], ("k",), ["median_x"], compression=compression))
    message = (
        r"^The [\d,]+ tuples in the windows of key {'k': 'often'} take about [45] KB, more than the 4 KB that memory= "
        r"leaves to each shard \(shards: 1\); give more memory, or use shorter windows or fewer columns"
    )
    with pytest.raises(MuntinError, match=message):  # noqa: PT012
        for rows, watermark in in_order(40, keys=["often"]):
            rare = {**row(rows[0]["t"], "rare"), "d": None, "e": None}
            stream.batch([*rows, rare], watermark)


@pytest.mark.parametrize("window", [W.count(40, 10), W.slide_by_tuple(us(40), 10), W.session(us(15))])
def test_pieces_are_not_folded_beyond_the_limit(window: W.Window) -> None:
    """All of them together are larger than the limit, and no piece and no key is."""
    names = ["median_x", "distinct_n"]
    keys = [f"key {i}" for i in range(8)]

    def told_by(compression: Compression) -> list[str]:
        stream = Stream(plan_of([window], ("k",), names, compression=compression))
        found = []
        for rows, watermark in in_order(30, keys):
            found.append(told(stream.batch(rows, watermark - 5)))
            if compression.memory is not None:
                assert stream.total("resident_bytes") <= compression.memory
                assert all(chunk.raw <= compression.memory for chunk in headers(stream)[0].chunks)
        return [*found, told(stream.batch([], 10_000))]

    with tiny(fanout=4, useless=1 << 12, most=1 << 20):
        expected = told_by(NEVER_COMPRESSED)
        assert told_by(Compression(None, memory=12_000)) == expected
    with tiny(fanout=4, useless=0, most=1 << 20):
        assert told_by(Compression(None, memory=12_000)) == expected
