"""One stream, in a process that may be killed. It continues from its checkpoint, and ends when all files are read.

Then it runs the same query again, from the start and undisturbed. For both runs, it writes the rows of the sink and the
counters of the state to files.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import muntin
from muntin.engine.store import Header
from muntin.spark.metrics import metrics_of
from tests.faults.feeds import SCHEMA
from tests.faults.scenarios import RUNS, SCENARIOS, SHARDS

HERE = "127.0.0.1"


def main(name: str, place: Path, master: str) -> None:
    spark = _session(master, place)
    for run in RUNS:
        _run(spark, name, place, run)
    spark.stop()


def _session(master: str, place: Path) -> SparkSession:
    settings = {
        "spark.driver.host": HERE,
        "spark.driver.bindAddress": HERE,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.executor.memory": "512m",
        "spark.locality.wait": "0",  # so that shards move from worker to worker
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(place / "warehouse"),
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",  # these processes live only briefly
    }
    builder = SparkSession.builder.master(master).appName("faults")
    for setting, value in settings.items():
        builder = builder.config(setting, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return muntin.configure(spark, shards=SHARDS)


def _run(spark: SparkSession, name: str, place: Path, run: str) -> None:
    sink, checkpoint = place / run / "sink", place / run / "checkpoint"
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    frame = SCENARIOS[name].build(reader.parquet(str(place / "left")), reader.parquet(str(place / "right")))
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(sink))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    counters = _counters(spark, checkpoint)
    progress = muntin.progress(query)
    if progress.batch_id >= 0:  # after a kill, there may be no batch left
        assert {counter: getattr(progress, counter) for counter in counters} == counters, (
            "progress differs from the state"
        )
    metrics = [metrics_of(report) for report in query.recentProgress]
    misses = sum(batch["cache_misses"] or 0 for batch in metrics if batch is not None)
    # Read the sink through its log, which leaves out files of unfinished batches.
    pq.write_table(spark.read.schema(frame.schema).parquet(str(sink)).toArrow(), place / run / "rows.parquet")
    unfinished = place / run / "unfinished.json"
    unfinished.write_text(json.dumps({"counters": counters, "misses": misses}))
    unfinished.replace(place / run / "report.json")


def _counters(spark: SparkSession, checkpoint: Path) -> dict[str, int]:
    """The counters of all shards since the query first started, from the state after the last batch."""
    state = spark.read.format("statestore").option("stateVarName", "header").load(str(checkpoint))
    totals = [Header.decode(bytes(row.value.value)).totals for row in state.collect()]
    assert totals, "the state is empty"
    return {name: sum(of_shard.get(name, 0) for of_shard in totals) for of_one in totals for name in of_one}


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), os.environ["FAULTS_MASTER"])
