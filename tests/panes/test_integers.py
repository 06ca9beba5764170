"""Integers in few bytes come back as they were."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.panes.integers import Distances, restored, shortened

ANY = st.integers(-(1 << 63), (1 << 63) - 1)
COLUMNS = st.lists(ANY) | st.lists(st.integers(0, 9)) | st.lists(st.integers(0, 1 << 20).map(lambda n: n * 1_000_000))
DISTANCES = st.sampled_from(["never", "if narrower", "always"])


@given(COLUMNS, DISTANCES, st.booleans())
def test_there_and_back(values: list[int], distances: Distances, divided: bool) -> None:
    column = np.array(values, dtype=np.int64)
    short, how = shortened(column, distances, divided)
    assert short.dtype.itemsize <= 8
    assert restored(short, {name: each.encode() for name, each in how.items()}).tolist() == values


@pytest.mark.parametrize(
    ("values", "distances", "divided", "width"),
    [
        ([7, 9, 262], "never", False, 1),
        ([7, 9, 263], "never", False, 2),
        ([1_700_000_000_000_000, 1_700_000_000_000_300, 1_700_000_000_000_500], "never", False, 2),
        ([0, 200, 400, 600], "never", False, 2),
        ([0, 200, 400, 600], "if narrower", False, 1),
        ([0, 30_000_000, 60_000_000], "never", False, 4),
        ([0, 30_000_000, 60_000_000], "never", True, 1),
        ([-(1 << 62), 1 << 62], "never", True, 8),
    ],
)
def test_in_how_many_bytes(values: list[int], distances: Distances, divided: bool, width: int) -> None:
    short, _ = shortened(np.array(values, dtype=np.int64), distances, divided)
    assert short.dtype.itemsize == width
