"""`muntin.state()`: what is in a checkpoint, read by Spark's own reader of state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from muntin.checks import is_integer
from muntin.engine.inspected import PARTS, PaneRows, parts, shards_of
from muntin.engine.state import MemoryState
from muntin.errors import MuntinError, StateError
from muntin.query import Query
from muntin.spark.columns import quietly, short_reason
from muntin.spark.shards import shard_ids
from muntin.spark.types import schema_to_spark
from muntin.spark.window_stage import DESCRIPTION

_ENTRY = T.StructType(
    [
        T.StructField("shard", T.IntegerType()),
        T.StructField("name", T.StringType()),
        T.StructField("value", T.BinaryType()),
    ]
)


def state(
    checkpoint: str | PathLike[str],
    query: Query | None = None,
    *,
    operator: int = 0,
    batch: int | None = None,
    spark: SparkSession | None = None,
) -> DataFrame:
    """Return what the state of a stream has, as a DataFrame.

    Without a query, it has a row for each part of the state: the header of each shard, its segments of panes and its
    chunks of rows, with their sizes, times and versions. With the query that made it, it has a row for each key and
    pane of windows over time: what each aggregate is so far.

    The stream may be running: the state is that of its last batch. Nothing is changed.

    Parameters
    ----------
    checkpoint
        The location that was given as `checkpointLocation`.
    query
        The query as it was built for the stream, before `.to_df()`.
    operator
        Which stateful operator, where the stream has several, as in a chain. The last query is 0.
    batch
        After which batch; by default after the last. Spark keeps those of the last hundred batches.
    spark
        The session; by default the active one.

    Examples
    --------
    >>> writer = fares(streamed).to_df().writeStream.format("noop").option("checkpointLocation", folder + "/state")
    >>> writer.trigger(availableNow=True).start().awaitTermination()
    >>> panes = muntin.state(folder + "/state", fares(streamed))
    >>> panes.select("route", "rides").orderBy("route").show()
    +-----+-----+
    |route|rides|
    +-----+-----+
    |    A|    4|
    |    B|    3|
    +-----+-----+
    """
    spark = spark or SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    batch = None if batch is None else _whole(batch, "batch")
    operator = _whole(operator, "operator")
    stored = StoredState(spark, checkpoint_path(checkpoint), operator, batch)
    if query is None:
        return stored.parts()
    if not isinstance(query, Query):
        raise MuntinError(
            f"query must be a query of muntin.over, before .to_df(), got {type(query).__name__}; leave it out for the "
            "parts of the state."
        )
    return stored.panes(query)


def checkpoint_path(checkpoint: object) -> str:
    """The path of a checkpoint, which must be one where it can be looked at."""
    if not isinstance(checkpoint, str | PathLike):
        raise MuntinError(f"checkpoint must be the path of a checkpoint, got {checkpoint!r}.")
    path = str(fspath(checkpoint))
    local = local_folder(path)
    if local is None:
        return path  # Spark finds out
    if not local.is_dir():
        raise MuntinError(f"checkpoint {path!r} is no folder; give the checkpointLocation of a stream.")
    if not (local / "offsets").is_dir() or not (local / "metadata").is_file():
        raise MuntinError(
            f"checkpoint {path!r} is no checkpoint of a stream, which has a file 'metadata' and a folder "
            "'offsets'; give the checkpointLocation of a stream."
        )
    if not (local / "state").is_dir():
        raise MuntinError(f"checkpoint {path!r} has no state yet: no batch of the stream has ended.")
    return path


@dataclass(frozen=True)
class StoredState:
    """The state of one operator in a checkpoint."""

    spark: SparkSession
    path: str
    operator: int
    batch: int | None

    def parts(self) -> DataFrame:
        """A row for each part of the state."""
        return self.headers().mapInArrow(_parts, schema_to_spark(PARTS))

    def panes(self, query: Query) -> DataFrame:
        """A row for each key and pane, read by the plan of the query."""
        query.check_complete()
        first = self.headers().select("value").first()
        shards = 1 if first is None else shards_of(bytes(first["value"]))
        resolved = query.resolved(lambda: shards)
        requested = (option.partitions(True, shards) for option in resolved.options)
        partitions, count = next((numbers for numbers in requested if numbers is not None), (shards, shards))
        plan = resolved.plan(shard_ids(partitions, count))
        if plan.over_time is None:
            raise MuntinError(
                "query has no windows over time, so its state has no panes of time; leave the query out for the parts "
                "of the state."
            )
        rows = PaneRows(plan)

        def read(entries: pa.Table) -> pa.Table:
            return rows.of(entries["shard"][0].as_py(), _memory(entries))

        found = self.entries().groupBy("shard").applyInArrow(read, schema_to_spark(rows.schema))
        return found.select(
            *(
                F.col("`" + name.replace("`", "``") + "`").alias(query.key_names.get(name, name))
                for name in found.columns
            )
        )

    def headers(self) -> DataFrame:
        """The header of each shard."""
        stored = self._variable("header")
        return stored.select(F.col("key.shard").alias("shard"), F.lit("header").alias("name"), F.col("value.value"))

    def entries(self) -> DataFrame:
        """Everything: headers, and values by their names."""
        stored = self._variable("segments")
        names, values = F.col("user_map_key.name").alias("name"), F.col("user_map_value.value").alias("value")
        return self.headers().union(stored.select(F.col("key.shard").alias("shard"), names, values))

    def descriptions(self) -> list[bytes]:
        """The descriptions of the query that the shards have."""
        found = self.entries().where(F.col("name") == DESCRIPTION).select("value").limit(1).collect()
        return [bytes(row["value"]) for row in found]

    def _variable(self, name: str) -> DataFrame:
        reader = self.spark.read.format("statestore").option("operatorId", self.operator).option("stateVarName", name)
        if self.batch is not None:
            reader = reader.option("batchId", self.batch)
        try:
            with quietly():
                return reader.load(self.path)
        except PySparkException as error:
            raise MuntinError(
                f"checkpoint {self.path!r} has no state of Muntin that can be read (operator {self.operator}): "
                f"{short_reason(error)}"
            ) from error


def _parts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        headers = zip(batch.column("shard").to_pylist(), batch.column("value").to_pylist(), strict=True)
        found = [part for shard, header in headers for part in parts(shard, header)]
        yield from pa.Table.from_pylist(found, PARTS).to_batches()


def _memory(entries: pa.Table) -> MemoryState:
    """The entries of one shard as a state in memory."""
    values = dict(zip(entries["name"].to_pylist(), entries["value"].to_pylist(), strict=True))
    header, description = values.pop("header", None), values.pop(DESCRIPTION, None)
    if header is None:
        raise StateError("A shard in the checkpoint has no header, so it is no state of Muntin.")
    return MemoryState(header, values, description)


def _whole(value: object, argument: str) -> int:
    if is_integer(value) and value >= 0:
        return int(value)
    raise MuntinError(f"{argument} must be a whole number from 0, got {value!r}.")


def local_folder(path: str) -> Path | None:
    """The folder of a path on this machine; None for other file systems."""
    if "://" in path and not path.startswith("file:"):
        return None
    return Path(path.removeprefix("file://").removeprefix("file:"))
