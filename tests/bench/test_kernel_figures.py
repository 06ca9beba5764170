"""SPRINGALD's experiments: every way to a window gives the same answers, and every figure can be measured and drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from muntin.arrays import Float64Array
from muntin.bench.kernel_baselines import BASELINES, Tuples
from muntin.bench.kernel_figures import Point, Scale, figures, measured, records, targets
from muntin.bench.kernel_figures_plot import draw
from muntin.bench.kernel_stream import AGGREGATES, EPOCH, Sources, Stream, at_once, one_core

SMALL = Scale(4_000, rounds=1, at_once=1_000, coarse=True)


def _tuples(stream: Stream) -> Tuples:
    return Tuples(*stream.arrays(0), stream.keys)


def _naive(tuples: Tuples, size: int, slide: int) -> Float64Array:
    first, count = tuples.windows(size, slide)
    begins = (np.arange(first, first + count) * slide)[:, None]
    inside = (tuples.times >= begins) & (tuples.times < begins + size)
    of_key = tuples.keys == np.arange(tuples.key_count)[:, None]
    return np.asarray((inside * tuples.values) @ of_key.T)


@pytest.mark.parametrize(
    "stream",
    [
        Stream(500, size=100, slide=10, per_microsecond=1),
        Stream(700, size=60, slide=60, keys=7, per_microsecond=2),
        Stream(600, size=1_000, slide=50, keys=3, skew="Zipf", delay=200, per_microsecond=0.5),
        Stream(1, size=40, slide=10, per_microsecond=1),
    ],
)
def test_all_ways_give_the_same_totals(stream: Stream) -> None:
    tuples = _tuples(stream)
    expected = _naive(tuples, stream.size, stream.slide)
    for name, baseline in BASELINES.items():
        assert np.allclose(baseline(tuples, stream.size, stream.slide), expected), name
    answers = pa.Table.from_batches(at_once(stream)[1])
    keys = answers["k"].to_numpy() if stream.keys > 1 else np.zeros(len(answers), dtype=np.int64)
    totals = np.zeros_like(expected)
    window = answers["window_id"].to_numpy() - tuples.windows(stream.size, stream.slide)[0]
    totals[window, keys] = answers["a"].to_numpy()
    assert np.allclose(totals, expected)
    assert len(answers) == np.count_nonzero(expected)


@pytest.fixture(scope="module")
def sources() -> Iterator[Sources]:
    with Sources(2) as processes:
        yield processes


def test_a_stream_closes_its_windows_as_the_watermark_passes_them(sources: Sources) -> None:
    stream = Stream(20_000, triggers=3, size=200, slide=20, keys=5)
    ran = one_core(stream)
    assert ran.results == 3 * 5 * stream.microseconds // 20
    assert sources.run(stream).results == ran.results
    # Late by up to 400 microseconds: 20 more panes of each key wait.
    assert one_core(replace(stream, delay=200)).panes == ran.panes + 5 * 20


def test_batches_have_few_keys_where_they_are_asked_to() -> None:
    stream = Stream(5_000, keys=100, skew="Zipf", delta_k=25, batch=1_000)
    batches = stream.batches(0)
    assert sum(batch.num_rows for batch in batches) == 5_000
    assert all(len(batch["k"].unique()) <= 25 and batch.num_rows <= 1_000 for batch in batches)
    times = np.concatenate([batch["t"].cast(pa.int64()).to_numpy() for batch in batches])
    assert np.array_equal(np.sort(times), EPOCH + np.arange(5_000) * stream.microseconds // 5_000)
    counts = np.bincount(replace(stream, trigger=200_000).arrays(0)[1])
    assert 1.7 < counts[0] / counts[1] < 2.1  # 2 ** 0.9 is 1.87


def test_every_figure_is_measured_and_drawn(sources: Sources, tmp_path: Path) -> None:
    all_figures = figures(SMALL)
    assert {figure.number.split(",")[0] for figure in all_figures} == {*map(str, [*range(12, 18), 19, 20, 21])}
    # One point per curve: the others differ in size alone.
    few = [replace(figure, points=_first_of_curves(figure.points)) for figure in all_figures]
    values = {figure.number: measured(figure, sources, 1) for figure in few}
    goals = targets(SMALL, sources)
    assert all(value >= 0 for of_figure in values.values() for value in of_figure.values())
    assert {curve for curve, _ in values["15"]} == set(AGGREGATES)
    found = records(few, values)
    assert len(found) >= sum(len(figure.points) for figure in few)
    assert [record.target for record in goals] == [None] * 5
    draw(few, values, tmp_path / "figures.png")
    assert (tmp_path / "figures.png").stat().st_size > 0


def _first_of_curves(points: tuple[Point, ...]) -> tuple[Point, ...]:
    return tuple({point.curve: point for point in reversed(points)}.values())
