"""Cuts files into shares, one for each task."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from muntin.files.file_set import File, Piece

LARGEST = 128 << 20
"""The bytes that a task reads at most, as Spark's."""
SMALLEST = 4 << 20
"""A smaller share costs more to start than to read."""


def share_count(total: int, tasks: int) -> int:
    """How many shares there are of this many bytes: one per task, unless that makes very small or very large ones."""
    if total == 0:
        return 0
    size = min(LARGEST, max(SMALLEST, -(-total // tasks)))
    return -(-total // size)


def cut(pieces: Sequence[Piece], tasks: int) -> list[tuple[Piece, ...]]:
    """The shares of tasks, all of the same length, in the order of the pieces: neighbours have neighbouring times."""
    total = sum(piece.end - piece.begin for piece in pieces)
    count = share_count(total, tasks)
    shares: list[list[Piece]] = [[] for _ in range(count)]
    position = 0
    for file, start, stop in pieces:
        size = stop - start
        first, last = position * count // total, (position + size - 1) * count // total
        for share in range(first, last + 1):
            begin = max(-(-share * total // count) - position, 0)
            end = min(-(-(share + 1) * total // count) - position, size)
            shares[share].append(Piece(file, start + begin, start + end))
        position += size
    return [tuple(share) for share in shares if share]


def whole(files: Iterable[File]) -> list[Piece]:
    """Each file as one piece."""
    return [Piece(file, 0, file.size) for file in files]
