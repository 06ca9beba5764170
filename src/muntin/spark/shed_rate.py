"""`muntin.shed_rate()`: the rate of a running query is set by hand."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from muntin.errors import MuntinError
from muntin.features.shedding.manual import ManualRate
from muntin.features.shedding.notes import Command
from muntin.spark.host.folder import SETTING, HostFolder
from muntin.spark.metrics import kind_of, observations

_ROWS = 512
"""Spark spreads a range of this many rows over all cores, so it reaches all hosts that are not busy."""


def shed_rate(query: StreamingQuery, rate: float | None) -> None:
    """Set the shedding rate of a running query by hand, from the next batch on.

    The rate replaces that of `.shed(...)`, also after a restart from the same checkpoint, until you call this again.

    Parameters
    ----------
    query
        The `StreamingQuery` that `writeStream...start()` returns, of a query with `.shed(...)`.
    rate
        The share of the rows to drop, from 0 to below 1. None gives control back to the rate, the target latency or
        the error of `.shed(...)`.

    Examples
    --------
    >>> shedding = fares(streamed).shed(0.1).to_df().writeStream.format("noop").start()
    >>> muntin.shed_rate(shedding, 0.5)
    >>> shedding.stop()
    """
    rate = checked_rate(rate)
    _check_query(query)
    spark = _session_of(query)
    give = _Give(str(query.id), HostFolder.checked(spark.conf.get(SETTING, None)), Command(rate, time.time()))
    hosts = spark.range(_ROWS).mapInArrow(give, "given boolean").distinct().collect()
    if not any(row["given"] for row in hosts):
        raise MuntinError(
            "shed_rate() leaves a note for the tasks of the query in the local files of the hosts, and no host has "
            f"any. Set {SETTING} to a directory that the workers can write to, and start the query again, or give the "
            "rate in .shed(rate=...)."
        )


@dataclass(frozen=True)
class _Give:
    """Leaves the command on the host of each worker that gets a part of the rows."""

    stream: str
    host: HostFolder
    command: Command

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.record_batch([pa.array([ManualRate(self.stream, self.host).give(self.command)])], ["given"])


def checked_rate(rate: object) -> float | None:
    if rate is None:
        return None
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate < 1:
        raise MuntinError(
            f"rate must be a number from 0 to below 1, such as 0.9 to drop nine of ten rows, or None to give control "
            f"back to .shed(...), got {rate!r}."
        )
    return float(rate)


def _check_query(query: Any) -> None:
    reports = getattr(query, "recentProgress", None)
    if not isinstance(reports, list):
        raise MuntinError(
            f"shed_rate() takes the StreamingQuery that writeStream...start() returns, got {kind_of(query)}."
        )
    if not query.isActive:
        raise MuntinError("The query has ended, so its rate cannot be set; start it again, and call shed_rate() then.")
    observed = [list(observations(report).values()) for report in reports if report["numInputRows"]]
    if observed and not any(observed):
        raise MuntinError(
            "The query is not one of Muntin's, so it sheds nothing; shed_rate() is for queries of muntin.over(...) "
            "or muntin.join(...) with .shed(...)."
        )
    if any(map(_only_at_source, observed)):
        raise MuntinError(
            "The query sheds at='source', in Spark's plan, which is fixed while a stream runs. Start it with "
            "at='panes', and its rate can be set while it runs."
        )
    if any(of_queries and not any("shed_rate" in metrics for metrics in of_queries) for of_queries in observed):
        raise MuntinError(
            "The query does not shed; start it with .shed(rate=0) or .shed(target_latency=...), and its rate can be "
            "set while it runs."
        )


def _only_at_source(of_queries: Iterable[Mapping[str, Any]]) -> bool:
    """Whether some query of a batch sheds at the source, and none elsewhere."""
    reported = {name for metrics in of_queries for name in metrics}
    return "source_shed_rows" in reported and "shed_rows" not in reported


def _session_of(query: Any) -> SparkSession:
    try:
        spark = SparkSession.active()
        if any(str(stream.id) == str(query.id) for stream in spark.streams.active):
            return spark
    except PySparkException:
        pass
    raise MuntinError(
        "The query does not run in the active Spark session; call shed_rate() in the process and session that started "
        "it, or get it there from spark.streams."
    )
