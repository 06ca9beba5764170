from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muntin import windows as W
from muntin.arrays import Array
from muntin.windows import DeltaWindow
from muntin.windows.delta import reach_above, reach_below
from tests import naive_models, strategies

LEAST, LARGEST = -(2**63), 2**63 - 1
INTEGERS = st.integers(-20, 20) | st.integers(LEAST, LEAST + 9) | st.integers(LARGEST - 9, LARGEST)
# Halves are exact, so that Python and NumPy add them alike.
FLOATS = st.integers(-40, 40).map(lambda halves: halves / 2) | st.sampled_from([-np.inf, np.inf, -0.0])
AMOUNTS = strategies.AMOUNTS | st.sampled_from([LARGEST, 2**62])
WINDOWS = st.builds(lambda size, slide: W.delta("d", size, slide), AMOUNTS, AMOUNTS)


def arrays(each: st.SearchStrategy[Any], dtype: str, min_size: int = 1) -> st.SearchStrategy[Array]:
    return strategies.sized_lists(each, min_size, 25).map(lambda values: np.array(sorted(values), dtype=dtype))


DELTAS = arrays(INTEGERS, "int64") | arrays(FLOATS, "float64")


def plain(deltas: Array) -> list[Any]:
    values: list[Any] = deltas.tolist()
    return values


@given(WINDOWS, st.lists(DELTAS, min_size=1, max_size=4), st.data())
def test_triggers_are_those_of_a_plain_loop(window: DeltaWindow, drawn: list[Array], data: st.DataObject) -> None:
    runs = [run for run in drawn if run.dtype == drawn[0].dtype]
    ends = np.cumsum([len(run) for run in runs])
    begins = ends - [len(run) for run in runs]
    # The first trigger of a run may be anywhere in it, or behind its end.
    firsts = [data.draw(st.integers(begin, end)) for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
    expected: list[int] = []
    for run, begin, first in zip(runs, begins.tolist(), firsts, strict=True):
        expected += [
            first + i for i in naive_models.delta_triggers(plain(run)[first - begin :], Fraction(window.slide))
        ]
    found = window.triggers(np.concatenate(runs), begins, ends, np.array(firsts))
    assert found.tolist() == expected


@given(WINDOWS, DELTAS)
def test_extent_and_mapping_are_inverse(window: DeltaWindow, deltas: Array) -> None:
    everything = np.array([0]), np.array([len(deltas)])
    triggers = window.triggers(deltas, *everything, np.array([0]))
    begin, end = (bound.tolist() for bound in window.extent(triggers, deltas))
    first, last = (bound.tolist() for bound in window.mapping(np.arange(len(deltas)), deltas))
    values, size = plain(deltas), Fraction(window.size)
    for window_id, trigger in enumerate(triggers.tolist()):
        for i, delta in enumerate(values):
            held = values[trigger] - size <= delta < values[trigger]
            assert held == (begin[window_id] <= i < end[window_id])
            assert held == (first[i] <= window_id <= last[i])


@given(arrays(INTEGERS, "int64"), AMOUNTS)
def test_integers_stop_at_their_limits(deltas: Array, amount: int | float) -> None:
    whole = int(amount)
    assert reach_above(deltas, amount).tolist() == [min(delta + whole, LARGEST) for delta in deltas.tolist()]
    assert reach_below(deltas, amount).tolist() == [max(delta - whole, LEAST) for delta in deltas.tolist()]


def test_triggers_by_hand() -> None:
    window = W.delta("d", 10, 5)
    deltas = np.array([0, 3, 5, 6, 11, 12, 30, 31, 36])
    triggers = window.triggers(deltas, np.array([0]), np.array([9]), np.array([0]))
    assert deltas[triggers].tolist() == [0, 6, 12, 30, 36]
    begin, end = window.extent(triggers, deltas)
    assert [deltas[a:b].tolist() for a, b in zip(begin, end, strict=True)] == [
        [],
        [0, 3, 5],
        [3, 5, 6, 11],
        [],
        [30, 31],
    ]


def test_a_delta_that_never_grows_enough_has_one_trigger() -> None:
    window = W.delta("d", 1, 100)
    deltas = np.arange(100)
    assert window.triggers(deltas, np.array([0]), np.array([100]), np.array([0])).tolist() == [0]
