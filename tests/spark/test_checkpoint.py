"""What `muntin.state` and `muntin checkpoint inspect` show of checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import muntin
from muntin import aggregates as A
from muntin import windows as W
from muntin.cli import main
from tests.checkpoints.on_spark import unpack
from tests.spark.streams import Feed, run
from tests.spark.test_updates import SCHEMA, rides


def query(data: DataFrame) -> muntin.Query:
    windows = W.sliding("30 minutes", "10 minutes"), W.session("5 minutes")
    over = muntin.over(data, *windows, time="ts", watermark="1 day", by=F.upper("k").alias("Key"))
    return over.agg(n=A.count(), most=A.max("v"), mean=A.mean("v"), middle=A.median("v"))


def test_panes_of_a_stream(spark: SparkSession, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing has closed yet: the panes are Spark's own aggregation by key and ten minutes."""
    feed = Feed(spark, here / "in", SCHEMA)
    feed.add(rides(0), rides(1))
    run(query(feed.stream()).to_df(), here / "out")
    checkpoint = here / "out" / "checkpoint"

    found = muntin.state(checkpoint, query(feed.stream()))
    assert found.columns == ["shard", "Key", "start", "end", "n", "most", "mean", "middle"]
    bounds = F.window("ts", "10 minutes").alias("pane")
    by_pane = feed.table().groupBy(F.upper("k").alias("Key"), bounds)
    expected = by_pane.agg(F.count("*").alias("n"), F.max("v").alias("most"), F.avg("v").alias("mean"))
    names = ["Key", "start", "end", "n", "most", "mean"]
    panes = sorted((tuple(row) for row in found.select(names).collect()), key=str)
    columns = F.col("pane.start").alias("start"), F.col("pane.end").alias("end")
    sparks = expected.select("Key", *columns, "n", "most", "mean")
    assert panes == sorted((tuple(row) for row in sparks.collect()), key=str)

    parts = muntin.state(checkpoint).collect()
    shards = {row.shard for row in parts}
    assert sum(row.part == "header" for row in parts) == len(shards)
    assert all(row.bytes > 0 and row.version for row in parts)
    assert sum(row.panes or 0 for row in parts if row.part == "panes") >= len(panes)
    before = muntin.state(checkpoint, query(feed.stream()), batch=0)
    assert before.agg(F.sum("n")).collect()[0][0] == 60

    assert main(["checkpoint", "inspect", str(checkpoint)]) == 0
    printed = capsys.readouterr().out
    for text in (
        "last batch 1",
        "operator 0: ",
        "windows: W.sliding(size='30 minutes', slide='10 minutes'), W.session(gap='5 minutes')",
        'aggregates: n=A.count(), most=A.max("v"), mean=A.mean("v"), middle=A.median("v")',
        "since the start: rows 120",
        "header",
        "panes",
    ):
        assert text in printed

    other = muntin.over(feed.stream(), W.tumbling("1 hour"), time="ts", watermark="1 day").agg(n=A.count())
    with pytest.raises(Exception, match="The checkpoint was made by another query"):
        muntin.state(checkpoint, other).collect()
    sessions = muntin.over(feed.stream(), W.session("1 hour"), time="ts", watermark="1 day").agg(n=A.count())
    with pytest.raises(muntin.MuntinError, match="query has no windows over time"):
        muntin.state(checkpoint, sessions)


def test_a_checkpoint_of_an_early_version(spark: SparkSession, here: Path) -> None:
    unpack("windows", here)
    parts = muntin.state(here / "checkpoint").collect()
    assert {row.part for row in parts} == {"header", "panes", "chunk"}
    assert any(row.compressed for row in parts if row.part == "chunk")
    assert all(row.first <= row.last for row in parts if row.part == "chunk")


def test_what_is_no_checkpoint_is_refused(spark: SparkSession, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(match: str, *given: Any, **options: Any) -> None:
        with pytest.raises(muntin.MuntinError, match=match):
            muntin.state(*given, **options)

    refused("checkpoint must be the path of a checkpoint, got 3", 3)
    refused("is no folder", here / "nowhere")
    refused("is no checkpoint of a stream, which has a file 'metadata'", here)
    (here / "offsets").mkdir()
    (here / "metadata").write_text('{"id": "1"}')
    refused("has no state yet", str(here))
    refused("operator must be a whole number from 0, got -1", here / "x", operator=-1)
    (here / "state" / "0").mkdir(parents=True)
    refused("has no state of Muntin that can be read .operator 0.: ", here)
    assert main(["checkpoint", "inspect", str(here / "nowhere")]) == 1
    assert "is no folder" in capsys.readouterr().err
    assert main(["checkpoint", "inspect", "s3://bucket/checkpoint"]) == 1
    assert "is not on this machine" in capsys.readouterr().err

    feed = Feed(spark, here / "in", SCHEMA)
    feed.add(rides(0))
    counted = feed.stream().withWatermark("ts", "1 hour").groupBy(F.window("ts", "1 hour")).count()
    run(counted, here / "plain")
    refused("has no state of Muntin that can be read", here / "plain" / "checkpoint")
    with pytest.raises(
        muntin.MuntinError, match=r"query must be a query of muntin\.over, before \.to_df\(\), got DataFrame"
    ):
        muntin.state(here / "plain" / "checkpoint", feed.table())  # type: ignore[arg-type]
