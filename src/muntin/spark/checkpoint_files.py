"""What Spark's files in a checkpoint on this machine say of its batches."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class StoredBatch:
    """A batch by its files. Times are in seconds since 1970."""

    number: int
    started: float
    """When the query began the batch, by its clock."""
    watermark: float | None
    """The watermark of the batch; None before there is one."""
    planned: float
    """When its offsets were written."""
    committed: float | None
    """When it was committed; None of a batch that runs, or was interrupted."""


class BatchFiles:
    """The batches of a checkpoint that Spark has kept. Files that have been read are read again only if they change."""

    def __init__(self, folder: Path) -> None:
        self._offsets, self._commits = folder / "offsets", folder / "commits"
        self._read: dict[tuple[int, float], tuple[float, float | None] | None] = {}

    def last(self, most: int) -> list[StoredBatch]:
        """The last batches, the oldest first."""
        numbers = _numbers(self._offsets)[-most:]
        found = [self._batch(number) for number in numbers]
        kept = set(numbers)
        self._read = {key: value for key, value in self._read.items() if key[0] in kept}
        return [batch for batch in found if batch is not None]

    def _batch(self, number: int) -> StoredBatch | None:
        path = self._offsets / str(number)
        planned = _modified(path)
        if planned is None:
            return None  # Spark has removed it
        if (number, planned) not in self._read:
            self._read[number, planned] = _times(path)
        times = self._read[number, planned]
        return None if times is None else StoredBatch(number, *times, planned, _modified(self._commits / str(number)))


def _numbers(folder: Path) -> list[int]:
    return sorted(int(entry.name) for entry in folder.iterdir() if entry.name.isdecimal()) if folder.is_dir() else []


def last_batch(folder: Path) -> int | None:
    """The number of the last batch that was committed."""
    return max(_numbers(folder / "commits"), default=None)


def _modified(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return None


def _times(path: Path) -> tuple[float, float | None] | None:
    """When a batch began, and its watermark, as its offsets say; None if they do not."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()[1:2]  # behind the version
        said: Any = json.loads(lines[0]) if lines else None
        started, watermark = float(said["batchTimestampMs"]), float(said["batchWatermarkMs"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return started / 1000, watermark / 1000 if watermark else None
