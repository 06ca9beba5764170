"""The benchmark of small batches: parts of a batch add up, and ratios are by round."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from pyspark.sql.streaming.query import StreamingQuery

from muntin.bench import batches as bench
from muntin.bench.batches_plot import draw
from muntin.bench.steady import Measured


def run_of(*milliseconds: int) -> Measured:
    reports = tuple(
        {"durationMs": {"addBatch": ms - 30, "getBatch": 4, "latestOffset": 6, "walCommit": 12, "commitOffsets": 8}}
        for ms in milliseconds
    )
    seconds = tuple(ms / 1000 for ms in milliseconds)
    return Measured((50_000,) * len(seconds), seconds, cast("StreamingQuery", None), (), reports)


def test_parts_are_sums_of_sparks_durations() -> None:
    parts = bench.parts([run_of(130, 230), run_of(330)])
    assert parts == {"source": 10, "offset log": 12, "planning": 0, "the batch itself": 200, "commit log": 8}


def test_ratios_are_medians_of_rounds() -> None:
    names = (bench.OURS, bench.ONE_SHARD, bench.NO_OP, bench.WINDOW, bench.TILES, bench.THROUGH)
    runs = {name: [run_of(100), run_of(200), run_of(400)] for name in names}
    runs[bench.WINDOW] = [run_of(200), run_of(200), run_of(200)]  # ratios 0.5, 1 and 2
    records = {record.name: record for record in bench._records(runs, {bench.WINDOW: 0, bench.TILES: 2})}
    against = records[f"Muntin's time against: {bench.WINDOW}"]
    assert against.ratio == pytest.approx(1.0)
    assert against.meets is False  # the target is 0.6
    assert records[f"Muntin's time against: {bench.NO_OP}"].meets is True
    assert records["Muntin"].rows_per_s == pytest.approx(250_000)
    assert records[f"results that differ from: {bench.TILES}"].meets is False


def test_the_chart_is_drawn(tmp_path: Path) -> None:
    draw({"Muntin": bench.parts([run_of(130)]), "another": bench.parts([run_of(99)])}, tmp_path / "x.png")
    assert (tmp_path / "x.png").stat().st_size > 10_000
