"""The k-th smallest value of a window: the same tuple, whether it is selected, sorted for, or found by its rank."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from muntin.arrays import Int64Array
from muntin.holistic.contents import SELECTED, Selection


def selection(key: list[int], values: list[float], begin: list[int], end: list[int]) -> Selection:
    return Selection(integers(key), pa.array(values, pa.float64()), integers(begin), integers(end))


def naive_kth(values: list[float], begin: int, end: int, k: int) -> int:
    return sorted(range(begin, end), key=lambda i: (values[i], i))[k]


def integers(values: list[int]) -> Int64Array:
    return np.array(values, dtype=np.int64)


@given(st.lists(st.lists(st.sampled_from([-1.0, 0.0, 1.5, float("inf")]), min_size=1), min_size=1), st.data())
def test_any_windows(keys: list[list[float]], data: st.DataObject) -> None:
    """One or no window per key; or windows of all keys, some of which overlap."""
    key = [code for code, values in enumerate(keys) for _ in values]
    values = [value for of_key in keys for value in of_key]
    first = np.cumsum([0, *map(len, keys)]).tolist()
    most = data.draw(st.sampled_from([1, 3]))
    begin, end = list[int](), list[int]()
    for code, of_key in enumerate(keys):
        edges = data.draw(
            st.lists(st.tuples(*[st.integers(0, len(of_key))] * 2).map(sorted), max_size=most).map(sorted)
        )
        edges = [edge for i, edge in enumerate(edges) if i == 0 or edge[1] >= edges[i - 1][1]]
        begin += [first[code] + edge[0] for edge in edges]
        end += [first[code] + edge[1] for edge in edges]
    filled = [i for i in range(len(begin)) if begin[i] < end[i]]
    if not filled:
        return
    selected = selection(key, values, begin, end)
    for _ in range(SELECTED + 1):
        windows = data.draw(st.lists(st.sampled_from(filled), min_size=1, max_size=3))
        k = [data.draw(st.integers(0, end[i] - begin[i] - 1)) for i in windows]
        expected = [naive_kth(values, begin[i], end[i], place) for i, place in zip(windows, k, strict=True)]
        assert selected.kth(integers(windows), integers(k)).tolist() == expected


def test_windows_that_are_apart_need_no_ranks() -> None:
    values = [3.0, 1.0, 1.0, 2.0, 9.0, 7.0]
    selected = selection([0, 0, 0, 0, 1, 1], values, [1, 4], [4, 6])
    assert selected.kth(integers([0, 1, 0]), integers([1, 0, 2])).tolist() == [2, 5, 3]
    assert "ranks" not in vars(selected)
    one = selection([0] * 6, values, [1], [6])
    assert one.kth(integers([0, 0]), integers([1, 4])).tolist() == [2, 4]
    assert not {"ranks", "by_value_in_windows"} & vars(one).keys()


def test_no_windows() -> None:
    one = selection([0, 0], [1.0, 2.0], [1], [1])
    assert one.kth(integers([]), integers([])).dtype == np.int64


def test_windows_that_overlap_share_the_ranks() -> None:
    selected = selection([0] * 4, [3.0, 1.0, 1.0, 2.0], [0, 1], [3, 4])
    assert selected.kth(integers([0, 1]), integers([1, 2])).tolist() == [2, 3]
    assert "ranks" in vars(selected)
