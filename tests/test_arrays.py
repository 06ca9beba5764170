from __future__ import annotations

from itertools import accumulate, groupby
from typing import Any, Literal
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin import arrays
from muntin.arrays import (
    Int64Array,
    Runs,
    chooser,
    expand,
    fold_runs,
    is_sorted,
    positions_in_runs,
    run_numbers,
    run_starts,
    running_max,
    search,
    search_behind,
    spans,
    stable_order,
)
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


@given(st.lists(PAIRS, max_size=5))
def test_is_sorted(pairs: list[tuple[int, int]]) -> None:
    columns = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    assert is_sorted(*columns) == (pairs == sorted(pairs))


@given(st.lists(st.lists(PAIRS, min_size=1, max_size=20), max_size=12))
def test_fold_runs_keeps_the_order(runs: list[list[tuple[int, int]]]) -> None:
    flat = np.array([pair for run in runs for pair in run], dtype=np.int64).reshape(-1, 2)
    folded = fold_runs((flat[:, 0], flat[:, 1]), runs_of(runs), compose)
    assert list(zip(*(column.tolist() for column in folded), strict=True)) == list(map(compose_all, runs))


def test_fold_runs_leaves_its_input_alone() -> None:
    state = (np.arange(5), np.arange(5))
    fold_runs(state, Runs.of(np.array([0, 2]), 5), compose)
    assert state[0].tolist() == [0, 1, 2, 3, 4]


RUNS = st.lists(st.lists(st.integers(-5, 5), min_size=1, max_size=9), max_size=6)


def runs_of(runs: list[list[Any]]) -> Runs:
    return Runs.of_lengths(np.array([len(run) for run in runs], dtype=np.int64))


@given(RUNS)
def test_runs(runs: list[list[int]]) -> None:
    found, lengths = runs_of(runs), [len(run) for run in runs]
    again = Runs.of(found.starts, sum(lengths))
    assert again.lengths.tolist() == lengths
    assert again.starts.tolist() == list(accumulate([0, *lengths]))[: len(runs)]
    assert found.size == sum(lengths)
    assert found.numbers.tolist() == [number for number, run in enumerate(runs) for _ in run]
    assert found.repeated(found.starts).tolist() == [
        start for start, length in zip(found.starts, lengths, strict=True) for _ in range(length)
    ]


@pytest.mark.parametrize("few", [0, 1024])
@pytest.mark.parametrize("dtype", ["int64", "float64", "uint8"])
@given(runs=RUNS.filter(len))
def test_runs_are_added_and_compared(few: int, dtype: str, runs: list[list[int]]) -> None:
    """Many short ones are added in another way than others."""
    values = [[abs(value) for value in run] for run in runs] if dtype == "uint8" else runs
    together = flat(values, dtype)
    with patch.object(arrays, "_FEW_ELEMENTS", few):
        assert runs_of(runs).sums(together).tolist() == [sum(run) for run in values]
    assert runs_of(runs).least(together).tolist() == [min(run) for run in values]
    assert runs_of(runs).greatest(together).tolist() == [max(run) for run in values]


def test_sums_of_runs_may_be_large_as_long_as_each_fits() -> None:
    """However much they are together."""
    large = 1 << 62
    values = np.array([large, -1, large, -2, large, -3, -large, -large])
    with patch.object(arrays, "_FEW_ELEMENTS", 0):
        assert Runs.of(np.arange(0, 8, 2), 8).sums(values).tolist() == [large - 1, large - 2, large - 3, -2 * large]


@pytest.mark.parametrize("few", [0, 1024])
@pytest.mark.parametrize("dtype", ["int64", "float64"])
@given(drawn=st.lists(st.tuples(st.integers(0, 2), st.lists(st.integers(-5, 5), min_size=1, max_size=12)), min_size=1))
def test_runs_that_are_apart(few: int, dtype: str, drawn: list[tuple[int, list[int]]]) -> None:
    """Between them is what must not count."""
    runs = [run for _, run in drawn]
    values = flat([[99] * gap + run for gap, run in drawn] + [[99]], dtype)
    end = np.cumsum([gap + len(run) for gap, run in drawn])
    begin = end - np.array([len(run) for run in runs])
    found = Runs.between(begin, end)
    with patch.object(arrays, "_FEW_ELEMENTS", few):
        assert found.sums(values).tolist() == [sum(run) for run in runs]
    assert found.least(values).tolist() == [min(run) for run in runs]
    assert found.greatest(values).tolist() == [max(run) for run in runs]
    (gathered,), together = found.gathered((values,))
    assert gathered.tolist() == [value for run in runs for value in run]
    assert together.starts.tolist() == starts_of(runs).tolist()
    assert values[-1] == 99


def starts_of(runs: list[list[Any]]) -> Int64Array:
    return np.cumsum([0, *map(len, runs)])[:-1].astype(np.int64)


def flat(runs: list[list[Any]], dtype: str = "int64") -> Any:
    return np.array([value for run in runs for value in run], dtype=dtype)


@given(RUNS)
def test_positions_in_runs(runs: list[list[int]]) -> None:
    length = sum(map(len, runs))
    assert positions_in_runs(starts_of(runs), length).tolist() == [i for run in runs for i in range(len(run))]


@pytest.mark.parametrize("dtype", ["int64", "float64"])
@given(runs=RUNS)
def test_running_max(dtype: str, runs: list[list[int]]) -> None:
    values = flat(runs, dtype)
    before = values.tolist()
    assert running_max(values, starts_of(runs)).tolist() == [each for run in runs for each in accumulate(run, max)]
    assert values.tolist() == before


@given(st.lists(st.lists(st.sampled_from([-(2**63), -1, 0, 2**63 - 1]), min_size=1, max_size=5), max_size=5))
def test_running_max_at_the_limits(runs: list[list[int]]) -> None:
    found = running_max(flat(runs), starts_of(runs))
    assert found.tolist() == [each for run in runs for each in accumulate(run, max)]


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 4)), max_size=8))
def test_expand(drawn: list[tuple[int, int]]) -> None:
    first, count = np.array(drawn, dtype=np.int64).reshape(-1, 2).T
    numbers, source = expand(first, count)
    assert spans(first, count).tolist() == numbers.tolist()
    assert numbers.tolist() == [f + i for f, c in drawn for i in range(c)]
    assert source.tolist() == [i for i, (_, c) in enumerate(drawn) for _ in range(c)]


@pytest.mark.parametrize("side", ["left", "right"])
@given(
    values=st.lists(st.integers(-5, 5), max_size=20).map(sorted),
    drawn=st.lists(st.tuples(st.integers(-7, 7), st.integers(0, 20), st.integers(0, 20)), max_size=10),
)
def test_search(side: Literal["left", "right"], values: list[int], drawn: list[tuple[int, int, int]]) -> None:
    queries = [(t, *sorted(min(edge, len(values)) for edge in edges)) for t, *edges in drawn]
    target, begin, end = np.array(queries, dtype=np.int64).reshape(-1, 3).T
    found = search(np.array(values, dtype=np.int64), target, begin, end, side)
    expected = [b + int(np.searchsorted(values[b:e], t, side)) for t, b, e in queries]
    assert found.tolist() == expected


@pytest.mark.parametrize("long_run", [1, 4, 4096])
@given(runs=RUNS.filter(bool), reach=st.integers(0, 6))
def test_search_behind(long_run: int, runs: list[list[int]], reach: int) -> None:
    runs = [sorted(run) for run in runs]
    values, starts = flat(runs), starts_of(runs)
    with patch.object(arrays, "_LONG_RUN", long_run):
        found = search_behind(values, values + reach, starts)
    assert found.tolist() == [
        int(start) + next((i for i, other in enumerate(run) if other > value + reach), len(run))
        for start, run in zip(starts, runs, strict=True)
        for value in run
    ]


@given(st.lists(st.lists(st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-3, 3), min_size=3, max_size=3)))
def test_stable_order_is_lexsort(rows: list[list[int]]) -> None:
    columns = [np.array([row[i] for row in rows], dtype=np.int64) for i in range(3)]
    assert stable_order(*columns).tolist() == np.lexsort(columns).tolist()


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 40))
def test_a_chooser_takes_what_is_marked(marked: list[bool], long: int) -> None:
    chosen, values = np.array(marked, dtype=bool), np.arange(len(marked))
    with patch.object(arrays, "_LONG_RUNS", long):
        found = chooser(chosen)(values)
    assert found.tolist() == values[chosen].tolist()
    assert not np.shares_memory(found, values)


@given(st.lists(st.integers(1, 5), max_size=8))
def test_runs_are_numbered(lengths: list[int]) -> None:
    starts = np.cumsum([0, *lengths])[:-1] if lengths else np.zeros(0, dtype=np.int64)
    expected = [i for i, length in enumerate(lengths) for _ in range(length)]
    assert run_numbers(starts, sum(lengths)).tolist() == expected


@given(st.lists(st.integers(1, 6), max_size=12), st.booleans())
def test_sums_of_several_columns_are_those_of_each(lengths: list[int], few: bool) -> None:
    runs = Runs.of_lengths(np.array(lengths, dtype=np.int64))
    columns = [np.arange(runs.size, dtype=np.float64) - place for place in range(3)]
    with patch.object(arrays, "_FEW_ELEMENTS", 1024 if few else 0):
        for each in (runs, Runs.between(runs.starts, runs.starts + runs.lengths)):
            found = each.sums_of(*columns)
            for column, sums in zip(columns, found, strict=True):
                assert sums.tolist() == [column[at : at + n].sum() for at, n in zip(runs.starts, lengths, strict=True)]
