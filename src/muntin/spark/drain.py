"""`muntin.drain()`: runs a stream until everything is read and all windows have closed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from muntin.checks import whole_number
from muntin.errors import MuntinError
from muntin.spark.metrics import observations

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def drain(writer: DataStreamWriter, *, runs: int = 10) -> StreamingQuery:
    """Run a stream until all its rows are read and all its windows have closed; returns the last run, which has ended.

    The query needs `.drain()`. Each run is one of `trigger(availableNow=True)`. The first reads what there is, and one
    that finds no new rows closes all windows. Rows that later runs bring for closed windows are late.

    Parameters
    ----------
    writer
        What `results.writeStream` or `muntin.upsert` returns, with its sink and its checkpoint, not yet started.
    runs
        The most runs, for sources that always have new rows.

    Examples
    --------
    >>> results = fares(streamed).drain().to_df()
    >>> writer = results.writeStream.format("parquet").option("path", folder + "/drained")
    >>> _ = muntin.drain(writer.option("checkpointLocation", folder + "/drained-checkpoint"))
    >>> spark.read.parquet(folder + "/drained").count()
    2
    """
    if not (hasattr(writer, "trigger") and hasattr(writer, "start")):
        raise MuntinError(
            f"writer must be what results.writeStream returns, before .start(), got {type(writer).__name__}."
        )
    runs = whole_number(runs, "runs", 1 << 16)
    bounded = writer.trigger(availableNow=True)
    for _ in range(runs):
        query = bounded.start()
        query.awaitTermination()
        if _has_drained(query):
            return query
    raise MuntinError(
        f"After {runs:,} runs the source still had new rows, so windows are open; wait until it has none, or give more "
        "runs=."
    )


def _has_drained(query: StreamingQuery) -> bool:
    """Whether a batch of the run has closed all windows, in every query of it that drains."""
    reports = [_drains(report) for report in query.recentProgress]
    reports = [drains for drains in reports if drains]
    if not reports:
        raise MuntinError("The stream has no query with .drain(); call it before .to_df().")
    return any(all(drains.values()) for drains in reports)


def _drains(report: Any) -> Mapping[str, int]:
    """Whether each query that drains has done so in a batch."""
    found = observations(report)
    return {name: int(values["drains"] or 0) for name, values in found.items() if "drains" in values}
