"""The page and the metrics of a real stream, and what notebooks show of results."""

from __future__ import annotations

import json
import urllib.request
from datetime import datetime, timezone
from pathlib import Path

import matplotlib
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import muntin
from muntin import MuntinError
from muntin import aggregates as A
from muntin import windows as W
from muntin.spark.dashboard import Dashboard
from tests.spark.streams import Feed, run

matplotlib.use("Agg")
NOON = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)


def read(page: Dashboard, path: str) -> str:
    with urllib.request.urlopen(page.url + path) as answer:
        text: str = answer.read().decode()
    return text


def test_a_stream_is_watched(spark: SparkSession, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    feed = Feed(spark, here / "in", "ts timestamp, k string, v long")
    start = round(NOON.timestamp() * 1e6)
    for batch in range(3):
        times = [start + (batch * 60 + second) * 1_000_000 for second in range(60)]
        columns = {"k": ["a", "b"] * 30, "v": pa.array(range(60), pa.int64())}
        feed.add(pa.table({"ts": pa.array(times, pa.timestamp("us", tz="UTC")), **columns}))

    windows = W.tumbling("10 seconds")
    query = muntin.over(feed.stream(), windows, time="ts", watermark="10 seconds", by="k").agg(n=A.count())
    frame = query.to_df()
    handle = run(frame, here / "out")
    with muntin.dashboard(handle, results=lambda: spark.read.parquet(str(here / "out" / "out"))) as page:
        figures = json.loads(read(page, "figures.json"))
        metrics = read(page, "metrics")
    assert figures["totals"]["rows"] == 180
    assert figures["running"] is False
    assert sum(batch["rows"] for batch in figures["batches"]) == 180
    last = figures["batches"][-1]
    assert last["parts"]["addBatch"] > 0
    assert last["lag_seconds"] > 3600
    rows = figures["windows"]["rows"]
    assert len(rows) == figures["totals"]["results"] == spark.read.parquet(str(here / "out" / "out")).count()
    assert {row["key"] for row in rows} == {"a", "b"}
    assert {row["value"] for row in rows} == {5.0}
    assert any(line.startswith("muntin_rows_total{") and line.endswith(" 180") for line in metrics.splitlines())
    assert "<td>180</td>" in muntin.progress(handle)._repr_html_()

    with pytest.raises(MuntinError, match="data are a stream"):
        query.show()
    with pytest.raises(MuntinError, match="results are a stream"):
        muntin.plot(frame)
    table = muntin.over(feed.table(), windows, time="ts", by="k").agg(n=A.count(), v=A.sum("v"))
    table.show(2, truncate=False)
    shown = capsys.readouterr().out
    assert shown.count(":00:10}") == 2
    assert "only showing top 2 rows" in shown
    axes = muntin.plot(table.to_df(), "v")
    assert sorted(str(line.get_label()) for line in axes.get_lines()) == ["a", "b"]
    assert "Panes of 10 seconds" in table._repr_html_()
