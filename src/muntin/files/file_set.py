"""The files of a scan: where they are, and the columns that are in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias

import pyarrow as pa
from pyarrow import fs

from muntin.files.conditions import Bounds, Condition
from muntin.files.sql import condition_of

BadFiles: TypeAlias = Literal["error", "skip"]


class File(NamedTuple):
    """A file as it was listed."""

    path: str
    size: int
    modified: int
    """In nanoseconds since 1970."""
    root: int = 0
    """The length of the folder that was given, in the path: the folders behind it may be partitions."""
    values: tuple[tuple[str, str | None], ...] | None = None
    """The values of partition columns, if something else than the path says them."""


class Piece(NamedTuple):
    """The part of a file that one task reads: what lies between two positions, in bytes."""

    file: File
    begin: int
    end: int

    def has(self, place: int) -> bool:
        return self.begin <= place < self.end

    @property
    def has_middle(self) -> bool:
        """Files that are read as a whole are read with the piece that this holds for."""
        return self.has(self.file.size // 2)


Possible: TypeAlias = Callable[[Bounds], bool]
"""Whether rows within these bounds of the file's columns may be wanted."""
RowPlaces: TypeAlias = list[tuple[int, int]]
"""Rows that are read together: their place in the file, and how many they are."""


class Opened(Protocol):
    """A file that is being read."""

    @property
    def schema(self) -> pa.Schema:
        """The columns, in the file's own types."""
        ...

    def names(self, wanted: Sequence[str]) -> Sequence[str]:
        """The columns; those that are asked for if only reading shows what there is."""
        ...

    def read(
        self, piece: Piece, wanted: Mapping[str, pa.DataType], possible: Possible | None = None
    ) -> Iterator[pa.RecordBatch]:
        """These columns of the file, in the rows of a piece. Files without types of their own are read in these.

        Rows within bounds that are not possible may be left out.
        """
        ...

    def row_places(self, size: int) -> RowPlaces: ...


class Format(Protocol):
    """How files are written. Implementations are frozen dataclasses, which are sent to the workers."""

    @property
    def name(self) -> str: ...

    @property
    def counts_rows(self) -> bool:
        """Whether files say how many rows they have."""
        ...

    def check(self, schema: pa.Schema) -> None:
        """Check that columns of these types can be read."""
        ...

    def open(self, source: pa.NativeFile, columns: Sequence[str]) -> Opened:
        """Open a file; `columns` are those of the schema, for files that do not name theirs."""
        ...


class Catalog(Protocol):
    """What knows the files, in place of a listing. Implementations are frozen dataclasses."""

    def files(self) -> list[File]: ...

    def schema(self) -> pa.Schema: ...


@dataclass(frozen=True)
class FileSet:
    given: tuple[str, ...]
    """The paths as the user gave them."""
    paths: tuple[str, ...]
    """The same in the file system; they may be patterns."""
    filesystem: fs.FileSystem
    format: Format
    schema: pa.Schema
    """The columns of the rows, in Muntin's types."""
    case_sensitive: bool = False
    """Whether files spell the names of their columns as the schema does."""
    bad_files: BadFiles = "error"
    where: Condition | None = None
    """The rows that are wanted; None for all."""
    catalog: Catalog | None = None
    zone: str = "UTC"
    """The time zone of texts without one."""

    def condition(self, text: str) -> Condition | None:
        """The condition over these columns that a text says, if it is simple."""
        types = {field.name: field.type for field in self.schema}
        return condition_of(text, types, self.case_sensitive, self.zone)
