from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muntin.tree.doubling import doubled_ranges
from tests.builders import compose
from tests.tree.test_flat import naive_range


@given(st.data())
def test_ranges_of_a_combine_that_keeps_order(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 70))
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    leaves = tuple(generator.integers(0, 1000, (2, size)))
    edges = data.draw(st.lists(st.tuples(st.integers(0, size - 1), st.integers(1, size)), max_size=100))
    ranges = [(begin, min(begin + length, size)) for begin, length in edges]
    begin, end = (np.array([each[i] for each in ranges], dtype=np.int64) for i in (0, 1))
    before = begin.copy()
    found = doubled_ranges(leaves, compose, begin, end)
    assert list(zip(*(column.tolist() for column in found), strict=True)) == [naive_range(leaves, *r) for r in ranges]
    assert begin.tolist() == before.tolist()


def test_every_range_of_few_leaves() -> None:
    for size in range(1, 18):
        leaves = (np.arange(2, size + 2), np.arange(size) * 7 % 5)
        begin, end = (each + k for k, each in enumerate(np.triu_indices(size)))
        found = doubled_ranges(leaves, compose, begin, end)
        expected = [naive_range(leaves, b, e) for b, e in zip(begin.tolist(), end.tolist(), strict=True)]
        assert list(zip(*(column.tolist() for column in found), strict=True)) == expected


def test_nodes_over_two_keys_are_computed_in_silence() -> None:
    leaves = (np.array([np.inf, -np.inf, 1e308, 1e308]),)
    (found,) = doubled_ranges(leaves, lambda a, b: (a[0] + b[0],), np.array([0, 0, 2, 3]), np.array([1, 2, 3, 4]))
    assert found.tolist()[::2] == [np.inf, 1e308]
    assert np.isnan(found[1])
