from __future__ import annotations

import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.errors import StateError
from muntin.panes import packed
from muntin.plan import Plan
from tests import strategies
from tests.builders import CASES, check_table, lift, make_plan, row, sliding, to_batch
from tests.naive import Row

NAMES = st.lists(st.sampled_from(list(CASES)), min_size=1, max_size=4, unique=True)
PLANS = st.builds(make_plan, strategies.windows(2), strategies.KEYS, NAMES)
PLAN = make_plan([sliding(10, 5)], names=["max_w", "composed"])
VALUE = packed.pack(lift(PLAN, [row(1), row(2, k=None, w="v")]))


@given(PLANS, strategies.rows(min_size=1))
def test_round_trip(plan: Plan, rows: list[Row]) -> None:
    table = lift(plan, rows)
    back = packed.unpack(plan.layout, packed.pack(table))
    check_table(plan, back)
    assert back.keys.schema == table.keys.schema
    assert repr(back.keys.to_pylist()) == repr(table.keys.to_pylist())
    assert {name: each.to_pylist() for name, each in back.dictionaries.items()} == {
        name: each.to_pylist() for name, each in table.dictionaries.items()
    }
    for found, expected in zip(back.leaves, table.leaves, strict=True):
        columns = zip(
            (found.key, found.time, *found.state), (expected.key, expected.time, *expected.state), strict=True
        )
        assert all(a.tobytes() == b.tobytes() and a.dtype == b.dtype for a, b in columns)


@given(strategies.rows(st.none() | strategies.TIMES, min_size=1), strategies.rows())
def test_round_trip_of_rows(rows: list[Row], more: list[Row]) -> None:
    back = packed.unpack_rows(packed.pack_rows([to_batch(rows), to_batch(more)]))
    assert back.schema == to_batch(rows).schema
    assert list(map(repr, back.to_pylist())) == list(map(repr, to_batch([*rows, *more]).to_pylist()))


def test_round_trip_of_a_header() -> None:
    header = {"watermark": -(2**62), "segments": [{"name": "1"}], "version": "é"}
    assert packed.unpack_header(packed.pack_header(header)) == header


@given(st.integers(0, len(VALUE) - 1), st.integers(1, 255))
def test_a_damaged_byte(position: int, flip: int) -> None:
    damaged = bytearray(VALUE)
    damaged[position] ^= flip
    with pytest.raises(StateError):
        packed.unpack(PLAN.layout, bytes(damaged))


def test_every_damaged_byte_of_the_header() -> None:
    for position in range(12):
        for flip in range(1, 256):
            damaged = bytearray(VALUE)
            damaged[position] ^= flip
            with pytest.raises(StateError):
                packed.unpack(PLAN.layout, bytes(damaged))


@pytest.mark.parametrize("length", [0, 1, 11, 12, 13, len(VALUE) // 2, len(VALUE) - 1])
def test_cut_short(length: int) -> None:
    with pytest.raises(StateError, match=r"cut short|damaged"):
        packed.unpack(PLAN.layout, VALUE[:length])


def test_bytes_behind_the_end() -> None:
    with pytest.raises(StateError, match="damaged"):
        packed.unpack(PLAN.layout, VALUE + b"\0")


def test_a_newer_version_says_what_to_do() -> None:
    newer = VALUE[:4] + struct.pack("<H", packed.FORMAT_VERSION + 1) + VALUE[6:]
    with pytest.raises(StateError, match=r"format version 2; .* versions up to 1\. Install the Muntin that wrote it"):
        packed.unpack(PLAN.layout, newer)


def test_another_kind() -> None:
    rows = packed.pack_rows([to_batch([row(1)])])
    with pytest.raises(StateError):
        packed.unpack(PLAN.layout, rows)
    with pytest.raises(StateError):
        packed.unpack_rows(VALUE)
    with pytest.raises(StateError):
        packed.unpack_header(VALUE)


def test_not_ours() -> None:
    with pytest.raises(StateError, match="not one of Muntin's"):
        packed.unpack(PLAN.layout, b"PAR1" + VALUE[4:])


def test_other_keys() -> None:
    other = make_plan([sliding(10, 5)], keys=("w",), names=["max_w", "composed"])
    with pytest.raises(StateError, match="the keys"):
        packed.unpack(other.layout, VALUE)


def test_nothing_in_it_is_code() -> None:
    body = packed.unseal(packed.Kind.TABLE, VALUE)
    assert pa.ipc.open_stream(pa.py_buffer(body)).schema == PLAN.layout.keys
