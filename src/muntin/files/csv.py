"""CSV files. A line break may be inside quotes, so a file is read as a whole by one task."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.csv as pacsv

from muntin.files.file_set import Piece, Possible, RowPlaces
from muntin.files.text import check_types, inferred, readable, typed

_BLOCK = 1 << 23
"""Bytes that are read at a time: the longest row."""


@dataclass(frozen=True)
class Csv:
    name: str = "csv"
    counts_rows: bool = False
    header: bool | None = None
    """Whether the first line has names; None if it has them where they are those of the schema, or without one."""
    sep: str = ","
    quote: str = '"'
    escape: str | None = None
    null: str = ""
    zone: str = "UTC"

    def check(self, schema: pa.Schema) -> None:
        check_types(schema, self.name, nested=False)

    def open(self, source: pa.NativeFile, columns: Sequence[str]) -> CsvFile:
        return CsvFile(self, source, columns)


class CsvFile:
    def __init__(self, form: Csv, source: pa.NativeFile, columns: Sequence[str]) -> None:
        self._form = form
        self._source = source
        first = _first_row(form, source)
        header = form.header
        if header is None:
            known = {name.lower() for name in columns}
            header = not columns or (bool(first) and all(name.lower() in known for name in first))
        self._header = header
        if header:
            self._names = first
        else:
            self._names = [columns[at] if at < len(columns) else f"_c{at}" for at in range(len(first))]

    @property
    def schema(self) -> pa.Schema:
        if not self._names:
            return pa.schema([])
        with self._reader({}) as reader:
            return inferred(reader.schema)

    def names(self, wanted: Sequence[str]) -> Sequence[str]:
        return self._names

    def read(
        self, piece: Piece, wanted: Mapping[str, pa.DataType], possible: Possible | None = None
    ) -> Iterator[pa.RecordBatch]:
        if not piece.has_middle or not self._names:
            return
        # Without a column, the rows still count.
        with self._reader(dict(wanted) or {self._names[0]: pa.string()}) as reader:
            for batch in reader:
                yield typed(batch, wanted, self._form.zone)

    def row_places(self, size: int) -> RowPlaces:
        raise NotImplementedError

    def _reader(self, wanted: Mapping[str, pa.DataType]) -> pacsv.CSVStreamingReader:
        form = self._form
        self._source.seek(0)
        return pacsv.open_csv(
            self._source,
            pacsv.ReadOptions(
                use_threads=False,
                block_size=_BLOCK,
                column_names=self._names,
                skip_rows_after_names=int(self._header),
            ),
            pacsv.ParseOptions(
                delimiter=form.sep, quote_char=form.quote or False, escape_char=form.escape or False,
                newlines_in_values=True,
            ),
            pacsv.ConvertOptions(
                column_types={name: readable(kind) for name, kind in wanted.items()},
                include_columns=list(wanted),
                null_values=[form.null],
                true_values=["true", "True", "TRUE"],
                false_values=["false", "False", "FALSE"],
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
            ),
        )  # fmt: skip


def _first_row(form: Csv, source: pa.NativeFile) -> list[str]:
    text = io.TextIOWrapper(source, encoding="utf-8-sig", errors="replace", newline="")
    lines = csv.reader(
        text,
        delimiter=form.sep,
        quotechar=form.quote or None,
        escapechar=form.escape,
        quoting=csv.QUOTE_MINIMAL if form.quote else csv.QUOTE_NONE,
    )
    try:
        return next((row for row in lines if row), [])
    finally:
        text.detach()
