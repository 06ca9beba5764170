"""The files of a scan: where they are, and the columns that are in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import pyarrow as pa
from pyarrow import fs


class File(NamedTuple):
    """A file as it was listed."""

    path: str
    size: int
    modified: int
    """In nanoseconds since 1970."""


class Piece(NamedTuple):
    """The part of a file that one task reads: what lies between two positions, in bytes."""

    file: File
    begin: int
    end: int


class Opened(Protocol):
    """A file that is being read."""

    @property
    def schema(self) -> pa.Schema: ...

    def read(self, piece: Piece, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """These columns of the file, in the rows of a piece."""
        ...


class Format(Protocol):
    """How files are written. Implementations are frozen dataclasses, which are sent to the workers."""

    @property
    def name(self) -> str: ...

    def open(self, source: pa.NativeFile) -> Opened: ...


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
