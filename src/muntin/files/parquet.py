"""Parquet files: a piece has the row groups whose middle lies in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.parquet as pq

from muntin.files.conditions import Bounds
from muntin.files.file_set import Piece, Possible, RowPlaces

ROWS = 1 << 18
"""Rows per batch: enough for the kernels, and few enough for the processor's cache."""


@dataclass(frozen=True)
class Parquet:
    name: str = "parquet"
    counts_rows: bool = True

    def check(self, schema: pa.Schema) -> None:
        """All types can be read."""

    def open(self, source: pa.NativeFile, columns: Sequence[str]) -> ParquetFile:
        return ParquetFile(pq.ParquetFile(source, pre_buffer=True, coerce_int96_timestamp_unit="us"))


class ParquetFile:
    def __init__(self, file: pq.ParquetFile) -> None:
        self._file = file

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns. Times of 96 bits are points in time, as Spark writes them, and Arrow has them without a zone."""
        leaves = map(self._file.schema.column, range(len(self._file.schema)))
        old = {leaf.path.split(".")[0] for leaf in leaves if leaf.physical_type == "INT96"}
        fields = self._file.schema_arrow
        return pa.schema([(field.name, _in_utc(field.type) if field.name in old else field.type) for field in fields])

    def names(self, wanted: Sequence[str]) -> Sequence[str]:
        names: list[str] = self.schema.names
        return names

    def read(
        self, piece: Piece, wanted: Mapping[str, pa.DataType], possible: Possible | None = None
    ) -> Iterator[pa.RecordBatch]:
        groups = row_groups(self._file.metadata, piece)
        if possible is not None:
            groups = [index for index in groups if possible(self._bounds(index))]
        if not groups:
            return
        names = list(wanted)
        # Spark gives a task one core, so one thread reads. What Arrow reads ahead stays in memory until a call ends.
        for some in self._few_rows(groups):
            for batch in self._file.iter_batches(ROWS, row_groups=some, columns=names, use_threads=False):
                yield batch.select(names)  # the name of a struct's field, with a dot, may also be that of a column

    def _few_rows(self, groups: Sequence[int]) -> Iterator[list[int]]:
        """Neighbouring row groups together, until they have the rows of a batch."""
        some, rows = list[int](), 0
        for index in groups:
            some.append(index)
            rows += self._file.metadata.row_group(index).num_rows
            if rows >= ROWS:
                yield some
                some, rows = [], 0
        if some:
            yield some

    def _bounds(self, index: int) -> Bounds:
        """The bounds of columns in a row group, for types whose statistics all writers agree on."""
        group, bounds = self._file.metadata.row_group(index), {}
        for column in map(group.column, range(group.num_columns)):
            name, statistics = column.path_in_schema, column.statistics
            if statistics is None or not statistics.has_min_max or name not in self.schema.names:
                continue
            kind = self.schema.field(name).type
            exact = pa.types.is_timestamp(kind) and kind.unit != "ns"
            if exact or pa.types.is_signed_integer(kind) or pa.types.is_date32(kind):
                bounds[name] = pa.scalar(statistics.min, kind), pa.scalar(statistics.max, kind)
        return bounds

    def row_places(self, size: int) -> RowPlaces:
        return [(place, rows) for _, place, rows in _middles(self._file.metadata, size)]


def _in_utc(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp(kind.unit, tz="UTC")
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _in_utc(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_in_utc(kind.key_type), _in_utc(kind.item_type))
    return pa.list_(_in_utc(kind.value_type)) if pa.types.is_list(kind) else kind


def row_groups(metadata: pq.FileMetaData, piece: Piece) -> list[int]:
    """The row groups of a piece."""
    return [index for index, place, _ in _middles(metadata, piece.file.size) if piece.has(place)]


def _middles(metadata: pq.FileMetaData, size: int) -> Iterator[tuple[int, int, int]]:
    """The row groups that have rows, their middles and their rows.

    The middle follows from the rows, on which all readers of a file agree.
    """
    before, total = 0, metadata.num_rows
    for index in range(metadata.num_row_groups):
        rows = metadata.row_group(index).num_rows
        if rows:
            yield index, (2 * before + rows) * size // (2 * total), rows
        before += rows
