"""JSON lines: a piece has the lines that begin in it. A line break inside a string is written as an escape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.json as pajson

from muntin.files.file_set import Piece, Possible, RowPlaces
from muntin.files.parquet import ROWS
from muntin.files.text import check_types, inferred, readable, typed

_BLOCK = 1 << 23
"""Bytes that are parsed at a time: the longest line."""
_STEP = 1 << 16


@dataclass(frozen=True)
class JsonLines:
    name: str = "json"
    counts_rows: bool = False
    zone: str = "UTC"

    def check(self, schema: pa.Schema) -> None:
        check_types(schema, self.name, nested=True)

    def open(self, source: pa.NativeFile, columns: Sequence[str]) -> JsonFile:
        return JsonFile(self, source)


class JsonFile:
    def __init__(self, form: JsonLines, source: pa.NativeFile) -> None:
        self._form = form
        self._source = source

    @property
    def schema(self) -> pa.Schema:
        return inferred(self._parsed(self._lines(0, _BLOCK), None).schema)

    def names(self, wanted: Sequence[str]) -> Sequence[str]:
        return wanted

    def read(
        self, piece: Piece, wanted: Mapping[str, pa.DataType], possible: Possible | None = None
    ) -> Iterator[pa.RecordBatch]:
        lines = self._lines(piece.begin, piece.end)
        if not lines.strip():
            return
        schema = pa.schema([(name, readable(kind)) for name, kind in wanted.items()])
        for batch in self._parsed(lines, schema).to_batches(ROWS):
            yield typed(batch, wanted, self._form.zone)

    def row_places(self, size: int) -> RowPlaces:
        raise NotImplementedError

    def _parsed(self, lines: bytes, schema: pa.Schema | None) -> pa.Table:
        handling = "infer" if schema is None else "ignore"
        return pajson.read_json(
            pa.BufferReader(lines),
            pajson.ReadOptions(use_threads=False, block_size=max(_BLOCK, len(lines))),
            pajson.ParseOptions(explicit_schema=schema, unexpected_field_behavior=handling),
        )

    def _lines(self, begin: int, end: int) -> bytes:
        """The whole lines whose first byte lies here."""
        source, parts = self._source, list[bytes]()
        position = begin
        if begin:
            source.seek(begin - 1)
            while True:  # the line before belongs to the piece before
                block = source.read(_STEP)
                break_at = block.find(b"\n")
                if break_at >= 0 or not block:
                    break
                position += len(block)
            position = position - 1 + break_at + 1 if break_at >= 0 else end
        source.seek(position)
        if position < end:
            parts.append(source.read(end - position))
            while parts[-1] and not parts[-1].endswith(b"\n"):
                block = source.read(_STEP)
                break_at = block.find(b"\n")
                parts.append(block if break_at < 0 else block[: break_at + 1])
        return b"".join(parts)
