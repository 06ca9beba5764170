"""The compress benchmark: it answers the stops query, keeps the pace, and its intervals are Student's.

No test here asserts how fast anything is.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from muntin.bench import compress
from muntin.bench import linear_road as lr
from muntin.bench.compress_grid import MINUTE, WARM_UP, Cell, Paced, filled, half_width, minutes_of, paced, plan_of
from muntin.bench.compress_memory_plot import draw as draw_memory
from muntin.bench.compress_plot import draw

RUN = Paced(100.0, 0.5, 400, 900, 0, 0, 0.0)


def stops_of(reports: pa.Table, begin: int, end: int) -> dict[int, int]:
    """The stops of each vehicle in a window, one by one."""
    found: dict[int, int] = {}
    before: dict[int, bool] = {}
    for time, vehicle, speed in zip(
        reports["time"].cast(pa.int64()).to_pylist(),
        reports["vehicle"].to_pylist(),
        reports["speed"].to_pylist(),
        strict=True,
    ):
        if begin <= time < end:
            found[vehicle] = found.get(vehicle, 0) + (speed == 0 and not before.get(vehicle, False))
            before[vehicle] = speed == 0
    return found


def test_paced_runs_go_on_with_any_delay_and_answer_the_query() -> None:
    hours, minutes = minutes_of(joins=0.05, minutes=2)
    assert (len(hours), len(minutes)) == (lr.SPAN // MINUTE, 2)
    past, minutes = hours[:30], hours[30 : 32 + WARM_UP]
    full = filled(past)
    end = lr.EPOCH + (len(past) + 1) * MINUTE * lr.SECOND
    expected = stops_of(pa.concat_tables([*past, minutes[0]]), end - lr.SPAN * lr.SECOND, end)
    assert sum(expected.values()) > 0
    for after in (None, 60_000_000, 0):
        core = full.copy(plan_of(after))
        core.arrive(minutes[0])
        rows = [row for batch in core.close(end) for row in batch.to_pylist()]
        last = max(row["window_id"] for row in rows)
        assert {row["vehicle"]: row["stops"] for row in rows if row["window_id"] == last} == expected
        core.forget()
        rate = sum(map(len, minutes[WARM_UP:])) / 0.2
        ran = paced(full, after, len(past), minutes, rate)
        assert ran.throughput <= rate  # rows are not processed before they are due
        assert ran.latency > 0
        assert (ran.share > 0.9, ran.decompressions > 0) == (after is not None, after is not None)
    full.forget()


def test_intervals_are_students() -> None:
    values = [1.0, 2.0, 3.0, 4.0, 5.0]
    assert half_width(values) == pytest.approx(4.604 * np.std(values, ddof=1) / 5**0.5, rel=1e-3)
    assert half_width([3.0]) == 0
    cell, plain = (Cell([replace(RUN, throughput=each) for each in ran]) for ran in ([50.0, 60.0], [100.0, 80.0]))
    assert cell.beside(plain, "throughput") == [0.5, 0.75]
    assert cell.mean("throughput") == 55


def test_records_and_the_picture(tmp_path: Path) -> None:
    scale = compress.QUICK
    grid = {
        (delay, rate): Cell([replace(RUN, chunk_bytes=1_200 if delay == compress.NEVER else 400)] * 2)
        for delay in scale.delays
        for rate in scale.rates
    }
    state = compress._of_state(grid, "1 min", scale)
    assert (state.ratio, state.meets) == (3.0, True)
    slow = compress._of_cell(
        grid | {("1 min", scale.rates[-1]): Cell([replace(RUN, throughput=80.0)] * 2)}, "1 min", scale.rates[-1], scale
    )
    assert (slow.ratio, slow.meets) == (0.8, False)
    draw(grid, tmp_path / "deep" / "compress.png")
    assert (tmp_path / "deep" / "compress.png").stat().st_size > 10_000


def test_the_picture_of_resident_memory(tmp_path: Path) -> None:
    draw_memory({"∞": [3, 4, 5], "1 min": [3, 3]}, tmp_path / "memory.png")
    assert (tmp_path / "memory.png").stat().st_size > 5_000
