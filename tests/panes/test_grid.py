from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muntin.panes.grid import PaneGrid, last_ends
from muntin.windows import PaneWindow
from tests import naive, strategies
from tests.builders import sliding

NONE = np.iinfo(np.int64).min


@given(strategies.windows(), st.integers(-100, 100))
def test_every_window_edge_is_a_pane_edge(windows: list[PaneWindow], window_id: int) -> None:
    grid = PaneGrid.of(windows)
    for window in windows:
        edges = np.array([window.start(window_id), window.end(window_id)])
        assert grid.starts(edges).tolist() == edges.tolist()


@given(strategies.windows())
def test_panes_are_the_widest_possible(windows: list[PaneWindow]) -> None:
    # A wider pane would swallow an edge: between two neighbouring edges there is no room for one more length.
    grid = PaneGrid.of(windows)
    edges = {edge for w in windows for i in range(-80, 80) for edge in (w.start(i), w.end(i))}
    inner = [edge for edge in edges if -60 <= edge <= 60]
    distances = np.diff(sorted(inner))
    assert np.gcd.reduce(distances) == grid.length


@given(strategies.windows(), strategies.TIMES)
def test_a_time_is_in_its_pane(windows: list[PaneWindow], time: int) -> None:
    grid = PaneGrid.of(windows)
    (start,) = grid.starts(np.array([time])).tolist()
    assert start <= time < start + grid.length
    assert (start - grid.offset) % grid.length == 0


@given(strategies.windows(), st.lists(strategies.TIMES, max_size=20))
def test_last_ends_is_naive(windows: list[PaneWindow], times: list[int]) -> None:
    starts = PaneGrid.of(windows).starts(np.array(times, dtype=np.int64))
    expected = [
        max((w.end(i) for w in windows for i in naive.windows_holding(w, time)), default=NONE) for time in times
    ]
    assert last_ends(starts, windows).tolist() == expected


def test_offsets_cut_panes() -> None:
    assert PaneGrid.of([sliding(60, 20)]) == PaneGrid(20, 0)
    assert PaneGrid.of([sliding(60, 20, offset=5)]) == PaneGrid(20, 5)
    assert PaneGrid.of([sliding(60, 20), sliding(60, 20, offset=5)]) == PaneGrid(5, 0)
