"""Reads the rows of a share: only the columns that are needed, in the types of the schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc

from muntin.errors import MuntinError
from muntin.files.file_set import File, FileSet, Piece
from muntin.type_names import spark_name

TOGETHER = 1 << 17
"""Small batches, of small files, are put together until they have this many rows."""


def read(files: FileSet, share: Iterable[Piece], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a share: the columns of these names."""
    wanted = pa.schema([files.schema.field(name) for name in names])
    yield from _together(batch for piece in share for batch in _rows(files, piece, wanted))


def file_schema(files: FileSet, file: File) -> pa.Schema:
    """The columns of a file, in its own types."""
    with reading(file), files.filesystem.open_input_file(file.path) as source:
        return files.format.open(source).schema


def _rows(files: FileSet, piece: Piece, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    file = piece.file
    with reading(file), files.filesystem.open_input_file(file.path) as source:
        if source.size() != file.size:
            raise MuntinError(
                f"The file {file.path!r} has changed: it had {file.size:,} bytes when it was listed, and has "
                f"{source.size():,} now. Files must be complete when they appear, and must not change: write them "
                "under a name that begins with a dot or an underscore, or elsewhere, and rename them."
            )
        opened = files.format.open(source)
        places = matched(opened.schema.names, wanted.names, files.case_sensitive)
        for batch in opened.read(piece, list(dict.fromkeys(places.values()))):
            yield _conformed(batch, places, wanted, file)


@contextmanager
def reading(file: File) -> Iterator[None]:
    """Errors of Arrow name the file, and say what to do."""
    try:
        yield
    except FileNotFoundError as error:
        raise MuntinError(
            f"The file {file.path!r} has vanished since it was listed; files must stay until they have been read."
        ) from error
    except (OSError, pa.ArrowException) as error:
        raise MuntinError(
            f"The file {file.path!r} cannot be read: {_reason(error)} If it is damaged, or of another format, take it "
            "away or write it anew."
        ) from error


def _reason(error: Exception) -> str:
    line = str(error).splitlines()[0] if str(error) else type(error).__name__
    return line.rstrip(". ") + "."


def matched(present: Sequence[str], wanted: Iterable[str], case_sensitive: bool) -> dict[str, str]:
    """For each wanted column that a file has, its name there. An exact match is preferred to one in another case."""
    alike: dict[str, str] = {}
    if not case_sensitive:
        for name in present:
            alike.setdefault(name.lower(), name)
    exact = set(present)
    names = {name: name if name in exact else alike.get(name.lower()) for name in wanted}
    return {name: place for name, place in names.items() if place is not None}


def _conformed(batch: pa.RecordBatch, places: dict[str, str], wanted: pa.Schema, file: File) -> pa.RecordBatch:
    """The wanted columns, in their types; a column that the file does not have is null."""
    columns = [
        _cast(batch.column(places[field.name]), field, file)
        if field.name in places
        else pa.nulls(batch.num_rows, field.type)
        for field in wanted
    ]
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def _cast(column: pa.Array, field: pa.Field, file: File) -> pa.Array:
    if column.type == field.type:
        return column
    try:
        if pa.types.is_timestamp(column.type) and column.type.unit == "ns" and pa.types.is_timestamp(field.type):
            column = pc.floor_temporal(column, unit="microsecond")
        return column.cast(field.type)
    except pa.ArrowException as error:
        raise MuntinError(
            f"Column {field.name!r} of the file {file.path!r} is of type {spark_name(column.type)} and cannot be read "
            f"as {spark_name(field.type)}, which the schema says: {_reason(error)} Give the type of the files with "
            "schema=, or write the file anew."
        ) from error


def _together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if not waiting and batch.num_rows >= TOGETHER:
            yield batch
            continue
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= TOGETHER:
            yield pa.concat_batches(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pa.concat_batches(waiting)
