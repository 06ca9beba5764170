"""Draws docs/dashboard.png: the page of a stream of the flights of 2013, in Chromium.

The stream sheds, estimates and compresses at once. Each week of flights is a batch.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from tests.dashboard.chromium import BINARY, MISSING, browser  # noqa: E402

import muntin  # noqa: E402
from muntin import aggregates as A  # noqa: E402
from muntin import windows as W  # noqa: E402
from muntin.demo import flights  # noqa: E402

WEEKS = 16
WIDTH = 1100


def write_weeks(folder: Path) -> None:
    """The flights as they are reported, a file for each week."""
    rows, reported = flights.in_order_of_report(flights.load())
    weeks = np.asarray(reported).astype("datetime64[us]").astype("datetime64[W]").astype(int)
    for number, week in enumerate(np.unique(weeks)[:WEEKS]):
        path = folder / f"{number:02}.parquet"
        pq.write_table(rows.filter(pa.array(weeks == week)), path)
        os.utime(path, (number, number))  # a stream reads the oldest file first


def query(data: Any) -> muntin.Query:
    windows = W.sliding("7 days", "6 hours")
    over = muntin.over(data, windows, time="departure", watermark="6 hours", by="origin", name="delays")
    found = over.agg(median=A.median("dep_delay"), flights=A.count())
    return found.shed(rate=0.5).approximate(budget="20 kB", error=0.05).compress(after="2 days")


def main() -> int:
    if BINARY is None:
        print(MISSING, file=sys.stderr)
        return 1
    spark = muntin.session("muntin-picture")
    spark.sparkContext.setLogLevel("OFF")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    with tempfile.TemporaryDirectory() as temporary:
        here = Path(temporary)
        (here / "in").mkdir()
        write_weeks(here / "in")
        frame = query(flights.stream(spark, here / "in")).to_df()
        writer = frame.writeStream.queryName("delays").format("parquet").option("path", str(here / "out"))
        stream = writer.option("checkpointLocation", str(here / "checkpoint")).start()
        try:
            stream.processAllAvailable()
            page = muntin.dashboard(stream, results=lambda: spark.read.parquet(str(here / "out")))
            with page, browser(here / "profile") as seen:
                seen.open(page.url)
                seen.wait_for("document.querySelectorAll('#windows-chart svg').length > 0")
                seen.screenshot(ROOT / "docs" / "dashboard.png", WIDTH)
        finally:
            stream.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
