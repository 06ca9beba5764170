"""The page and the metrics of a real stream, and what notebooks show of results."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.request
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import matplotlib
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import muntin
from muntin import MuntinError
from muntin import aggregates as A
from muntin import windows as W
from muntin.dashboard_command import page_of
from muntin.spark.dashboard import Dashboard
from tests.dashboard.chromium import BINARY, MISSING, browser
from tests.spark.streams import Feed, run

matplotlib.use("Agg")
NOON = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)


def read(page: Dashboard, path: str) -> str:
    with urllib.request.urlopen(page.url + path) as answer:
        text: str = answer.read().decode()
    return text


def minute(number: int) -> pa.Table:
    """A row per second."""
    start = round(NOON.timestamp() * 1e6)
    times = [start + (number * 60 + second) * 1_000_000 for second in range(60)]
    columns = {"k": ["a", "b"] * 30, "v": pa.array(range(60), pa.int64())}
    return pa.table({"ts": pa.array(times, pa.timestamp("us", tz="UTC")), **columns})


def stored(page: Dashboard, last: int) -> Any:
    """The figures of a checkpoint, once the states of all its batches have been read."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        figures = json.loads(read(page, "figures.json"))
        known = [batch["rows"] is not None for batch in figures["batches"]]
        if len(known) > last and all(known):
            return figures
        time.sleep(0.1)
    raise AssertionError(f"the states were not read: {figures}")


def assert_the_same_from_the_checkpoint(place: Path, live: Any, metrics: str) -> None:
    """A page that has no query has what the page of the query has, but for what only its process knows."""
    last = live["batches"][-1]["batch"]
    with page_of(str(place / "checkpoint"), str(place / "out"), "parquet", "n", 0, 0) as page:
        figures = stored(page, last)
        from_state = samples(read(page, "metrics"))
    assert figures["totals"] == {name: live["totals"][name] for name in figures["totals"]}
    assert figures["totals"].keys() == {"rows", "results", "late_rows", "invalid_rows"}
    assert figures["windows"] == live["windows"]
    assert (figures["running"], figures["error"], figures["checkpoint"]["begun"]) == (None, None, None)
    same = ["batch", "watermark", "rows", "results", "late_rows", "invalid_rows", "shed_rows", "state_bytes"]
    for ours, theirs in zip(figures["batches"], live["batches"], strict=True):
        assert {name: ours[name] for name in same} == {name: theirs[name] for name in same}
        assert 0 < ours["seconds"] < theirs["seconds"] + 0.5  # Spark's clock begins a little earlier
        assert ours["lag_seconds"] == (theirs["lag_seconds"] and pytest.approx(theirs["lag_seconds"], abs=5))
        assert ours["hot_bytes"] is None
    for name in ("muntin_rows_total", "muntin_results_total", "muntin_state_bytes", "muntin_batch_id"):
        assert from_state[name] == samples(metrics)[name]
    assert 0 < from_state["muntin_commit_age_seconds"] < 600
    assert "muntin_running" not in from_state


def samples(text: str) -> dict[str, float]:
    """Samples by the names of their metrics; of several, the last."""
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    return {name.partition("{")[0]: float(value) for name, value in lines}


@pytest.mark.extended
@pytest.mark.skipif(BINARY is None, reason=MISSING)
def test_another_process_shows_a_stream_while_it_runs(spark: SparkSession, here: Path) -> None:
    """The command, in a browser: batches of the running stream appear on the page."""
    feed = Feed(spark, here / "in", "ts timestamp, k string, v long")
    feed.add(minute(0))
    frame = muntin.over(feed.stream(), W.tumbling("10 seconds"), time="ts", watermark="10 seconds", by="k")
    writer = frame.agg(n=A.count()).to_df().writeStream.format("parquet").option("path", str(here / "out"))
    handle = writer.option("checkpointLocation", str(here / "checkpoint")).start()
    handle.processAllAvailable()
    command = [sys.executable, "-m", "muntin", "dashboard", "--checkpoint", str(here / "checkpoint")]
    command += ["--results", str(here / "out"), "--value", "n"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=here) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[0]
            with browser(here / "profile") as seen:
                seen.open(url)
                seen.wait_for("document.querySelector('#totals dd')?.textContent === '60'")
                feed.add(minute(1), minute(2))
                handle.processAllAvailable()
                seen.wait_for("document.querySelector('#totals dd')?.textContent === '180'")
                seen.wait_for("document.querySelectorAll('#windows-table tbody tr').length > 5")
                assert seen.evaluate("document.getElementById('stored').hidden") is False
                assert "last commit 20" in seen.evaluate("document.getElementById('status').textContent")
                assert seen.evaluate("document.getElementById('problem').hidden") is True
        finally:
            process.send_signal(signal.SIGINT)
            handle.stop()
        assert process.wait(timeout=60) == 130


def test_a_stream_is_watched(spark: SparkSession, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    feed = Feed(spark, here / "in", "ts timestamp, k string, v long")
    feed.add(*map(minute, range(3)))

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
    assert_the_same_from_the_checkpoint(here / "out", figures, metrics)
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
