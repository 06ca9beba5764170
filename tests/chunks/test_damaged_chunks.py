"""Chunks of which the state has lost something: an error that says so, and never another answer."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from muntin.engine import state as values
from muntin.engine.plan import Plan
from muntin.engine.store import HotCache
from muntin.errors import StateError
from muntin.features.compression.policy import Compression
from tests.builders import Step, Stream, sliding
from tests.chunks.test_chunks import DELAYED, PLANS, chunk_names, compressed, in_order, plan_of, told
from tests.stages.test_models import STEPS, shifted


@settings(max_examples=25)
@given(PLANS, DELAYED, STEPS, st.integers(0, 1 << 20), st.integers(0, 1 << 20), st.integers(1, 255))
def test_a_damaged_chunk_is_an_error_and_never_another_answer(
    plan: Plan, compression: Compression, steps: list[Step], which: int, position: int, flip: int
) -> None:
    stream, watermark = Stream(compressed(plan, compression)), 0
    for step in steps:
        rows = [shifted(each, watermark) for each in step.rows]
        watermark += step.advance
        stream.batch(rows, watermark)
    names = chunk_names(stream)
    assume(names)
    later = [shifted(each, watermark) for step in steps[:1] for each in step.rows]
    before = stream.snapshot()
    stream.cache = HotCache(capacity=8)
    expected = told(stream.batch(later, watermark + 1000))
    stream.restore(before)
    stream.cache = HotCache(capacity=8)
    shard, name = names[which % len(names)]
    damaged = bytearray(stream.states[shard].values[name])
    damaged[position % len(damaged)] ^= flip
    stream.states[shard].values[name] = bytes(damaged)
    try:
        assert told(stream.batch(later, watermark + 1000)) == expected
    except StateError:
        assert stream.states[shard].header == before[shard].header  # so the batch is not committed


@pytest.fixture(params=[None, 0], ids=["as they are", "compressed"])
def cold_stream(request: pytest.FixtureRequest) -> Stream:
    """A stream whose next batch, at a watermark of 60, has to read its chunks from the state."""
    stream = Stream(plan_of([sliding(40, 10)], ("k",), ["median_x"], compression=Compression(request.param)))
    for rows, watermark in in_order(4):
        stream.batch(rows, watermark - 1)
    stream.cache = HotCache(capacity=8)
    return stream


def test_any_damaged_byte(cold_stream: Stream) -> None:
    before = cold_stream.snapshot()
    for shard, name in chunk_names(cold_stream):
        value = before[shard].values[name]
        for position in range(0, len(value), 37):
            cold_stream.restore(before)
            cold_stream.cache = HotCache(capacity=8)
            damaged = value[:position] + bytes([value[position] ^ 0x10]) + value[position + 1 :]
            cold_stream.states[shard].values[name] = damaged
            with pytest.raises(StateError):
                cold_stream.batch([], 60)


def test_a_missing_chunk(cold_stream: Stream) -> None:
    shard, name = chunk_names(cold_stream)[0]
    del cold_stream.states[shard].values[name]
    with pytest.raises(StateError, match=f"Value {name} is missing from the state of shard 0"):
        cold_stream.batch([], 60)


def test_a_chunk_cut_short(cold_stream: Stream) -> None:
    shard, name = chunk_names(cold_stream)[0]
    cold_stream.states[shard].values[name] = cold_stream.states[shard].values[name][:-1]
    with pytest.raises(StateError, match="damaged"):
        cold_stream.batch([], 60)


def test_chunks_in_several_values(cold_stream: Stream) -> None:
    expected = told(cold_stream.batch([], 1000))
    with patch.object(values, "PART_BYTES", 100):
        stream = Stream(cold_stream.plan)
        for rows, watermark in in_order(4):
            stream.batch(rows, watermark - 1)
        assert any(name.endswith(".3") for _, name in chunk_names(stream))
        stream.cache = HotCache(capacity=8)
        assert told(stream.batch([], 1000)) == expected
        assert not chunk_names(stream)
