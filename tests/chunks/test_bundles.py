"""Chunks share values of the state, and a value goes with the last of its chunks."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.engine.chunks import bundles
from muntin.engine.chunks.bundles import Bundles, Location
from muntin.engine.state import MemoryState, StateValues
from muntin.errors import StateError
from muntin.panes.packed import Kind, seal
from tests.builders import Stream, row, sliding
from tests.chunks.test_chunks import headers, in_order, plan_of


def opened(state: MemoryState, places: dict[str, Location] | None = None, limit: int | None = None) -> Bundles:
    return Bundles(StateValues(state, "bundles", 0), (places or {}).items(), limit)


def chunk(number: int, size: int) -> bytes:
    return seal(Kind.CHUNK, bytes([number % 256]) * size)


@given(
    st.lists(st.tuples(st.sampled_from(["add", "add alone", "drop", "write", "next batch"]), st.integers(0, 99))),
    st.integers(0, 300),
)
def test_any_order_of_events(events: list[tuple[str, int]], most: int) -> None:
    """What is there can be read at any time, and the state holds it and nothing that no chunk is in."""
    state, held = MemoryState(), dict[str, bytes]()
    with patch.object(bundles, "BUNDLE_BYTES", most):
        found = opened(state)
        for turn, (event, number) in enumerate(events):
            if event.startswith("add"):
                held[f"chunk-{turn}"] = chunk(turn, number)
                found.add(f"chunk-{turn}", held[f"chunk-{turn}"], alone=event == "add alone")
            elif event == "drop" and held:
                name = list(held)[number % len(held)]
                found.drop(name)
                del held[name]
            elif event in ("write", "next batch"):
                found.write()
                assert found.nbytes == sum(map(len, state.values.values()))
                assert state.values.keys() == {found.location(name).value for name in held}
                if event == "next batch":
                    found = opened(state, {name: found.location(name) for name in held})
            assert {name: found.read(name, len(value)) for name, value in held.items()} == held
    for name in held:
        found.drop(name)
    assert not state.values


def test_a_bundle_is_as_large_as_it_may_be_and_no_larger() -> None:
    state = MemoryState()
    with patch.object(bundles, "BUNDLE_BYTES", 1000):
        found = opened(state)
        for number in range(10):
            found.add(f"chunk-{number}", chunk(number, 288), alone=False)  # 300 with its seal
        found.write()
    assert sorted(len(value) - 12 for value in state.values.values()) == [300, 900, 900, 900]


def test_under_a_limit_bundles_are_small_beside_it() -> None:
    state = MemoryState()
    found = opened(state, limit=8 * 650)
    for number in range(4):
        found.add(f"chunk-{number}", chunk(number, 288), alone=False)
    found.write()
    assert sorted(len(value) - 12 for value in state.values.values()) == [600, 600]


def test_a_chunk_that_is_dropped_before_it_is_written_costs_nothing() -> None:
    state = MemoryState()
    found = opened(state)
    found.add("chunk-0", chunk(0, 10), alone=False)
    found.drop("chunk-0")
    found.write()
    assert not state.values


def test_a_damaged_bundle_is_said_to_be_one() -> None:
    state = MemoryState()
    found = opened(state)
    found.add("chunk-0", chunk(0, 10), alone=False)
    found.write()
    (name,) = state.values
    state.values[name] = state.values[name][:-1] + b"?"
    with pytest.raises(StateError, match="damaged"):
        opened(state, {"chunk-0": found.location("chunk-0")}).read("chunk-0", 22)


def test_many_chunks_take_few_values() -> None:
    """A fine slide: a hundred panes in a batch, one value, and no more when the next batch has come and gone."""
    stream = Stream(plan_of([sliding(100, 1)], ("k",), ["median_x"]))
    for rows, watermark in in_order(4, length=100):
        stream.batch(rows, watermark)
        (header,) = headers(stream).values()
        values = {each.location.value for each in header.chunks}
        assert len(header.chunks) >= 99
        assert len(values) <= 2
        assert stream.total("state_bytes") == sum(map(len, stream.states[0].values.values()))
    stream.batch([{**row(5000, "a"), "d": None, "e": None}], 4000)
    assert not headers(stream)[0].chunks


def test_chunks_of_version_1_have_values_of_their_own() -> None:
    """A header that names no bundles is one of the version before."""
    state = MemoryState()
    found = opened(state)
    found.add("chunk-0", chunk(0, 10), alone=True)
    assert found.location("chunk-0") == Location("chunk-0", 22, None)
    assert opened(state, {"chunk-0": Location("chunk-0", 22, None)}).read("chunk-0", 22) == chunk(0, 10)
