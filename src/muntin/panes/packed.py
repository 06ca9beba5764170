"""The packed form of a pane table: Arrow IPC streams behind a small header.

    magic "MNTN" | format version, 2 bytes | kind, 2 bytes | CRC-32 of the body, 4 bytes | body

The body of a table is one IPC stream per part: the keys, each leaf set, the tuples if the query keeps any, each
dictionary. The body of a chunk is its keys and its tuples, compressed or not. Arrow does the serialising; the header
ensures that damaged bytes, or bytes of a newer Muntin, are an error and never a wrong number.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrays import Array
from muntin.errors import StateError
from muntin.panes.integers import Distances, is_shortened, restored, shortened
from muntin.panes.table import Layout, Leaves, PaneTable
from muntin.panes.tuples import Tuples
from muntin.partials import values

FORMAT_VERSION = 5
"""Version 2: chunks share values of the state. Version 3: equal counts of leaves are written once. Version 4: a
description of the query is stored beside the header. Version 5: counters, and the parts of features in the header, go
by name. States of earlier versions can still be read."""
_HEADER = struct.Struct("<4sHHI")
_MAGIC = b"MNTN"
_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd")
PLAIN = pa.ipc.IpcWriteOptions()
_SAME = b"same"
"""Schema metadata of leaves: for every field of their state, the index of the written column that has its values."""
_CHUNK = struct.Struct("<8sQ")
"""Precedes a chunk, covered by the checksum: its codec, empty if uncompressed, and its uncompressed size."""


class Kind(IntEnum):
    TABLE = 1
    HEADER = 2
    ROWS = 3
    CHUNK = 4
    SAMPLES = 5
    JOB = 6
    BUNDLE = 7
    DESCRIPTION = 8


def seal(kind: Kind, body: bytes) -> bytes:
    return _HEADER.pack(_MAGIC, FORMAT_VERSION, kind, _checksum(FORMAT_VERSION, body)) + body


def _checksum(version: int, body: bytes | memoryview) -> int:
    return zlib.crc32(body, 0 if version == 1 else version)  # detects a damaged version, too


def unseal(kind: Kind, sealed: bytes) -> memoryview:
    """The body behind the header, after checking both."""
    remedy = "Restore the checkpoint from a backup, or start the query with a new checkpoint location."
    if len(sealed) < _HEADER.size:
        raise StateError(f"A value in Muntin's state is cut short: {len(sealed)} bytes. {remedy}")
    magic, version, sealed_kind, checksum = _HEADER.unpack_from(sealed)
    if magic != _MAGIC:
        raise StateError(f"A value in Muntin's state is not one of Muntin's. {remedy}")
    if version > FORMAT_VERSION:
        raise StateError(
            f"The state was written in format version {version}; this Muntin reads versions up to {FORMAT_VERSION}. "
            "Install the Muntin that wrote it, or a newer one."
        )
    body = memoryview(sealed)[_HEADER.size :]
    if version < 1 or _checksum(version, body) != checksum or sealed_kind != kind:
        raise StateError(f"A value in Muntin's state is damaged: its checksum does not match. {remedy}")
    return body


def pack(table: PaneTable, compressed: bool = True) -> bytes:
    """What is read once, and soon, takes less time uncompressed."""
    sink = pa.BufferOutputStream()
    write_table(sink, table, _OPTIONS if compressed else PLAIN)
    return seal(Kind.TABLE, sink.getvalue().to_pybytes())


def unpack(layout: Layout, sealed: bytes) -> PaneTable:
    return read_table(layout, list(read_batches(unseal(Kind.TABLE, sealed))))


def write_table(sink: pa.NativeFile, table: PaneTable, options: pa.ipc.IpcWriteOptions) -> None:
    write_batch(sink, table.keys, options)
    for leaves in table.leaves:
        write_batch(sink, _leaf_batch(leaves), options)
    if table.tuples is not None:
        write_batch(sink, _tuple_batch(table.tuples), options)
    for name in sorted(table.dictionaries):
        write_batch(sink, pa.record_batch([table.dictionaries[name]], names=[name]), options)


def read_table(layout: Layout, batches: Sequence[pa.RecordBatch]) -> PaneTable:
    """The table from the batches that `write_table` wrote."""
    keys, *remaining = batches
    if keys.schema.names != layout.keys.names:
        raise StateError(f"The state has the keys {keys.schema.names}, the query {layout.keys.names}.")
    count = len(layout.leaf_sets)
    leaves = tuple(_leaves(batch) for batch in remaining[:count])
    remaining = remaining[count:]
    tuples = None
    if layout.tuples is not None:
        tuples, remaining = _tuples(remaining[0], layout.tuples), remaining[1:]
    return PaneTable(keys, leaves, {batch.schema.names[0]: batch.column(0) for batch in remaining}, tuples)


def pack_chunk(table: PaneTable, codec: pa.Codec | None) -> bytes:
    """The keys and the tuples of a table, which must be in order; compressed if there is a codec."""
    assert table.tuples is not None
    sink = pa.BufferOutputStream()
    write_batch(sink, table.keys if codec is None else _short(table.keys, "if narrower"), PLAIN)
    write_batch(sink, _tuple_batch(table.tuples, in_order=codec is not None), PLAIN)
    body = sink.getvalue()
    name, stored = (b"", body) if codec is None else (codec.name.encode(), codec.compress(body))
    return seal(Kind.CHUNK, _CHUNK.pack(name, body.size) + stored.to_pybytes())


def unpack_chunk(layout: Layout, sealed: bytes) -> PaneTable:
    """The table of a chunk, compressed or not: its keys and its tuples, and no leaves."""
    stored = unseal(Kind.CHUNK, sealed)
    name, size = _CHUNK.unpack_from(stored)
    body = stored[_CHUNK.size :]
    if any(name):
        codec = pa.Codec(name.rstrip(b"\0").decode())
        body = memoryview(codec.decompress(pa.py_buffer(body), decompressed_size=size))
    keys, tuples = read_batches(body)
    assert layout.tuples is not None
    leaves = tuple(leaf_set.empty() for leaf_set in layout.leaf_sets)
    return PaneTable(_long(keys, layout.keys), leaves, {}, _tuples(tuples, layout.tuples))


def verify_chunk(sealed: bytes) -> None:
    """Raise a StateError if the bytes are damaged."""
    unseal(Kind.CHUNK, sealed)


def pack_rows(batches: Sequence[pa.RecordBatch]) -> bytes:
    """Whole rows, in the order of arrival."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema, options=_OPTIONS) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return seal(Kind.ROWS, sink.getvalue().to_pybytes())


def unpack_rows(sealed: bytes) -> pa.Table:
    return pa.ipc.open_stream(pa.py_buffer(unseal(Kind.ROWS, sealed))).read_all()


def pack_header(header: dict[str, Any]) -> bytes:
    return seal(Kind.HEADER, json.dumps(header).encode())


def unpack_header(sealed: bytes) -> dict[str, Any]:
    header: dict[str, Any] = json.loads(bytes(unseal(Kind.HEADER, sealed)))
    return header


def _leaf_batch(leaves: Leaves) -> pa.RecordBatch:
    """Equal integer columns are written once: the counts of several aggregates are equal where nothing is null."""
    written: list[Array] = []
    same: list[int] = []
    for column in leaves.state:
        index = next((i for i, other in enumerate(written) if _are_equal(column, other)), len(written))
        same.append(index)
        if index == len(written):
            written.append(column)
    names = ["key", "time", *(f"s{i}" for i in range(len(written)))]
    batch = _narrowed([leaves.key, leaves.time, *written], names, distances="if narrower")
    return batch if len(written) == len(same) else batch.replace_schema_metadata({_SAME: json.dumps(same)})


def _are_equal(column: Array, other: Array) -> bool:
    """Whether two integer columns are equal. Most unequal ones already differ in their first value."""
    if not column.dtype == other.dtype == np.int64 or (len(column) and column[0] != other[0]):
        return False
    return np.array_equal(column, other)


def _leaves(batch: pa.RecordBatch) -> Leaves:
    key, time, *written = (_widened(batch, i) for i in range(batch.num_columns))
    same = (batch.schema.metadata or {}).get(_SAME)
    return Leaves(key, time, tuple(written if same is None else (written[i] for i in json.loads(same))))


def _tuple_batch(tuples: Tuples, in_order: bool = False) -> pa.RecordBatch:
    """Tuples in order are stored by their distances, which take fewer bytes and compress to almost nothing."""
    narrow = _narrowed([tuples.key, tuples.time], ["key", "time"], distances="always" if in_order else "never")
    columns = _short(tuples.columns, "never") if in_order else tuples.columns
    fields = [*narrow.schema, *columns.schema]
    return pa.record_batch([*narrow.columns, *columns.columns], schema=pa.schema(fields))


def _tuples(batch: pa.RecordBatch, schema: pa.Schema) -> Tuples:
    stored = pa.RecordBatch.from_arrays(batch.columns[2:], schema=pa.schema(list(batch.schema)[2:]))
    columns = _long(stored, schema) if any(is_shortened(field.metadata or {}) for field in stored.schema) else stored
    return Tuples(_widened(batch, 0), _widened(batch, 1), columns)


def _narrowed(columns: Sequence[Array], names: Sequence[str], distances: Distances) -> pa.RecordBatch:
    arrays, fields = [], []
    for name, column in zip(names, columns, strict=True):
        metadata: dict[bytes, str] = {}
        if column.dtype == np.int64:
            column, metadata = shortened(column, distances, divided=distances == "always")
        arrays.append(pa.array(column))
        fields.append(pa.field(name, arrays[-1].type, metadata=metadata or None))
    return pa.record_batch(arrays, schema=pa.schema(fields))


def _widened(batch: pa.RecordBatch, index: int) -> Array:
    column = np.asarray(batch.column(index).to_numpy(zero_copy_only=False))
    metadata = batch.schema.field(index).metadata or {}
    return restored(column, metadata) if is_shortened(metadata) else column


def _short(batch: pa.RecordBatch, distances: Distances) -> pa.RecordBatch:
    """The batch with integers, dates and times in few bytes, in columns without nulls."""
    arrays, fields = [], []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        kind = field.type
        is_integral = values.is_fixed(kind) and not (pa.types.is_floating(kind) or pa.types.is_boolean(kind))
        metadata: dict[bytes, str] = {}
        if is_integral and not column.null_count:
            integers, metadata = shortened(values.fixed_order_keys(column), distances, divided=True)
            column = pa.array(integers)
        arrays.append(column)
        fields.append(pa.field(field.name, column.type, metadata=metadata or None))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _long(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with its shortened columns restored to the types of a schema, which has as many columns."""
    columns = []
    for stored, field, column in zip(batch.schema, schema, batch.columns, strict=True):
        if is_shortened(stored.metadata or {}):
            integers = restored(np.asarray(column), stored.metadata)
            column = pa.array(integers.astype(f"int{field.type.bit_width}", copy=False)).view(field.type)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def write_batch(sink: pa.NativeFile, batch: pa.RecordBatch, options: pa.ipc.IpcWriteOptions = _OPTIONS) -> None:
    """Write the batch as an IPC stream of its own."""
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)


def read_batches(body: memoryview) -> Iterator[pa.RecordBatch]:
    """All batches, each written by `write_batch`."""
    source = pa.BufferReader(pa.py_buffer(body))
    while source.tell() < len(body):
        (batch,) = pa.ipc.open_stream(source)  # reads to the end, so that the source is at the next stream
        yield batch
