"""Reads the rows of a share: only the columns that are needed, in the types of the schema."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from muntin.errors import MuntinError
from muntin.files.conditions import Bounds, Condition
from muntin.files.file_set import File, FileSet, Piece, Possible, RowPlaces
from muntin.files.partitions import scalar, values
from muntin.type_names import spark_name

_LOGGER = logging.getLogger("muntin")
TOGETHER = 1 << 17
"""Small batches, of small files, are put together until they have this many rows."""


@dataclass
class Skipped:
    """The files that could not be read, where that is no error."""

    count: int = 0

    def add(self, piece: Piece, error: BadFileError) -> None:
        # A file may have several pieces, and none of them can be read if it cannot be opened.
        self.count += piece.begin == 0 or error.inside
        _LOGGER.warning("Skipped: %s", error)


@dataclass(frozen=True)
class Wanted:
    """What is read of files: columns, and conditions as further columns of their own names."""

    names: Sequence[str]
    conditions: Mapping[str, Condition] = dataclasses.field(default_factory=dict)

    def schema(self, files: FileSet) -> pa.Schema:
        """The columns that this takes."""
        conditions = [*self.conditions.values(), *([] if files.where is None else [files.where])]
        needed = frozenset[str]().union(*(condition.columns for condition in conditions))
        return pa.schema([files.schema.field(name) for name in dict.fromkeys([*self.names, *sorted(needed)])])

    def of(self, batch: pa.RecordBatch, where: Condition | None) -> pa.RecordBatch:
        """The wanted columns, in the rows for which the condition is true."""
        if where is not None:
            batch = batch.filter(where.of(_columns(batch)))
        if not self.conditions:
            return batch.select(list(self.names)) if len(self.names) < batch.num_columns else batch
        columns = _columns(batch)
        computed = [condition.of(columns) for condition in self.conditions.values()]
        own = [batch.column(name) for name in self.names]
        return pa.RecordBatch.from_arrays([*own, *computed], [*self.names, *self.conditions])


def _columns(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def read(
    files: FileSet, share: Iterable[Piece], wanted: Wanted, skipped: Skipped | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a share."""
    schema, skipped = wanted.schema(files), skipped or Skipped()
    batches = (batch for piece in share for batch in _unless_bad(files, piece, schema, skipped))
    yield from _together(wanted.of(batch, files.where) for batch in batches)


def relevant(files: FileSet, pieces: Iterable[Piece]) -> list[Piece]:
    """The pieces that may have rows that are wanted, by what their paths say."""
    if files.where is None:
        return list(pieces)
    return [piece for piece in pieces if files.where.possible(_bounds(_constants(files, piece.file)))]


def _bounds(constants: Mapping[str, pa.Scalar]) -> Bounds:
    return {name: (value, value) for name, value in constants.items() if value.is_valid}


def file_schema(files: FileSet, file: File) -> pa.Schema:
    """The columns of a file, in its own types."""
    with reading(file), files.filesystem.open_input_file(file.path) as source:
        return files.format.open(source, files.schema.names).schema


def first_schema(files: FileSet, listed: Sequence[File]) -> pa.Schema:
    """The columns of the first file, or of the first that can be read if others are skipped."""
    for file in listed:
        try:
            return file_schema(files, file)
        except BadFileError as error:
            if files.bad_files == "error" or file is listed[-1]:
                raise
            _LOGGER.warning("Skipped: %s", error)
    raise ValueError("there are no files")


def row_places(files: FileSet, file: File) -> RowPlaces:
    """Where the rows of a file are, and how many. A file that cannot be read is left to the tasks."""
    try:
        with reading(file), files.filesystem.open_input_file(file.path) as source:
            return files.format.open(source, files.schema.names).row_places(file.size)
    except BadFileError:
        return []


def _unless_bad(files: FileSet, piece: Piece, wanted: pa.Schema, skipped: Skipped) -> Iterator[pa.RecordBatch]:
    try:
        yield from _rows(files, piece, wanted)
    except BadFileError as error:
        if files.bad_files == "error":
            raise
        skipped.add(piece, error)


def _rows(files: FileSet, piece: Piece, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    file = piece.file
    with reading(file) as inside, files.filesystem.open_input_file(file.path) as source:
        if source.size() != file.size:
            raise BadFileError(
                f"The file {file.path!r} has changed: it had {file.size:,} bytes when it was listed, and has "
                f"{source.size():,} now. Files must be complete when they appear, and must not change: write them "
                "under a name that begins with a dot or an underscore, or elsewhere, and rename them."
            )
        constants = _constants(files, file)
        opened = files.format.open(source, [name for name in files.schema.names if name not in constants])
        names = [name for name in wanted.names if name not in constants]
        places = matched(opened.names(names), names, files.case_sensitive)
        kinds = {place: wanted.field(name).type for name, place in places.items()}
        for batch in opened.read(piece, kinds, _possible(files, places, constants)):
            yield _conformed(batch, places, constants, wanted, file)
            inside.rows = True


def _possible(files: FileSet, places: Mapping[str, str], constants: Mapping[str, pa.Scalar]) -> Possible | None:
    where = files.where
    if where is None:
        return None

    def possible(bounds: Bounds) -> bool:
        own = {name: bounds[place] for name, place in places.items() if place in bounds}
        return where.possible({**own, **_bounds(constants)})

    return possible


def _constants(files: FileSet, file: File) -> dict[str, pa.Scalar]:
    """The values of columns that are in the path."""
    found = values(file)
    places = matched(list(found), files.schema.names, files.case_sensitive) if found else {}
    return {name: scalar(found[place], files.schema.field(name), file, files.zone) for name, place in places.items()}


class BadFileError(MuntinError):
    """A file that has vanished, has changed or cannot be read."""

    inside = False
    """Whether rows of the file had been read before."""


@dataclass
class _Progress:
    rows: bool = False


@contextmanager
def reading(file: File) -> Iterator[_Progress]:
    """Errors of Arrow name the file, and say what to do."""
    progress = _Progress()
    try:
        yield progress
    except FileNotFoundError as error:
        raise BadFileError(
            f"The file {file.path!r} has vanished since it was listed; files must stay until they have been read."
        ) from error
    except (OSError, pa.ArrowException) as error:
        bad = BadFileError(
            f"The file {file.path!r} cannot be read: {_reason(error)} If it is damaged, or of another format, take it "
            "away or write it anew."
        )
        bad.inside = progress.rows
        raise bad from error


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


def _conformed(
    batch: pa.RecordBatch, places: dict[str, str], constants: dict[str, pa.Scalar], wanted: pa.Schema, file: File
) -> pa.RecordBatch:
    """The wanted columns, in their types; a column that the file does not have is null."""
    rows = batch.num_rows
    columns = []
    for field in wanted:
        if field.name in constants:
            columns.append(pa.repeat(constants[field.name], rows))
        elif field.name in places:
            columns.append(_cast(batch.column(places[field.name]), field, file))
        else:
            columns.append(pa.nulls(rows, field.type))
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
