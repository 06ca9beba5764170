"""Spark's settings, one by one, in batches of 50,000 rows: the processor time and the time of a batch with each.

Every setting has a session of its own, and settings of the whole Spark context a context of their own, in the same JVM.
They take the same batches in turn, several rounds of each. Processor time is that of the JVM, of its Python workers and
of the processes that Hadoop starts for files, from the first batch that counts to the end. It says what a setting costs
or saves where other work has the cores, and depends less on what else the machine does than the time of a batch.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from statistics import median

import matplotlib
from pyspark.sql import SparkSession

import muntin
from muntin.bench.processes import cpu_seconds
from muntin.bench.report import Record
from muntin.bench.running import Draw, Running, run_benchmark
from muntin.bench.small import KEYS, ours
from muntin.bench.steady import Load, stream, write_batches
from muntin.spark.session import local_builder

matplotlib.use("Agg")
from matplotlib import pyplot as plt

PER_SECOND = 50
_STREAMING, _STORE = "spark.sql.streaming", "spark.sql.streaming.stateStore"
BY_FILE_SYSTEM = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


@dataclass(frozen=True)
class Variant:
    name: str
    conf: Mapping[str, str] = field(default_factory=dict)
    context: Mapping[str, str] = field(default_factory=dict)
    """Settings of the context, which nothing can change while it runs."""
    shards: int | None = None


AS_CONFIGURED = Variant("as configured")
VARIANTS = (
    AS_CONFIGURED,
    Variant("one shard", shards=1),
    Variant("eight shards", shards=8),
    Variant("no checksums of checkpoint files", {f"{_STREAMING}.checkpoint.fileChecksum.enabled": "false"}),
    Variant("checkpoint files by FileSystem", {f"{_STREAMING}.checkpointFileManagerClass": BY_FILE_SYSTEM}),
    Variant("RocksDB: no changelog", {f"{_STORE}.rocksdb.changelogCheckpointing.enabled": "false"}),
    Variant("RocksDB: rows are not counted", {f"{_STORE}.rocksdb.trackTotalNumberOfRows": "false"}),
    Variant("state: no reports of snapshots", {f"{_STORE}.coordinatorReportSnapshotUploadLag": "false"}),
    Variant("logs are not purged beside batches", {f"{_STREAMING}.asyncLogPurge.enabled": "false"}),
    Variant("logs of ten batches are kept", {f"{_STREAMING}.minBatchesToRetain": "10"}),
    Variant("no adaptive execution", {"spark.sql.adaptive.enabled": "false"}),
    Variant("Unix domain sockets", context={"spark.python.unix.domain.socket.enabled": "true"}),
    Variant("pipelined Python functions", context={"spark.python.udf.pipelined.enabled": "true"}),
)


@dataclass(frozen=True)
class Scale:
    rounds: int
    batches: int
    warm_up: int


FULL = Scale(rounds=5, batches=10, warm_up=3)
QUICK = Scale(rounds=1, batches=4, warm_up=2)


@dataclass(frozen=True)
class Cost:
    """Seconds of the median batch, and of the processor per batch."""

    seconds: float
    processor: float


def run(out: Path, quick: bool = False) -> int:
    """Measure, show and write. There are no targets."""
    scale, title = QUICK if quick else FULL, "Spark's settings in batches of 50,000 rows"
    return run_benchmark("settings", title, out, lambda running: _measured(running, scale))


def _measured(running: Running, scale: Scale) -> tuple[list[Record], Draw]:
    folder = running.place / "rows"
    write_batches(folder, Load(KEYS, PER_SECOND, seconds=1, batches=scale.batches))
    running.steps((scale.rounds + 1) * len(VARIANTS))
    costs: dict[str, list[Cost]] = {variant.name: [] for variant in VARIANTS}
    for turn in range(scale.rounds + 1):  # the first round warms up
        for variant, spark in _sessions(running):
            with running.step(variant.name if turn else f"warming up, {variant.name}"):
                cost = _cost(spark, folder, running.place, scale.warm_up)
            if turn:
                costs[variant.name].append(cost)
    return records(costs), partial(_draw, costs)


def _sessions(running: Running) -> Iterator[tuple[Variant, SparkSession]]:
    for context, variants in groupby(VARIANTS, lambda variant: variant.context):
        if context:
            running.spark = _restarted(running.spark, context)
        for variant in variants:
            spark = muntin.configure(running.spark.newSession(), shards=variant.shards)
            for name, value in variant.conf.items():
                spark.conf.set(name, value)
            yield variant, spark
    running.spark = _restarted(running.spark, {})


def _restarted(spark: SparkSession, context: Mapping[str, str]) -> SparkSession:
    """Another context in the same JVM."""
    spark.stop()
    builder = local_builder("muntin-bench")
    for variant in VARIANTS:
        for name in variant.context:
            builder = builder.config(name, context.get(name, "false"))
    restarted: SparkSession = builder.getOrCreate()
    restarted.sparkContext.setLogLevel("ERROR")
    return restarted


def _cost(spark: SparkSession, folder: Path, place: Path, warm_up: int) -> Cost:
    checkpoint = tempfile.mkdtemp(dir=place)
    writer = ours(stream(spark, folder)).writeStream.format("noop").option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    begin: tuple[float, int] | None = None
    while query.isActive:
        time.sleep(0.05)
        ended = len(query.recentProgress)
        if begin is None and ended >= warm_up:
            begin = cpu_seconds(), ended
    query.awaitTermination()  # raises what made it end, if anything did
    reports = query.recentProgress
    if begin is None or begin[1] >= len(reports):
        raise RuntimeError("The stream ended before its first batch could be measured.")
    processor = (cpu_seconds() - begin[0]) / (len(reports) - begin[1])
    shutil.rmtree(checkpoint, ignore_errors=True)
    return Cost(median(report["durationMs"]["triggerExecution"] for report in reports[warm_up:]) / 1e3, processor)


def records(costs: Mapping[str, Sequence[Cost]]) -> list[Record]:
    """The processor time of each setting against that as configured: the median of the ratios of each round."""
    base, found = costs[AS_CONFIGURED.name], []
    for name, measured in costs.items():
        ratios = [cost.processor / other.processor for cost, other in zip(measured, base, strict=True)]
        shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        processor, seconds = (median(getattr(cost, what) for cost in measured) for what in ("processor", "seconds"))
        note = f"{processor * 1e3:,.0f} ms of processor time, {seconds * 1e3:,.0f} ms a batch (medians)"
        note += "" if name == AS_CONFIGURED.name else f"; processor time by round {shown}"
        found.append(Record(name, None, None, median(ratios), None, "lower", note=note))
    return found


def _draw(costs: Mapping[str, Sequence[Cost]], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    names = list(costs)[::-1]
    bars = axes.barh(names, [median(cost.processor for cost in costs[name]) * 1e3 for name in names], color="#0b6e4f")
    axes.bar_label(bars, fmt="%.0f ms", fontsize=8, padding=3)
    axes.set_title("Processor time of a batch of 50,000 rows", loc="left", weight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
