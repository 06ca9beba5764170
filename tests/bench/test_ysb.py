"""The Yahoo streaming benchmark: its events have the published shapes, and its answers are Spark's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from muntin.bench import ysb
from muntin.bench.steady import write_tables
from muntin.bench.ysb_data import EPOCH, batches, campaigns, generate


def test_the_events_have_the_published_shapes(tmp_path: Path) -> None:
    ads = campaigns()
    counts = ads.group_by("campaign_id").aggregate([("ad_id", "count_distinct")])
    assert len(ads) == 1_000
    assert counts["ad_id_count_distinct"].to_pylist() == [10] * 100
    first, second = batches(2, 200_000, 100_000)
    assert generate(200_000, 200_000, 100_000) == second
    views = pc.sum(pc.equal(first["event_type"], "view")).as_py() / len(first)
    assert 0.32 < views < 0.35
    assert set(first["ad_id"].unique().to_pylist()) == set(ads["ad_id"].to_pylist())
    late = EPOCH + np.arange(200_000) // 100 - first["event_time"].cast(pa.int64()).to_numpy() // 1_000
    assert late.min() == -50
    assert ((late >= -50) & (late < 50)).mean() > 0.9999
    folder = write_tables(tmp_path / "events", [first])
    types = pq.read_schema(next(folder.iterdir())).names
    assert [column.split()[0] for column in ysb.SCHEMA.split(", ")] == types


def test_records_say_where_spark_has_smaller_batches() -> None:
    rates = {name: {ysb.OURS: 2e6, ysb.SPARK: 1e6} for name in ysb.WINDOWS}
    found = ysb.records(rates, dict.fromkeys(ysb.WINDOWS, 0), ysb.FULL)
    assert [record.ratio for record in found] == [2.0, 2.0, 0.0, 0.0]
    assert ["Spark's batches" in record.note for record in found] == [True, False, False, False]


@pytest.mark.spark
@pytest.mark.parametrize("window", ysb.WINDOWS)
def test_answers_are_those_of_spark(spark: SparkSession, window: str) -> None:
    scale = replace(ysb.QUICK, compared=3_000, per_second=1_000)
    assert ysb.compared(spark, spark, window, scale) == 0


@pytest.mark.extended
def test_a_quick_run_on_spark(tmp_path: Path) -> None:
    assert ysb.run(tmp_path, quick=True) == 0
    assert (tmp_path / "ysb.json").stat().st_size > 0
