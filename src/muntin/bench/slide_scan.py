"""Sliding sum and mean over Parquet files read by `muntin.scan`: the rate of a stream whose rows never enter the JVM.

The target is the rate of WindFlow, a C++ library without fault tolerance, for this query on two cores. A DataFrame
stream of the same files runs beside each run of the scan.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import muntin
from muntin.bench.processes import Peak, together
from muntin.bench.report import Record
from muntin.bench.running import Draw, Running, run_benchmark
from muntin.bench.slide import COMPARED_KEYS, KEYS, PER_SECOND, count_differences, our_query, sparks_query
from muntin.bench.slide_plot import draw
from muntin.bench.steady import FILES_PER_BATCH, Load, Measured, stream, write_batches, write_past
from muntin.query.scan import Scan

RATIOS = (60, 600)
TARGET = 8_000_000
MOST_MEMORY = 1e9
"""Bytes that the Python workers of a stream may have together."""
FULL, QUICK = Load(KEYS, PER_SECOND, seconds=1040, batches=4), Load(KEYS, PER_SECOND, seconds=30, batches=3)
_WARM_UP = 2
"""Batches that do not count: that of past rows, and the first one."""


def run(out: Path, quick: bool = False) -> int:
    load = QUICK if quick else FULL
    title = "Sliding sum and mean of Parquet files, 1,000 keys"
    return run_benchmark("slide-scan", title, out, lambda running: _measured(running, load))


def _measured(running: Running, load: Load) -> tuple[list[Record], Draw]:
    running.steps(3 + 2 * len(RATIOS))
    main = running.place / "main"
    with running.step("making data"):
        write_batches(main, load)
    with running.step("warming up"):
        running.measure(our_query(_scan(running, _folder(running, main, 10)), 10).to_df(), _WARM_UP)
    scans, frames = {}, {}
    peaks: dict[str, Peak] = {}
    for ratio in RATIOS:
        folder = _folder(running, main, ratio)
        with running.step(f"scan, size/slide {ratio}"), together() as peaks[f"size/slide {ratio}: scan"]:
            scans[ratio] = running.measure(our_query(_scan(running, folder), ratio).to_df(), _WARM_UP)
        with running.step(f"DataFrame, size/slide {ratio}"), together() as peaks[f"size/slide {ratio}: DataFrame"]:
            frames[ratio] = running.measure(our_query(stream(running.spark, folder), ratio).to_df(), _WARM_UP)
    with running.step("comparing results"):
        wrong = _wrong(running)
    curves = {
        "Muntin": {ratio: measured.rows_per_s for ratio, measured in scans.items()},
        "a DataFrame in place of the scan": {ratio: measured.rows_per_s for ratio, measured in frames.items()},
    }
    records = [record for ratio in RATIOS for record in _records(ratio, scans[ratio], frames[ratio])]
    records.append(Record("results that differ from Spark's", None, None, float(wrong), 0.0, "lower"))
    records += [_memory(f"{stream}: peak memory of the Python workers", peak) for stream, peak in peaks.items()]
    return records, partial(draw, curves)


def _scan(running: Running, folder: Path) -> Scan:
    return muntin.scan(running.spark, folder, streaming=True, max_files_per_batch=FILES_PER_BATCH)


def _folder(running: Running, main: Path, ratio: int) -> Path:
    """The same files for every ratio, after a batch of past rows that fills the windows."""
    folder = running.place / f"scan-{ratio}"
    folder.mkdir()
    write_past(folder, KEYS, ratio)
    for file in sorted(main.iterdir()):
        os.link(file, folder / file.name)
    return folder


def _records(ratio: int, scan: Measured, frame: Measured) -> list[Record]:
    rates = ", ".join(f"{rate / 1e6:.1f}" for rate in scan.rates)
    return [
        Record(
            name=f"size/slide {ratio}: scan against {TARGET / 1e6:g} M rows/s",
            rows_per_s=scan.rows_per_s,
            baseline=TARGET,
            ratio=scan.rows_per_s / TARGET,
            target=1.0,
            baseline_name="WindFlow",
            note=f"batches of {scan.rows[0]:,} rows at {rates} M rows/s",
        ),
        Record(
            name=f"size/slide {ratio}: scan against a DataFrame stream",
            rows_per_s=scan.rows_per_s,
            baseline=frame.rows_per_s,
            ratio=scan.rows_per_s / frame.rows_per_s,
            target=None,
            baseline_name="DataFrame",
        ),
    ]


def _memory(name: str, peak: Peak) -> Record:
    return Record(
        name=name,
        rows_per_s=None,
        baseline=MOST_MEMORY,
        ratio=peak.size / MOST_MEMORY,
        target=1.0,
        better="lower",
        baseline_name="bytes",
        note=f"{peak.size / 1e6:,.0f} MB together in {peak.workers} processes",
    )


def _wrong(running: Running) -> int:
    """The number of results that differ, over one batch and the keys below COMPARED_KEYS."""
    folder = running.place / "compare"
    write_batches(folder, Load(KEYS, PER_SECOND, seconds=10, batches=1), seed=1)
    scan = muntin.scan(running.spark, folder, where=f"key < {COMPARED_KEYS}")
    table = running.spark.read.parquet(str(folder)).where(f"key < {COMPARED_KEYS}")
    return count_differences(our_query(scan, 60).to_df(), sparks_query(table, 60))
