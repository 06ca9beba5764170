"""What a Spark session needs for Muntin's stateful operator, and a local session that has it."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from muntin.checks import encodable, whole_number
from muntin.errors import MuntinError
from muntin.spark.worker_check import check_workers

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
PARTITIONS = "spark.sql.shuffle.partitions"
_SETTINGS = {
    PROVIDER: ROCKSDB,
    # Upload what a batch changed, not the whole store.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Larger Arrow batches amortise the per-batch cost of the pane stage; beyond this nothing is gained.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}
_LOCAL_SETTINGS = {
    # Nothing of a local session listens beyond this machine.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_SPARKS_DEFAULT_PARTITIONS = 200
MOST_SHARDS = 100_000
"""Each is a task of every batch: more is a mistake."""


def configure(spark: SparkSession, shards: int | None = None) -> SparkSession:
    """Set what streaming queries need: the RocksDB state store with changelog checkpoints, large Arrow batches.

    `shards` is the number of parts that the state has, one per shuffle partition, fixed for the life of a checkpoint.
    By default it is what the session says, or one per core where the session only has Spark's default of 200.
    Workers that cannot run Muntin are an error here, and not in the first batch.
    """
    if not hasattr(type(spark), "readStream"):  # a Connect session is of another class
        raise MuntinError(
            f"spark must be a Spark session, got {type(spark).__name__}; make one with SparkSession.builder, or with "
            "muntin.session()."
        )
    if shards is not None:
        shards = whole_number(shards, "shards", MOST_SHARDS)
    for name, value in _SETTINGS.items():
        spark.conf.set(name, value)
    if shards is None and partitions(spark) == _SPARKS_DEFAULT_PARTITIONS:
        shards = _cores(spark)
    if shards is not None:
        spark.conf.set(PARTITIONS, str(shards))
    check_workers(spark, streaming=True)
    return spark


def session(name: str = "muntin") -> SparkSession:
    """A configured local Spark session, with nothing else to start."""
    if not isinstance(name, str) or not name:
        raise MuntinError(f"name must be a non-empty string, got {name!r}; it is what Spark calls the session.")
    encodable(name, "name")
    # Spark looks for python3 on the path; Muntin's workers need the interpreter that has Muntin.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if "SPARK_REMOTE" not in os.environ:
        builder = builder.master("local[*]")
        for setting, value in _LOCAL_SETTINGS.items():
            builder = builder.config(setting, value)
    return configure(builder.getOrCreate())


def check_configured(spark: SparkSession) -> None:
    provider = spark.conf.get(PROVIDER, "")
    if provider == ROCKSDB:
        return
    found = f"{PROVIDER} is {provider!r}" if provider else f"{PROVIDER} is not set"
    raise MuntinError(
        f"The session is not configured for streams: {found}, and Muntin's state needs the RocksDB state store. Call "
        "muntin.configure(spark) before to_df(), or make the session with muntin.session()."
    )


def partitions(spark: SparkSession) -> int:
    return int(spark.conf.get(PARTITIONS, str(_SPARKS_DEFAULT_PARTITIONS)) or _SPARKS_DEFAULT_PARTITIONS)


def most_workers(spark: SparkSession) -> int:
    """How many workers there are if nobody says: one per partition, or per core where the session says nothing."""
    found = partitions(spark)
    return min(found, _cores(spark)) if found == _SPARKS_DEFAULT_PARTITIONS else found


def _cores(spark: SparkSession) -> int:
    """How many tasks run at once. A Connect session has no context to ask, but spreads a range over its cores."""
    spread = spark.range(0, 4096).select(F.spark_partition_id().alias("part")).agg(F.max("part").alias("last"))
    return int(spread.collect()[0]["last"]) + 1
