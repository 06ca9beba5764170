"""The log of a stream: its files in the order in which they are read, written to a folder before any of them is read.

An offset is a position in this order, so it means the same files forever, whatever has appeared since. A listing that
finds new files appends them as a segment of JSON lines. Small segments are merged, so that a restart reads few of them.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import fs

from muntin.errors import MuntinError
from muntin.files.file_set import File

VERSION = 1
SEGMENT = 10_000
"""Files of a segment at most: what a driver has in memory of a backlog."""
TOGETHER = 16
"""So many small segments are merged."""
_NAME = re.compile(r"(\d{12})-(\d{12})\.jsonl\.gz")

Digests: TypeAlias = npt.NDArray[np.uint64]


@dataclass(frozen=True, order=True)
class Segment:
    """Files from one position in the order to another."""

    begin: int
    end: int

    @property
    def name(self) -> str:
        return f"{self.begin:012d}-{self.end:012d}.jsonl.gz"


class FileLog:
    def __init__(self, filesystem: fs.FileSystem, folder: str, name: str) -> None:
        self.name = name
        self._filesystem = filesystem
        self._folder = f"{folder}/{name}"
        self._segments: list[Segment] = []
        self._loaded: tuple[Segment, list[File]] | None = None
        self._seen: Digests = np.empty(0, np.uint64)

    @classmethod
    def new(cls, filesystem: fs.FileSystem, folder: str) -> FileLog:
        log = cls(filesystem, folder, uuid.uuid4().hex)
        try:
            filesystem.create_dir(log._folder, recursive=True)
        except OSError as error:
            raise MuntinError(
                f"The stream keeps a list of its files, and cannot write it to {folder!r}: {error}. Give log=, a "
                "folder that can be written and stays, such as one beside the checkpoint."
            ) from error
        return log

    @classmethod
    def of(cls, filesystem: fs.FileSystem, folder: str, name: str, least: int = 1) -> FileLog:
        """The log that an offset names, which has at least so many files."""
        log = cls(filesystem, folder, name)
        entries = filesystem.get_file_info(fs.FileSelector(log._folder, allow_not_found=True))
        found = [Segment(*map(int, match.groups())) for each in entries if (match := _NAME.fullmatch(each.base_name))]
        # Merged segments may still stand beside those that they were made of: the longest one counts.
        for segment in sorted(found, key=lambda segment: (segment.begin, -segment.end)):
            if segment.begin == log.length:
                log._segments.append(segment)
        if log.length < least:
            raise MuntinError(
                f"The list of files {log._folder!r}, or a part of it, which the checkpoint refers to, is missing; "
                "without it nobody knows which files have been read. Bring it back, give the same log= as before, or "
                "start with a new checkpoint."
            )
        log._remember(file for segment in log._segments for file in log._read(segment))
        return log

    @property
    def length(self) -> int:
        return self._segments[-1].end if self._segments else 0

    def files(self, begin: int, end: int) -> Iterator[File]:
        """The files from one position to another."""
        for segment in self._segments:
            if segment.begin < end and begin < segment.end:
                files = self._read(segment)
                yield from files[max(begin - segment.begin, 0) : end - segment.begin]

    def unseen(self, files: Sequence[File]) -> list[File]:
        """Those that are not in the log."""
        digests = _digests(files)
        places = np.searchsorted(self._seen, digests)
        known = np.zeros(len(files), bool)
        inside = places < len(self._seen)
        known[inside] = self._seen[places[inside]] == digests[inside]
        return [files[index] for index in np.flatnonzero(~known).tolist()]

    def append(self, files: Sequence[File]) -> None:
        for first in range(0, len(files), SEGMENT):
            part = list(files[first : first + SEGMENT])
            self._add(Segment(self.length, self.length + len(part)), part)
        self._remember(files)
        last = self._segments[-TOGETHER:]
        if len(last) == TOGETHER and last[-1].end - last[0].begin <= SEGMENT:
            merged = [file for segment in last for file in self._read(segment)]
            del self._segments[-TOGETHER:]
            self._add(Segment(last[0].begin, last[-1].end), merged)
            for segment in last:
                self._filesystem.delete_file(f"{self._folder}/{segment.name}")

    def _remember(self, files: Iterable[File]) -> None:
        """Keep eight bytes of each file. Two files of ten million share them with a probability of 1 to 300,000."""
        self._seen = np.sort(np.concatenate([self._seen, _digests(files)]))

    def _add(self, segment: Segment, files: list[File]) -> None:
        path, hidden = (f"{self._folder}/{name}" for name in (segment.name, f".{uuid.uuid4().hex}"))
        lines = [json.dumps({"muntin": "files", "version": VERSION}), *(json.dumps(list(file)) for file in files)]
        with self._filesystem.open_output_stream(hidden, compression="gzip") as stream:
            stream.write("\n".join(lines).encode())
        self._filesystem.move(hidden, path)  # whole, or not there
        self._segments.append(segment)
        self._loaded = segment, files

    def _read(self, segment: Segment) -> list[File]:
        if self._loaded is not None and self._loaded[0] == segment:
            return self._loaded[1]
        path = f"{self._folder}/{segment.name}"
        try:
            with self._filesystem.open_input_stream(path, compression="gzip") as stream:
                header, *lines = stream.read().decode().split("\n")
            version = json.loads(header)["version"]
            files = [File(*json.loads(line)) for line in lines] if version == VERSION else []
        except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
            raise MuntinError(f"The list of files {path!r} cannot be read: {error}. Bring it back.") from error
        if version != VERSION:
            raise MuntinError(
                f"The list of files {path!r} is of version {version}, and this Muntin reads version {VERSION}; use the "
                "version of Muntin that wrote it, or a later one."
            )
        if len(files) != segment.end - segment.begin:
            raise MuntinError(f"The list of files {path!r} is damaged: it has {len(files):,} files. Bring it back.")
        self._loaded = segment, files
        return files


def _digests(files: Iterable[File]) -> Digests:
    digests = b"".join(hashlib.blake2b(_encoded(file.path), digest_size=8).digest() for file in files)
    return np.frombuffer(digests, np.uint64)


def _encoded(path: str) -> bytes:
    return path.encode(errors="surrogateescape")
