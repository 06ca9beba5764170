"""The benchmark of latency: which file closes which window, when its results come, and what percentiles say."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql.streaming.query import StreamingQuery

from muntin.bench import latency as bench
from muntin.bench.latency import ENDS, LEAD, SECOND, TICK, Arrivals, Scale
from muntin.bench.latency_plot import draw
from muntin.bench.steady import EPOCH

SCALE = Scale(rounds=1, rates=(50, 200), seconds=2)


@pytest.fixture(scope="module")
def arrivals(tmp_path_factory: pytest.TempPathFactory) -> Arrivals:
    return Arrivals.written(tmp_path_factory.mktemp("rows") / "files", SCALE)


def test_rows_arrive_at_their_rates(arrivals: Arrivals) -> None:
    rows = [pq.read_metadata(file).num_rows for file in arrivals.files]
    lead = round(LEAD / TICK)
    assert arrivals.rates[:lead] == (0,) * lead
    assert [sum(rows[begin : begin + 10]) for begin in range(lead, len(rows), 10)] == [50, 50, 200, 200]


def test_the_closing_file_is_the_first_that_moves_the_watermark_to_the_end(arrivals: Arrivals) -> None:
    closing = arrivals.closing()
    assert closing  # windows do close
    times = [pq.read_table(file)["ts"].cast("int64") for file in arrivals.files]
    for end, number in closing.items():
        assert end % SECOND == EPOCH % SECOND
        assert pc.max(times[number]).as_py() - SECOND >= end
        assert max(pc.max(earlier).as_py() for earlier in times[:number]) - SECOND < end
    ends = sorted(closing)
    assert ends == list(range(ends[0], ends[-1] + SECOND, SECOND))  # none is left out
    assert min(closing.values()) >= arrivals.rates.count(0)  # none that was there from the start


def report(start: str, trigger: int, commit: int, latest: float | None) -> dict[str, Any]:
    return {
        "timestamp": start,
        "durationMs": {"triggerExecution": trigger, "commitOffsets": commit},
        "observedMetrics": {ENDS: {"latest": latest}},
    }


def test_results_come_with_the_first_batch_that_has_them() -> None:
    reports = [
        report("2026-01-01T00:00:00.000Z", 500, 100, None),
        report("2026-01-01T00:00:01.000Z", 500, 100, 20.0),
        report("2026-01-01T00:00:02.000Z", 700, 200, 40.0),
    ]
    query = cast("StreamingQuery", SimpleNamespace(recentProgress=reports))
    midnight = 1767225600.0
    emitted = bench._emitted(query, {10 * SECOND: 1, 20 * SECOND: 2, 30 * SECOND: 3, 50 * SECOND: 4})
    assert emitted == {
        10 * SECOND: pytest.approx(midnight + 1.4),
        20 * SECOND: pytest.approx(midnight + 1.4),
        30 * SECOND: pytest.approx(midnight + 2.5),
    }
    assert set(bench._emitted(query)) == {20 * SECOND, 40 * SECOND}


def test_percentiles_are_of_all_windows_and_what_never_came_counts() -> None:
    seconds = [float(number) for number in range(1, 101)]
    assert bench.percentiles(seconds) == {50: 50.0, 95: 95.0, 99: 99.0}
    assert bench.percentiles([3.0, 1.0, float("inf")]) == {50: 3.0, 95: float("inf"), 99: float("inf")}
    assert bench.percentiles([2.0]) == {50: 2.0, 95: 2.0, 99: 2.0}


def test_the_chart_is_drawn_without_what_never_came(tmp_path: Path) -> None:
    values = {50: 1.0, 95: 2.0, 99: 3.0}
    never = dict.fromkeys(values, float("inf"))
    draw({"Muntin": {10: values, 100: values}, "chained tiles": {10: values, 100: never}}, tmp_path / "x.png")
    assert (tmp_path / "x.png").stat().st_size > 10_000


def test_a_full_run_takes_less_than_four_minutes_and_tells_percentiles_apart() -> None:
    full = bench.FULL
    arriving = full.rounds * 3 * len(full.rates) * full.seconds
    assert arriving + full.rounds * 3 * full.patience < 240
    windows = [float(number) for number in range(full.rounds * full.seconds)]
    assert len(set(bench.percentiles(windows).values())) == 3
