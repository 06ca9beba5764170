"""Files as a stream: what a batch reads, from one offset to another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pyarrow import fs

from muntin.errors import MuntinError
from muntin.files.file_log import FileLog
from muntin.files.file_set import File, FileSet, Piece, RowPlaces
from muntin.files.listing import files_of
from muntin.files.reading import relevant, row_places
from muntin.files.shares import cut, whole

_AHEAD = 16
"""Files whose numbers of rows are read at the same time."""


@dataclass(frozen=True)
class Limits:
    """What a batch reads at most; None for no limit."""

    rows: int | None
    files: int | None


@dataclass(frozen=True)
class Position:
    """A place in the order of the files: behind so many files, and so many bytes of the next one."""

    log: str = ""
    """The name of the log; empty before there are any files."""
    files: int = 0
    byte: int = 0

    @classmethod
    def of(cls, offset: Mapping[str, Any]) -> Position:
        try:
            return cls(str(offset["log"]), int(offset["files"]), int(offset["byte"]))
        except (KeyError, TypeError, ValueError):
            raise MuntinError(
                f"The checkpoint has the offset {dict(offset)!r}, which is not one of muntin.scan; start with a new "
                "checkpoint."
            ) from None

    @property
    def offset(self) -> dict[str, Any]:
        return {"log": self.log, "files": self.files, "byte": self.byte}


class FileStream:
    """The files of one running query. Files that are new are listed once there is no other left to read."""

    def __init__(self, files: FileSet, limits: Limits, log_filesystem: fs.FileSystem, log_folder: str) -> None:
        self._files = files
        self._limits = limits
        self._log_place = log_filesystem, log_folder
        self._log: FileLog | None = None
        self._last: int | None = None
        """Where the stream ends, if it reads only what is there now."""
        self._ends = False
        self._places: dict[str, RowPlaces] = {}

    def end_with_what_is_there(self) -> None:
        self._ends, self._last = True, None

    @property
    def end(self) -> Position | None:
        """The end of what is known."""
        return None if self._log is None else Position(self._log.name, self._log.length)

    def after(self, start: Position, limited: bool = True) -> Position:
        """The end of the batch that begins here; the same position if there is nothing to read."""
        self._open(start)
        if self._ends and self._last is None:
            self._list()
            self._last = 0 if self._log is None else self._log.length
        elif not self._ends and (self._log is None or start.files >= self._log.length):
            self._list()
        if self._log is None:
            return start
        until = self._log.length if self._last is None else self._last
        if start.files >= until:
            return start
        return self._limited(self._log, start, until) if limited else Position(self._log.name, until)

    def shares(self, start: Position, end: Position, tasks: int) -> list[tuple[Piece, ...]]:
        """What the tasks of a batch read."""
        if start == end:
            return []
        self._open(end)
        assert self._log is not None
        files = list(self._log.files(start.files, end.files + (end.byte > 0)))
        pieces = whole(files)
        if end.byte:
            pieces[-1] = pieces[-1]._replace(end=end.byte)
        pieces[0] = pieces[0]._replace(begin=start.byte)
        return cut(relevant(self._files, pieces), tasks)

    def _open(self, position: Position) -> None:
        if position.log and (self._log is None or self._log.name != position.log):
            self._log = FileLog.of(*self._log_place, position.log, position.files)

    def _list(self) -> None:
        listed = files_of(self._files, missing_ok=True)
        found = listed if self._log is None else self._log.unseen(listed)
        if found:
            self._log = self._log or FileLog.new(*self._log_place)
            self._log.append(sorted(found, key=lambda file: (file.modified, file.path)))

    def _limited(self, log: FileLog, start: Position, until: int) -> Position:
        """As many files and rows as a batch may have: at least one file, or the rows that it keeps together."""
        last = until if self._limits.files is None else min(until, start.files + self._limits.files)
        if self._limits.rows is None:
            return Position(log.name, last)
        rows = 0
        for number, (file, places) in enumerate(self._row_places(log.files(start.files, last)), start.files):
            for place, count in places:
                if number == start.files and place < start.byte:
                    continue
                if rows and rows + count > self._limits.rows:
                    self._places = {file.path: places}
                    return Position(log.name, number, 0 if place == places[0][0] else place)
                rows += count
        return Position(log.name, last)

    def _row_places(self, files: Iterator[File]) -> Iterator[tuple[File, RowPlaces]]:
        """Where the rows of files are, and how many. Several files are opened at the same time."""
        with ThreadPoolExecutor(_AHEAD) as pool:
            while ahead := list(islice(files, _AHEAD)):
                yield from zip(ahead, pool.map(self._of_file, ahead), strict=True)

    def _of_file(self, file: File) -> RowPlaces:
        known = self._places.get(file.path)
        return row_places(self._files, file) if known is None else known
