"""Panes and pairs of a batch, in order and not, against a plain loop."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.arrays import Array, Runs, numbered
from muntin.panes import pairs as module
from muntin.panes.grid import PaneGrid
from muntin.panes.pairs import Panes
from muntin.partials.groups import Groups

TIMES = st.integers(-20, 40) | st.sampled_from([-(2**61), 2**61])


@given(
    st.lists(st.tuples(TIMES, st.integers(0, 3)), min_size=1, max_size=30),
    st.integers(1, 7),
    st.integers(0, 6),
    st.sampled_from([1, 4, 1 << 30]),
    st.booleans(),
    st.sampled_from([1, 1 << 16]),
    st.sampled_from([0, 16]),
)
def test_pairs_are_naive(
    drawn: list[tuple[int, int]], length: int, offset: int, keys: int, ordered: bool, dense: int, per_pane: int
) -> None:
    grid = PaneGrid(length, offset % length)
    rows = sorted(drawn) if ordered else drawn
    times = np.array([time for time, _ in rows], dtype=np.int64)
    codes = np.array([key % keys for _, key in rows], dtype=np.int64)
    if max(times) - min(times) > 1000:  # their panes cannot be listed
        per_pane = max(per_pane, 16)
    with patch.multiple(module, DENSE_GROUPS=dense, _ROWS_PER_PANE=per_pane):
        panes = Panes(grid, times, codes, keys)
    expected = [(key % keys, (time - grid.offset) // length * length + grid.offset) for time, key in rows]
    key, start = panes.key_and_start(panes.pairs.groups)
    assert list(zip(key.tolist(), start.tolist(), strict=True)) == expected
    sizes = Groups(panes.pairs.members, panes.pairs.count).sizes
    occurring = np.flatnonzero(sizes)
    key, start = panes.key_and_start(occurring)
    assert list(zip(key.tolist(), start.tolist(), strict=True)) == sorted(set(expected))
    assert sizes[occurring].tolist() == [expected.count(pair) for pair in sorted(set(expected))]
    key, start = panes.key_and_start()
    assert list(zip(key[occurring].tolist(), start[occurring].tolist(), strict=True)) == sorted(set(expected))


@given(st.lists(st.integers(0, 5) | st.sampled_from([2**40, 2**62, 2**63 - 1])))
def test_numbered_is_unique(drawn: list[int]) -> None:
    values = np.array(drawn, dtype=np.int64)
    numbers, distinct = numbered(values, max(drawn, default=0) + 1)
    assert distinct.tolist() == sorted(set(drawn))
    assert distinct[numbers].tolist() == drawn


FLOATS = st.sampled_from([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.5, -2.25])


@pytest.mark.parametrize("kind", ["float64", "int64"])
@given(st.lists(st.tuples(st.integers(0, 4), FLOATS, st.integers(-(2**63), 2**63 - 1)), max_size=30))
def test_runs_and_numbers_give_the_same(kind: str, drawn: list[tuple[int, float, int]]) -> None:
    drawn = sorted(drawn, key=lambda row: row[0])
    present = sorted({group for group, _, _ in drawn})
    numbers = np.array([present.index(group) for group, _, _ in drawn], dtype=np.int64)
    values: Array = np.array([row[1 if kind == "float64" else 2] for row in drawn], dtype=kind)
    one_way = Groups(numbers, len(present))
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    other_way = Groups(Runs.of(starts, len(numbers)), len(present))
    assert one_way.sizes.tolist() == other_way.sizes.tolist()
    assert other_way.numbers.tolist() == numbers.tolist()
    assert one_way.repeated(np.arange(len(present))).tolist() == other_way.repeated(np.arange(len(present))).tolist()
    reductions = ("least", "greatest", "sums" if kind == "float64" else "exact_sums")
    for name in reductions:
        np.testing.assert_array_equal(getattr(one_way, name)(values), getattr(other_way, name)(values))
    if kind == "int64":
        return
    for group in range(len(present)):
        of_group = values[numbers == group]
        assert np.isnan(one_way.least(values)[group]) == np.isnan(of_group).all()
        assert np.isnan(one_way.greatest(values)[group]) == np.isnan(of_group).any()
    assert not np.signbit(one_way.sums(np.full(len(values), -0.0))).any()
    assert not np.signbit(other_way.sums(np.full(len(values), -0.0))).any()
