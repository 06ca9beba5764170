"""Parquet files: a piece has the row groups whose middle lies in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from muntin.files.file_set import Piece

ROWS = 1 << 18
"""Rows per batch: enough for the kernels, and few enough for the processor's cache."""


@dataclass(frozen=True)
class Parquet:
    name: str = "parquet"

    def open(self, source: pa.NativeFile) -> ParquetFile:
        return ParquetFile(pq.ParquetFile(source, pre_buffer=True, coerce_int96_timestamp_unit="us"))


class ParquetFile:
    def __init__(self, file: pq.ParquetFile) -> None:
        self._file = file

    @property
    def schema(self) -> pa.Schema:
        return self._file.schema_arrow

    def read(self, piece: Piece, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        groups = row_groups(self._file.metadata, piece)
        if not groups:
            return
        # Spark gives a task one core, so one thread reads.
        for batch in self._file.iter_batches(ROWS, row_groups=groups, columns=list(names), use_threads=False):
            yield batch.select(list(names))  # the name of a struct's field, with a dot, may also be that of a column


def row_groups(metadata: pq.FileMetaData, piece: Piece) -> list[int]:
    """The row groups of a piece. Their middles follow from their rows, on which all readers of a file agree."""
    groups, before, total = [], 0, metadata.num_rows
    for index in range(metadata.num_row_groups):
        rows = metadata.row_group(index).num_rows
        if rows and piece.begin <= (2 * before + rows) * piece.file.size // (2 * total) < piece.end:
            groups.append(index)
        before += rows
    return groups
