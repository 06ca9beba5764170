"""Which files made which batch: what Spark's checkpoint says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def committed(checkpoint: Path) -> int:
    """How many batches are done."""
    folder = checkpoint / "commits"
    return sum(each.name.isdigit() for each in folder.iterdir()) if folder.exists() else 0


def batches(checkpoint: Path) -> list[Any]:
    """The watermark and the offsets of every batch; two runs can only be compared if they are the same."""
    found = []
    for _, path in sorted(_numbered(checkpoint / "offsets")):
        _, about, *offsets = path.read_text().splitlines()
        found.append([json.loads(about)["batchWatermarkMs"], *map(json.loads, offsets)])
    return found


def take_back_unplanned(checkpoint: Path) -> None:
    """Make a kill between two notes of Spark one before them both.

    Spark's file source notes the next file before the batch of it is noted. After a kill in between, the next batch has
    two files. That loses nothing, but rows that are late in one run are in time in the other, and the runs cannot be
    compared. Without the first note, it is as if the kill had come a moment earlier.
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
    """The files of a log of Spark's; those that are not finished have other names."""
    numbers = ((each.name.removesuffix(".compact"), each) for each in folder.iterdir()) if folder.exists() else ()
    return [(int(number), path) for number, path in numbers if number.isdigit()]
