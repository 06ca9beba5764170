"""The files of each batch, from Spark's checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def committed(checkpoint: Path) -> int:
    """The number of committed batches."""
    folder = checkpoint / "commits"
    return sum(path.name.isdigit() for path in folder.iterdir()) if folder.exists() else 0


def batches(checkpoint: Path) -> list[Any]:
    """The watermark and the offsets of every batch. Runs are comparable only if these are equal."""
    result = []
    for _, path in sorted(_numbered(checkpoint / "offsets")):
        _, metadata, *offsets = path.read_text().splitlines()
        result.append([json.loads(metadata)["batchWatermarkMs"], *map(json.loads, offsets)])
    return result


def take_back_unplanned(checkpoint: Path) -> None:
    """Undo a log entry of Spark's file source that has no batch yet.

    The file source logs the next file before Spark logs its batch. After a kill in between, the next batch has two
    files. That loses nothing, but rows that are late in one run are in time in the other, so the runs are not
    comparable. Without the entry, the kill seems to have come a moment earlier.
    """
    planned = batches(checkpoint)
    if not planned:
        return
    for source, offset in enumerate(planned[-1][1:]):
        for number, path in _numbered(checkpoint / "sources" / str(source)):
            if number > offset["logOffset"]:
                path.unlink()
                path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def _numbered(folder: Path) -> list[tuple[int, Path]]:
    """The finished files of a Spark log by number. Unfinished files have other names."""
    numbers = ((path.name.removesuffix(".compact"), path) for path in folder.iterdir()) if folder.exists() else ()
    return [(int(number), path) for number, path in numbers if number.isdigit()]
