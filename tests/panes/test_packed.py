from __future__ import annotations

import struct
import zlib
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin import aggregates as A
from muntin.engine.plan import Plan
from muntin.errors import StateError
from muntin.holistic.applied import Applied
from muntin.panes import packed
from muntin.panes.table import PaneTable
from tests import strategies
from tests.builders import CASES, TIME, TYPES, bind, check_table, lift, make_plan, row, sliding, to_batch
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


NEWER = (
    rf"format version {packed.FORMAT_VERSION + 1}; .* versions up to {packed.FORMAT_VERSION}\. "
    "Install the Muntin that wrote it"
)


def test_version_1_is_read() -> None:
    body = VALUE[12:]
    older = VALUE[:4] + struct.pack("<HHI", 1, packed.Kind.TABLE, zlib.crc32(body)) + body
    assert packed.unpack(PLAN.layout, older).keys == packed.unpack(PLAN.layout, VALUE).keys


def test_equal_counts_are_written_once() -> None:
    plan = make_plan([sliding(10, 5)], names=["count", "count_x", "mean_n"])
    full = lift(plan, [row(i, x=1.0, n=i) for i in range(40)])
    empty = lift(plan, [row(i, x=1.0 if i % 2 else None, n=i) for i in range(40)])
    (leaves,) = full.leaves
    assert leaves.state[0] is leaves.state[1]  # counted once, too
    apart = replace(full, leaves=(replace(leaves, state=tuple(column.copy() for column in leaves.state)),))
    for table, fewer in ((full, True), (apart, True), (empty, False)):
        back = packed.unpack(plan.layout, packed.pack(table)).leaves[0].state
        assert [column.tolist() for column in back] == [column.tolist() for column in table.leaves[0].state]
        assert (back[0] is back[1]) == fewer


def test_a_newer_version_says_what_to_do() -> None:
    newer = VALUE[:4] + struct.pack("<H", packed.FORMAT_VERSION + 1) + VALUE[6:]
    with pytest.raises(StateError, match=NEWER):
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


# Chunks


CODECS = st.sampled_from(
    [None, ("snappy", None), ("lz4", None), ("lz4", 12), ("zstd", None), ("zstd", 1), ("zstd", 22)]
)
COLUMNS = st.lists(st.sampled_from(["x", "n", "w", "kept", "f", "s"]), max_size=3, unique=True)
KEPT = make_plan([sliding(10, 5)], names=["mode_w", "median_x"])


def codec_of(drawn: tuple[str, int | None] | None) -> pa.Codec | None:
    return None if drawn is None else pa.Codec(drawn[0], compression_level=drawn[1])


def collecting(columns: list[str], keys: tuple[str, ...]) -> Plan:
    aggregates = {column: bind(A.collect(column)) for column in columns}
    if not columns:  # then it is tuples of no columns that are kept
        applied = Applied(len, pa.schema([]), (), "arrow")
        return make_plan([sliding(10, 5)], keys, (), applied=applied)
    return Plan.make(
        time="t", windows=[sliding(10, 5)], types=TYPES, keys=keys, aggregates=aggregates, shards=(0,), streaming=True
    )


def chunk_of(plan: Plan, rows: list[Row]) -> PaneTable:
    table = lift(plan, rows)
    assert table.tuples is not None
    return replace(table, tuples=table.tuples.in_order())


def check_chunk(plan: Plan, table: PaneTable, back: PaneTable) -> None:
    assert table.tuples is not None
    assert back.tuples is not None
    assert [len(each) for each in back.leaves] == [0] * len(plan.layout.leaf_sets)
    assert back.dictionaries == {}
    assert back.keys.schema == table.keys.schema
    assert repr(back.keys.to_pylist()) == repr(table.keys.to_pylist())
    assert back.tuples.columns.schema == table.tuples.columns.schema
    assert repr(back.tuples.columns.to_pylist()) == repr(table.tuples.columns.to_pylist())
    for found, expected in ((back.tuples.key, table.tuples.key), (back.tuples.time, table.tuples.time)):
        assert found.dtype == expected.dtype
        assert found.tolist() == expected.tolist()


FAR = strategies.rows(st.sampled_from([-(2**61), 0, 1, 2**61]), min_size=1)


@given(COLUMNS, strategies.KEYS, strategies.rows(min_size=1) | FAR, CODECS)
def test_round_trip_of_a_chunk(
    columns: list[str], keys: tuple[str, ...], rows: list[Row], codec: tuple[str, int | None] | None
) -> None:
    plan = collecting(columns, keys)
    table = chunk_of(plan, rows)
    value = packed.pack_chunk(table, codec_of(codec))
    packed.verify_chunk(value)
    check_chunk(plan, table, packed.unpack_chunk(plan.layout, value))


KEY_KINDS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [-128, 127, None]),
    (pa.int64(), [-(2**63), 2**63 - 1]),
    (pa.bool_(), [True, False, None]),
    (pa.float32(), [0.5, float("inf")]),
    (pa.binary(), [b"", b"\0\xff", None]),
    (pa.date32(), [date(1, 1, 1), date(9999, 12, 31)]),
    (pa.decimal128(20, 3), [Decimal("1.500"), None]),
    (TIME, [datetime(1, 1, 1, tzinfo=timezone.utc), None]),
    (pa.duration("us"), [timedelta(0), timedelta(days=-1)]),
    (pa.struct([("a", pa.string()), ("b", pa.int16())]), [{"a": None, "b": 1}, {"a": "x", "b": None}]),
]


@pytest.mark.parametrize(
    ("kind", "values"), KEY_KINDS, ids=lambda each: str(each) if isinstance(each, pa.DataType) else ""
)
@pytest.mark.parametrize("codec", [None, "snappy", "lz4", "zstd"])
def test_keys_of_every_type(kind: pa.DataType, values: list[Any], codec: str | None) -> None:
    plan = make_plan([sliding(10, 5)], ("key",), ["mode_w"], types={"key": kind} | TYPES)
    table = chunk_of(plan, [{**row(i), "key": value} for i, value in enumerate([*values, *values])])
    value = packed.pack_chunk(table, None if codec is None else pa.Codec(codec))
    check_chunk(plan, table, packed.unpack_chunk(plan.layout, value))


CHUNKS = [
    packed.pack_chunk(chunk_of(KEPT, [row(1), row(2, k=None, w="v")]), codec_of(codec))
    for codec in (None, ("snappy", None), ("lz4", None), ("zstd", 3))
]


def check_damaged(value: bytes) -> None:
    with pytest.raises(StateError):
        packed.unpack_chunk(KEPT.layout, value)
    with pytest.raises(StateError):
        packed.verify_chunk(value)


@pytest.mark.parametrize("chunk", CHUNKS)
def test_every_damaged_byte_of_a_chunk(chunk: bytes) -> None:
    for position in range(len(chunk)):
        for flip in (1, 2, 0x80, 0xFF) if position > 40 else range(1, 256):
            damaged = bytearray(chunk)
            damaged[position] ^= flip
            check_damaged(bytes(damaged))


@pytest.mark.parametrize("chunk", CHUNKS)
def test_a_chunk_cut_short_or_with_bytes_behind_it(chunk: bytes) -> None:
    for length in (0, 1, 11, 12, 13, 27, 28, len(chunk) // 2, len(chunk) - 1):
        check_damaged(chunk[:length])
    check_damaged(chunk + b"\0")


@pytest.mark.parametrize("chunk", CHUNKS)
def test_a_chunk_of_a_newer_version_says_what_to_do(chunk: bytes) -> None:
    newer = chunk[:4] + struct.pack("<H", packed.FORMAT_VERSION + 1) + chunk[6:]
    for read in (packed.verify_chunk, partial(packed.unpack_chunk, KEPT.layout)):
        with pytest.raises(StateError, match=NEWER):
            read(newer)


def test_a_chunk_is_not_a_table() -> None:
    check_damaged(VALUE)
    for chunk in CHUNKS:
        with pytest.raises(StateError):
            packed.unpack(KEPT.layout, chunk)


def test_neighbours_that_are_close_compress_to_almost_nothing() -> None:
    table = chunk_of(make_plan([sliding(10, 5)], (), ["distinct_n"]), [row(1_000_000 + 7 * i) for i in range(5_000)])
    sizes = [len(packed.pack_chunk(table, codec_of(codec))) for codec in (None, ("zstd", None))]
    assert sizes[1] * 20 < sizes[0]
