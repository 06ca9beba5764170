"""Configures Spark sessions for Muntin's stateful operator, and makes local ones."""

from __future__ import annotations

import os
import sys

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from muntin.checks import encodable, whole_number
from muntin.errors import MuntinError
from muntin.spark.memory import ARROW_ROWS
from muntin.spark.shards import STATE_PARTITIONS
from muntin.spark.worker_check import check_workers

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
PARTITIONS = "spark.sql.shuffle.partitions"
_SETTINGS = {
    PROVIDER: ROCKSDB,
    # Upload only the changes of a batch, not the whole store.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Where bytes are limited, Spark asks every column for its size at every row, which takes longer than to write it.
    # So rows are: few enough for Arrow to hold them if they have a hundred kilobytes each.
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_ROWS),
    "spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1),
}
_LOCAL_SETTINGS = {
    # A local session listens on this machine only.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_BY_WORK = "spark.muntin.shardsByWork"
"""The number of partitions that `configure` has set without being asked for one. While the session has it, the query
decides how many shards it has; another number in its place was set by the user."""
_SPARKS_DEFAULT_PARTITIONS = 200
MOST_SHARDS = 100_000
"""Each shard is a task in every batch, so a larger number is a mistake."""


def configure(spark: SparkSession, shards: int | None = None) -> SparkSession:
    """Configure a Spark session for streaming queries.

    Sets the RocksDB state store with changelog checkpoints, and the limits of Arrow batches. Raises an error if the
    session's Python workers cannot run Muntin. Tables run without it, and faster with it.

    Parameters
    ----------
    spark
        The session.
    shards
        The number of partitions of the state, fixed for the life of a checkpoint. By default the session's number of
        shuffle partitions. If that is Spark's default of 200, the query decides: one per core if shards have much to
        do, as with sessions, quantiles or functions, and fewer if they only merge panes.

    Examples
    --------
    >>> spark = muntin.configure(spark)
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
    if shards is not None:
        spark.conf.unset(_BY_WORK)
        spark.conf.unset(STATE_PARTITIONS)
        spark.conf.set(PARTITIONS, str(shards))
    elif partitions(spark) == _SPARKS_DEFAULT_PARTITIONS:
        cores = str(_cores(spark))
        spark.conf.set(_BY_WORK, cores)
        spark.conf.set(PARTITIONS, cores)
    check_workers(spark, streaming=True)
    return spark


def session(name: str = "muntin") -> SparkSession:
    """Return a configured local Spark session: an existing one, or a new one on all cores.

    Parameters
    ----------
    name
        The name of the application, if a session is created.

    Examples
    --------
    >>> muntin.session() is spark
    True
    """
    if not isinstance(name, str) or not name:
        raise MuntinError(f"name must be a non-empty string, got {name!r}; it is what Spark calls the session.")
    encodable(name, "name")
    return configure(local(name))


def local(name: str) -> SparkSession:
    """An existing session, or a new one on this machine, without the settings of streams."""
    return local_builder(name).getOrCreate()


def local_builder(name: str) -> SparkSession.Builder:
    """Makes a session on this machine, or the Connect session that the environment names."""
    # Spark looks for python3 on the path; Muntin's workers need the interpreter that has Muntin.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if "SPARK_REMOTE" not in os.environ:
        builder = builder.master("local[*]")
        for setting, value in _LOCAL_SETTINGS.items():
            builder = builder.config(setting, value)
    return builder


def check_configured(spark: SparkSession) -> None:
    provider = spark.conf.get(PROVIDER, "")
    if provider == ROCKSDB:
        return
    problem = f"{PROVIDER} is {provider!r}" if provider else f"{PROVIDER} is not set"
    raise MuntinError(
        f"The session is not configured for streams: {problem}, and Muntin's state needs the RocksDB state store. Call "
        "muntin.configure(spark) before to_df(), or make the session with muntin.session()."
    )


def shards_by_work(spark: SparkSession) -> bool:
    """Whether queries decide how many shards they have, as nobody has set a number."""
    ours = spark.conf.get(_BY_WORK, "")
    if ours and ours != str(partitions(spark)):
        spark.conf.unset(STATE_PARTITIONS)  # set by hand since then: that counts for the state, too
        return False
    return bool(ours)


def set_shards(spark: SparkSession, shards: int) -> int:
    """Give streams that start in this session at least this many shards, and return how many they get.

    Spark takes the number of the session when a stream starts. So it never falls while queries are built: a query that
    needs many gets them, whatever is built behind it.
    """
    shards = max(shards, int(spark.conf.get(STATE_PARTITIONS, "1") or 1))
    spark.conf.set(STATE_PARTITIONS, str(shards))
    return shards


def state_partitions(spark: SparkSession) -> int:
    """The partitions of the state of a stream that starts now."""
    return int(spark.conf.get(STATE_PARTITIONS, str(partitions(spark))) or 1)


def partitions(spark: SparkSession) -> int:
    return int(spark.conf.get(PARTITIONS, str(_SPARKS_DEFAULT_PARTITIONS)) or _SPARKS_DEFAULT_PARTITIONS)


def most_workers(spark: SparkSession) -> int:
    """The default number of workers: the session's partitions, or one per core if they are Spark's default."""
    count = partitions(spark)
    return min(count, _cores(spark)) if count == _SPARKS_DEFAULT_PARTITIONS else count


def tasks(spark: SparkSession) -> int:
    """How many tasks run at once. A classic session knows; others are asked for their workers."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except PySparkException:  # Connect
        return most_workers(spark)


def _cores(spark: SparkSession) -> int:
    """The number of cores. Connect sessions have no context with that number, but spread a range over all cores."""
    spread = spark.range(0, 4096).select(F.spark_partition_id().alias("part")).agg(F.max("part").alias("last"))
    return int(spread.collect()[0]["last"]) + 1
