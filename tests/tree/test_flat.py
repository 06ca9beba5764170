from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muntin.arrays import State
from muntin.tree import FlatTree
from tests.builders import compose
from tests.naive import compose_all


def naive_range(leaves: State, begin: int, end: int) -> tuple[int, int]:
    return compose_all(zip(leaves[0][begin:end].tolist(), leaves[1][begin:end].tolist(), strict=True))


@given(st.data())
def test_ranges_of_a_combine_that_keeps_order(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 70))
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    leaves = tuple(generator.integers(0, 1000, (2, size)))
    edges = data.draw(st.lists(st.tuples(st.integers(0, size - 1), st.integers(1, size)), max_size=20))
    ranges = [(begin, min(begin + length, size)) for begin, length in edges]
    begin, end = (np.array([each[i] for each in ranges], dtype=np.int64) for i in (0, 1))
    longest = data.draw(st.integers(max((e - b for b, e in ranges), default=1), size + 10))
    found = FlatTree(leaves, compose, longest).ranges(begin, end)
    assert list(zip(*(column.tolist() for column in found), strict=True)) == [naive_range(leaves, *r) for r in ranges]


def test_every_range_of_every_small_tree() -> None:
    for size in range(1, 18):
        leaves = (np.arange(2, size + 2), np.arange(size) * 7 % 5)
        begin, end = (each + k for k, each in enumerate(np.triu_indices(size)))
        found = FlatTree(leaves, compose, size).ranges(begin, end)
        expected = [naive_range(leaves, b, e) for b, e in zip(begin.tolist(), end.tolist(), strict=True)]
        assert list(zip(*(column.tolist() for column in found), strict=True)) == expected


def test_nodes_over_two_keys_are_computed_in_silence() -> None:
    leaves = (np.array([np.inf, -np.inf, 1e308, 1e308]),)
    tree = FlatTree(leaves, lambda a, b: (a[0] + b[0],), longest=4)
    (found,) = tree.ranges(np.arange(4), np.arange(1, 5))
    assert found.tolist() == leaves[0].tolist()


def test_leaves_are_left_alone() -> None:
    leaves = (np.arange(1, 9), np.arange(8))
    FlatTree(leaves, compose, 8).ranges(np.array([0, 3]), np.array([8, 5]))
    assert leaves[0].tolist() == list(range(1, 9))
