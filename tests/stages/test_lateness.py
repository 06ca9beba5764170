"""How late rows were, and which windows they missed, against the windows' definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from muntin import windows as W
from muntin.engine.lateness import lateness, lateness_type
from muntin.panes.watermarks import Watermarks
from tests import naive, strategies
from tests.builders import Stream, make_plan, row, sliding, us

US = pa.timestamp("us")


@given(strategies.windows(), st.lists(strategies.TIMES, max_size=8), st.integers(-50, 200))
def test_a_late_row_missed_the_windows_that_contain_it(windows: list[Any], times: list[int], closed: int) -> None:
    several = len(windows) > 1
    kind = lateness_type(US, several)
    late = lateness(np.array(times, dtype=np.int64), windows, Watermarks.at(closed), kind)
    assert late.type == kind
    for time, told in zip(times, late.to_pylist(), strict=True):
        places = sorted(
            (end, start, index, window.title, number)
            for index, window in enumerate(windows)
            for end, start, _, number, _ in naive.places({"t": time}, [window], ())
        )
        missed = [
            (micros(each["end"]), micros(each["start"]), each.get("window_name"), each["window_id"])
            for each in told["missed"]
        ]
        assert missed == [(end, start, title if several else None, number) for end, start, _, title, number in places]
        if places:
            assert told["seconds"] == (closed - places[-1][0]) / 1e6


def micros(time: Any) -> int:
    return int(np.datetime64(time, "us").astype(np.int64))


def test_windows_over_tuples_are_late_by_time_alone() -> None:
    windows = [W.count(3), W.session(us(10))]
    kind = lateness_type(US, several=True)
    (told,) = lateness(np.array([5]), windows, Watermarks(1_000_000, 2_000_000), kind).to_pylist()
    assert told == {"seconds": (1_000_000 - 15) / 1e6, "missed": []}


def test_late_rows_of_a_stream_have_it() -> None:
    plan = make_plan([sliding(20, 10)], emit_late=True, streaming=True)
    stream = Stream(plan)
    stream.batch([row(50)], 45)
    ((batch,),) = stream.told([row(12), row(47)], 45)
    assert batch.column("late").field("n").to_pylist() == [1]
    (told,) = batch.column("lateness").to_pylist()
    assert told["seconds"] == (45 - 30) / 1e6
    assert [each["window_id"] for each in told["missed"]] == [0, 1]
