"""Shedding in Spark's own plan: a filter that keeps each row with the same probability, before rows go to Python.

A replayed batch has to keep the same rows, and equal rows must not share their fate. Spark makes that hard in streams.
It gives `rand` a new seed in every batch and at every replay, whatever seed is given; it refuses
`monotonically_increasing_id`; and the order of rows in a partition may differ at a replay. So a row of a stream is kept
by what identifies it in its source. In a table, its place is enough.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from muntin.engine.features import KeptAtSource
from muntin.spark.columns import quietly, quoted

IN_FILE = ("_metadata.file_path", "_metadata.row_index")
"""What identifies a row of Parquet files: hidden columns of Spark's."""
IN_LOG = frozenset(("partition", "offset"))
"""What identifies a row of Kafka, and of sources that have these columns likewise."""
BITS = 63


def kept_rows(frame: DataFrame, read: Sequence[str], kept: KeptAtSource) -> DataFrame:
    """The rows that are kept; `read` are the columns that the query reads."""
    number = F.shiftrightunsigned(F.xxhash64(F.lit(kept.seed % (1 << BITS)), *_identity(frame, read)), 1)
    return frame.where(number < F.lit(int(kept.probability * (1 << BITS))))


def identity_of_rows(frame: DataFrame) -> tuple[str, ...] | None:
    """The columns that identify every row of a stream; None if there are none."""
    if {name.lower() for name in frame.columns} >= IN_LOG:
        return ()
    try:
        with quietly():
            _ = frame.select(*IN_FILE).schema
    except PySparkException:
        return None
    return IN_FILE


def _identity(frame: DataFrame, read: Sequence[str]) -> list[Column]:
    """What the choice of a row depends on."""
    if not frame.isStreaming:
        return [F.monotonically_increasing_id()]
    identity = identity_of_rows(frame)
    # Rows that were made of one row of a file, by `explode` or a join, are told apart by their columns.
    names = _hashable(frame, read if identity else frame.columns)
    columns = [*(quoted(frame, name) for name in names), *map(F.col, identity or ())]
    # Spark's clock is the time of the batch, which is in the checkpoint: equal rows are chosen anew in every batch.
    return [*columns, F.current_timestamp()] if identity is None else columns


def _hashable(frame: DataFrame, names: Sequence[str]) -> list[str]:
    """The columns that Spark can hash, and that have their name for themselves."""
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema}
    of_its_own = [name for name in names if frame.columns.count(name) == 1]
    return [name for name in of_its_own if not any(kind in kinds[name] for kind in ("map<", "variant"))]
