"""Order statistics and counts of any range of an array, against sorting the range."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.arrays import Int64Array
from muntin.tree.wavelet import WaveletMatrix

LIMITS = st.sampled_from([1, 2, 3, 255, 256, 257, 65_536, 65_537, 1 << 32, 1 << 40])


@st.composite
def arrays(draw: st.DrawFn) -> tuple[Int64Array, int]:
    """Values, and what all of them are below."""
    limit = draw(LIMITS)
    each = st.integers(0, limit - 1) | st.sampled_from([0, limit - 1])
    return integers(draw(st.lists(each, min_size=1, max_size=40))), limit


def integers(values: list[int]) -> Int64Array:
    return np.array(values, dtype=np.int64)


@given(arrays(), st.data())
def test_the_kth_smallest_of_any_range(drawn: tuple[Int64Array, int], data: st.DataObject) -> None:
    values, limit = drawn
    asked = []
    for _ in range(data.draw(st.integers(0, 10))):
        begin = data.draw(st.integers(0, len(values) - 1))
        end = data.draw(st.integers(begin + 1, len(values)))
        asked.append((begin, end, data.draw(st.integers(0, end - begin - 1))))
    begins, ends, places = (integers([each[i] for each in asked]) for i in range(3))
    found = WaveletMatrix(values, limit).kth(begins, ends, places)
    assert found.tolist() == [sorted(values[begin:end].tolist())[k] for begin, end, k in asked]


@given(arrays(), st.data())
def test_how_many_of_any_range_are_below_a_limit(drawn: tuple[Int64Array, int], data: st.DataObject) -> None:
    values, limit = drawn
    asked = []
    for _ in range(data.draw(st.integers(0, 10))):
        begin = data.draw(st.integers(0, len(values)))
        end = data.draw(st.integers(begin, len(values)))  # perhaps empty
        below = data.draw(st.integers(0, limit) | st.integers(limit, 4 * limit) | st.sampled_from(values.tolist()))
        asked.append((begin, end, below))
    begins, ends, limits = (integers([each[i] for each in asked]) for i in range(3))
    found = WaveletMatrix(values, limit).below(begins, ends, limits)
    assert found.tolist() == [int((values[begin:end] < below).sum()) for begin, end, below in asked]


def test_every_range_of_a_small_array() -> None:
    values = integers([3, 0, 2, 2, 7, 1, 3])
    matrix = WaveletMatrix(values, 8)
    begin, end = (each + k for k, each in enumerate(np.triu_indices(len(values))))
    for k in range(len(values)):
        has = end - begin > k
        expected = [sorted(values[b:e].tolist())[k] for b, e in zip(begin[has], end[has], strict=True)]
        assert matrix.kth(begin[has], end[has], np.full(has.sum(), k)).tolist() == expected
    for limit in range(20):
        expected = [int((values[b:e] < limit).sum()) for b, e in zip(begin, end, strict=True)]
        assert matrix.below(begin, end, np.full(len(begin), limit)).tolist() == expected


@pytest.mark.parametrize("value", [0, 1, 300])
def test_a_single_element(value: int) -> None:
    matrix = WaveletMatrix(integers([value]), value + 1)
    zero, one = integers([0]), integers([1])
    assert matrix.kth(zero, one, zero).tolist() == [value]
    assert matrix.below(zero, one, integers([value])).tolist() == [0]
    assert matrix.below(zero, one, integers([value + 1])).tolist() == [1]
    assert matrix.below(zero, zero, integers([value + 1])).tolist() == [0]


def test_equal_values() -> None:
    matrix = WaveletMatrix(np.full(9, 5), 6)
    begin, end = integers([0, 2, 8]), integers([9, 5, 9])
    assert matrix.kth(begin, end, integers([8, 1, 0])).tolist() == [5, 5, 5]
    assert matrix.below(begin, end, integers([5, 6, 5])).tolist() == [0, 3, 0]


def test_no_values() -> None:
    matrix = WaveletMatrix(integers([]), 1)
    assert matrix.below(integers([0]), integers([0]), integers([1])).tolist() == [0]


def test_the_values_are_left_alone() -> None:
    values = integers([2, 0, 1])
    WaveletMatrix(values, 3).kth(integers([0]), integers([3]), integers([1]))
    assert values.tolist() == [2, 0, 1]
