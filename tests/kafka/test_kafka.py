"""The example with a real broker: restarts, records that are written twice, streams that are killed."""

from __future__ import annotations

import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import deltalake
import pytest
from examples import pipeline_kafka as pipeline
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from scripts.kafka_jars import Jars

import muntin
from muntin import aggregates as A
from muntin import windows as W
from tests.kafka.expected import ROOT, Ride, answers, assert_same, forget_last_commit, keyed, submit

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.extended]
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.shuffle.partitions": "2",
}


def records(spark: SparkSession, name: str) -> DataFrame:
    source = spark.read.format("kafka").option("kafka.bootstrap.servers", pipeline.BROKER)
    return source.option("subscribe", name).load()


def hours(number: int) -> list[Ride]:
    return [ride for hour in range(number) for ride in pipeline.hour_of_rides(hour)]


def table(folder: Path | str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = deltalake.DeltaTable(f"{folder}/fares").to_pyarrow_table().to_pylist()
    return rows


@pytest.mark.usefixtures("topics")
def test_topic_to_topic(spark: SparkSession) -> None:
    """Every restart but the first repeats a batch whose records were written, as after a kill before its commit."""
    for hour in range(3):
        pipeline.send(spark, pipeline.hour_of_rides(hour))
        if hour:
            forget_last_commit(Path(pipeline.FOLDER, "topic-checkpoint"))
        query = pipeline.to_topic(pipeline.fares(pipeline.parsed(pipeline.topic(spark))).to_df())
        query.awaitTermination()
        assert muntin.progress(query).late_rows == 0
    written = records(spark, pipeline.RESULTS).select(F.col("key").cast("string"), F.col("value").cast("string"))
    assert written.count() > written.distinct().count()
    revisions = written.distinct().select("key", F.get_json_object("value", "$.revision").alias("revision"))
    assert revisions.count() == revisions.distinct().count()  # what was written twice is equal
    assert_same(keyed(pipeline.latest(spark).collect()), answers(hours(3)))


@pytest.mark.usefixtures("topics")
def test_topic_to_delta_without_its_extension(spark: SparkSession) -> None:
    """The package deltalake merges on the driver. What is no ride is counted and dropped."""
    broken = spark.createDataFrame([("A", "no ride"), (None, None), ("B", '{"pickup": "noon"}'), ("B", "{}")])
    for hour in range(2):
        pipeline.send(spark, pipeline.hour_of_rides(hour))
        broken.toDF("key", "value").write.format("kafka").option("kafka.bootstrap.servers", pipeline.BROKER).option(
            "topic", pipeline.TOPIC
        ).save()
        if hour:
            forget_last_commit(Path(pipeline.FOLDER, "checkpoint"))
        query = pipeline.to_delta(pipeline.fares(pipeline.parsed(pipeline.topic(spark))).to_df(), forever=False)
        query.awaitTermination()
        progress = muntin.progress(query)
        assert (progress.late_rows, progress.invalid_rows) == (0, 4 * (hour + 1))
        assert_same(keyed(table(pipeline.FOLDER)), answers(hours(hour + 1)))


@pytest.mark.usefixtures("topics")
def test_times_of_records_are_event_times(spark: SparkSession) -> None:
    pipeline.send(spark, pipeline.hour_of_rides(0))
    times = pipeline.topic(spark).select(F.col("key").cast("string").alias("route"), "timestamp")
    over = muntin.over(times, W.tumbling("1 second"), time="timestamp", watermark="1 minute", by="route")
    results = over.agg(n=A.count()).emit("on_change").to_df()
    writer = results.writeStream.format("memory").queryName("by_time").trigger(availableNow=True)
    writer.option("checkpointLocation", pipeline.FOLDER).start().awaitTermination()
    latest = spark.table("by_time").groupBy("window", "route").agg(F.max_by("n", "revision").alias("n"))
    rows = records(spark, pipeline.TOPIC).groupBy(F.window("timestamp", "1 second").alias("window"), "key")
    own = rows.count().select("window", F.col("key").cast("string"), "count")
    assert sorted(map(tuple, latest.collect())) == sorted(map(tuple, own.collect()))


@pytest.mark.usefixtures("topics")
def test_shedding_at_the_source_keeps_the_same_records_in_a_repeated_batch(spark: SparkSession) -> None:
    """Partition and offset identify a record, so that also equal records are kept or shed independently."""
    for hour in (0, 1, 48):  # the last closes the windows of the others
        pipeline.send(spark, [(time, route, 1.0) for time, route, _ in pipeline.hour_of_rides(hour)])
    rides = pipeline.parsed(pipeline.topic(spark))
    query = (
        muntin.over(rides, W.tumbling("1 hour"), time="pickup", watermark="10 minutes", by="route")
        .agg(trips=A.count())
        .shed(rate=0.5, method="uniform", at="source")
    )
    written: dict[str, list[Row]] = {"once": [], "again": []}

    def run(place: str) -> None:
        def write(batch: DataFrame, number: int) -> None:
            written[place] += batch.select("window", "route", "trips", "quality").collect()

        writer = query.to_df().writeStream.foreachBatch(write).trigger(availableNow=True)
        writer.option("checkpointLocation", f"{pipeline.FOLDER}/{place}").start().awaitTermination()

    run("once")
    run("again")
    written["again"].clear()
    forget_last_commit(Path(pipeline.FOLDER, "again"))
    run("again")
    assert written["once"]
    assert sorted(written["again"]) == sorted(written["once"])
    table = pipeline.parsed(records(spark, pipeline.TOPIC))
    counted = table.groupBy(F.window("pickup", "1 hour").alias("window"), "route").count().collect()
    exact = {(row.window.start, row.route): row["count"] for row in counted}
    for row in written["once"]:
        size = exact[row.window.start, row.route]
        assert 0 < row.quality.sampled < size
        assert row.quality.low.trips <= size <= row.quality.high.trips


@pytest.mark.usefixtures("topics")
@pytest.mark.parametrize("extension", [False, True], ids=["deltalake", "extension"])
def test_a_stream_that_is_killed_leaves_the_table_right(
    spark: SparkSession, address: str, jars: Jars, tmp_path: Path, extension: bool
) -> None:
    """Killed twice at random points, while rides arrive; both by the package deltalake and by Delta's extension."""
    chance = random.Random(extension)
    options = ["--jars", ",".join(map(str, jars.spark))]
    options += [part for name, value in DELTA.items() for part in ("--conf", f"{name}={value}")] if extension else []
    environment = {"KAFKA": address, "RIDES": pipeline.TOPIC, "FARES": str(tmp_path)}
    log, sent = tmp_path / "log", 0
    for _ in range(2):
        process = submit(options, "follow", log=log, **environment)
        try:
            before, first, until = committed(tmp_path), sent, time.monotonic() + 240
            while committed(tmp_path) < before + 2 and time.monotonic() < until:
                assert process.poll() is None, log.read_text()[-4000:]
                if committed(tmp_path) - before >= sent - first:
                    pipeline.send(spark, pipeline.hour_of_rides(sent))
                    sent += 1
                time.sleep(0.2)
            pipeline.send(spark, pipeline.hour_of_rides(sent))
            sent += 1
            time.sleep(3 * chance.random())
        finally:
            kill(process)
    last = submit(options, "run", log=log, **environment)
    try:
        assert last.wait(timeout=300) == 0, log.read_text()[-4000:]
    finally:
        kill(last)
    assert sent >= 4
    assert f"{600 * sent} rows so far: 0 too late, 0 invalid" in log.read_text()
    assert_same(keyed(table(tmp_path)), answers(hours(sent)))


def kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def committed(folder: Path) -> int:
    commits = folder / "checkpoint" / "commits"
    return sum(path.name.isdecimal() for path in commits.iterdir()) if commits.is_dir() else 0


def test_the_quickstart_as_it_is_written(address: str, jars: Jars, tmp_path: Path) -> None:
    """The commands of the page in their order, but with the jars that are there, and another folder."""
    page = (ROOT / "docs" / "kafka.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```\n((?:spark-submit|python) .*?)^```", page, re.DOTALL | re.MULTILINE)
    shown = re.findall(r"^```text\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    environment = {"KAFKA": address, "FARES": str(tmp_path / "kafka-results"), "PATH": programs()}
    environment["PYTHONPATH"] = str(ROOT / "src")
    printed = ""
    commands = [shlex.split(line) for block in blocks for line in block.splitlines()]
    assert len(commands) >= 5
    for command in commands:
        if command[0] == "spark-submit":
            assert command[1:3] == ["--packages", "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3"]
            command[1:3] = ["--jars", ",".join(map(str, jars.spark))]
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr[-4000:])
        printed += done.stdout
    assert shown
    for block in shown:
        assert block in printed


def programs() -> str:
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
