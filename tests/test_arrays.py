from __future__ import annotations

from itertools import groupby

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muntin.arrays import fold_runs, run_starts
from tests.builders import compose
from tests.naive import compose_all

PAIRS = st.tuples(st.integers(0, 3), st.integers(0, 3))


@given(st.lists(PAIRS, max_size=40))
def test_run_starts(pairs: list[tuple[int, int]]) -> None:
    pairs.sort()
    columns = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    starts, position = [], 0
    for _, run in groupby(pairs):
        starts.append(position)
        position += len(list(run))
    assert run_starts(*columns).tolist() == starts


@given(st.lists(st.lists(PAIRS, min_size=1, max_size=20), max_size=12))
def test_fold_runs_keeps_the_order(runs: list[list[tuple[int, int]]]) -> None:
    flat = np.array([pair for run in runs for pair in run], dtype=np.int64).reshape(-1, 2)
    starts = np.cumsum([0, *map(len, runs)])[:-1].astype(np.int64)
    folded = fold_runs((flat[:, 0], flat[:, 1]), starts, compose)
    assert list(zip(*(column.tolist() for column in folded), strict=True)) == list(map(compose_all, runs))


def test_fold_runs_leaves_its_input_alone() -> None:
    state = (np.arange(5), np.arange(5))
    fold_runs(state, np.array([0, 2]), compose)
    assert state[0].tolist() == [0, 1, 2, 3, 4]
