"""Shares: every byte of every file is in exactly one, in order, and all are about as long."""

from __future__ import annotations

from itertools import pairwise
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from muntin.files import shares
from muntin.files.file_set import File


@given(st.lists(st.integers(1, 60), max_size=12), st.integers(1, 9))
def test_shares_divide_the_files(sizes: list[int], tasks: int) -> None:
    files = [File(f"{number}", size, 0) for number, size in enumerate(sizes)]
    with patch.object(shares, "SMALLEST", 4), patch.object(shares, "LARGEST", 32):
        parts = shares.cut(shares.whole(files), tasks)
    pieces = [piece for share in parts for piece in share]
    assert all(piece.begin < piece.end for piece in pieces)
    assert [file for file in files for _ in range(file.size)] == [
        piece.file for piece in pieces for _ in range(piece.end - piece.begin)
    ]
    for file in files:
        own = [piece for piece in pieces if piece.file == file]
        edges = [(piece.begin, piece.end) for piece in own]
        assert edges[0][0] == 0
        assert edges[-1][1] == file.size
        assert all(left[1] == right[0] for left, right in pairwise(edges))
    lengths = [sum(piece.end - piece.begin for piece in share) for share in parts]
    assert max(lengths, default=0) - min(lengths, default=0) <= 1
    assert max(lengths, default=0) <= 32


def test_how_many() -> None:
    million = 1 << 20
    assert shares.share_count(0, 8) == 0
    assert shares.share_count(1, 8) == 1
    assert shares.share_count(400 * million, 8) == 8
    assert shares.share_count(16 * million, 8) == 4
    assert shares.share_count(1280 * million, 2) == 10
