"""Arrow files (IPC, Feather): a piece has the record batches whose middle lies in it. Streams are read as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from muntin.files.file_set import Opened, Piece, Possible, RowPlaces
from muntin.files.parquet import ROWS

_MAGIC = b"ARROW1"


@dataclass(frozen=True)
class Arrow:
    name: str = "arrow"
    counts_rows: bool = True

    def check(self, schema: pa.Schema) -> None:
        """All types can be read."""

    def open(self, source: pa.NativeFile, columns: Sequence[str]) -> Opened:
        begin = source.read(len(_MAGIC))
        source.seek(0)
        return ArrowFile(source) if begin == _MAGIC else ArrowStream(source)


class ArrowFile:
    def __init__(self, source: pa.NativeFile) -> None:
        self._source = source
        self._file = pa.ipc.open_file(source)

    @property
    def schema(self) -> pa.Schema:
        return self._file.schema

    def names(self, wanted: Sequence[str]) -> Sequence[str]:
        names: list[str] = self.schema.names
        return names

    def read(
        self, piece: Piece, wanted: Mapping[str, pa.DataType], possible: Possible | None = None
    ) -> Iterator[pa.RecordBatch]:
        count = self._file.num_record_batches
        indices = [index for index in range(count) if piece.has(_middle(index, count, piece.file.size))]
        if not indices:
            return
        reader = self._with([self.schema.names.index(name) for name in wanted])
        for index in indices:
            yield from _parts(reader.get_batch(index).select(list(wanted)))

    def row_places(self, size: int) -> RowPlaces:
        count = self._file.num_record_batches
        reader = self._with([0])
        rows = ((index, reader.get_batch(index).num_rows) for index in range(count))
        return [(_middle(index, count, size), number) for index, number in rows if number]

    def _with(self, fields: list[int]) -> pa.ipc.RecordBatchFileReader:
        """A reader of these columns alone; of the first one if none is needed, since the rows still count."""
        fields = sorted(set(fields)) or [0] * bool(len(self.schema))
        return pa.ipc.open_file(self._source, options=pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False))


class ArrowStream:
    def __init__(self, source: pa.NativeFile) -> None:
        self._file = pa.ipc.open_stream(source, options=pa.ipc.IpcReadOptions(use_threads=False))

    @property
    def schema(self) -> pa.Schema:
        return self._file.schema

    def names(self, wanted: Sequence[str]) -> Sequence[str]:
        names: list[str] = self.schema.names
        return names

    def read(
        self, piece: Piece, wanted: Mapping[str, pa.DataType], possible: Possible | None = None
    ) -> Iterator[pa.RecordBatch]:
        if piece.has_middle:
            for batch in self._file:
                yield from _parts(batch.select(list(wanted)))

    def row_places(self, size: int) -> RowPlaces:
        return [(size // 2, sum(batch.num_rows for batch in self._file))]


def _middle(index: int, count: int, size: int) -> int:
    return (2 * index + 1) * size // (2 * count)


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for begin in range(0, batch.num_rows, ROWS):
        yield batch.slice(begin, ROWS)
