"""`Stream`: a query that a test drives batch by batch."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from muntin.checks import whole_number
from muntin.durations import Duration, positive_microseconds
from muntin.errors import MuntinError
from muntin.query import Query
from muntin.testing.engine import OnEngine
from muntin.testing.schemas import as_time, schema_of, table_of
from muntin.testing.step import Row, Step

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Build = Callable[[Any], Query]


class Stream:
    """A streaming query in a test.

    Without `spark=`, the query runs in this process, in milliseconds and without Java. With it, the same steps run on
    Spark.

    Parameters
    ----------
    query
        A function that gets the rows, as a DataFrame, and returns a query of `muntin.over`.
    schema
        The columns of the rows: a text such as "ts timestamp, route string, fare double", an Arrow schema, or example
        rows as dicts, which are not sent.
    spark
        A session that `muntin.configure` has set up.
    shards
        The number of shards; on Spark it is that of the session.

    Examples
    --------
    >>> stream = Stream(fares, "at timestamp, route string, fare double")
    >>> stream.batch([{"at": "2024-05-01 12:01", "route": "A", "fare": 5.0}]).results
    []
    """

    def __init__(self, query: Build, schema: Any, *, spark: SparkSession | None = None, shards: int = 2) -> None:
        if not callable(query):
            raise MuntinError(
                f"query must be a function that gets rows and returns a query of muntin.over, got {query!r}."
            )
        self._build = _checked(query)
        self._schema = schema_of(schema)
        self.steps: list[Step] = []
        """All steps so far."""
        self._run = (
            OnEngine(self._schema, whole_number(shards, "shards", 1024))
            if spark is None
            else _on_spark(self._schema, spark)
        )
        self._end = weakref.finalize(self, self._run.stop)
        self._run.start(self._build)

    def batch(self, rows: Sequence[Mapping[str, Any] | Sequence[Any]]) -> Step:
        """Send rows as one batch: dicts, whose missing columns are null, or tuples in the order of the schema.

        Times may be texts such as "2024-05-01 12:01"; times without a zone are in UTC. If the rows move the watermark,
        the windows that it closes are among the results, as on Spark, which runs a batch without rows then.

        Examples
        --------
        >>> stream = Stream(fares, SCHEMA)
        >>> stream.batch([("2024-05-01 12:01", "A", 5.0, 3)]).results
        []
        """
        return self._add(self._run.batch(table_of(rows, self._schema)))

    def watermark(self, time: datetime | str) -> Step:
        """Move the watermark to this time without a row: all windows that end by then close. It never moves back.

        Examples
        --------
        >>> stream = Stream(fares, SCHEMA)
        >>> _ = stream.batch([("2024-05-01 12:01", "A", 5.0, 3)])
        >>> len(stream.watermark("2024-05-01 13:00").results)
        1
        """
        try:
            return self._add(self._run.move(as_time(time)))
        except (TypeError, ValueError) as error:
            raise MuntinError(f"watermark is {time!r}: {error}.") from error

    def idle(self, length: Duration) -> Step:
        """Let the source have nothing to give for this long, for a query with `idle=`.

        It counts from the last step on. On Spark it takes so long, in real time.

        Examples
        --------
        >>> stream = Stream(lambda rides: muntin.over(
        ...     rides, HOUR, time="at", watermark="0 seconds", idle="30 seconds").agg(n=A.count()), SCHEMA)
        >>> _ = stream.batch(RIDES)
        >>> len(stream.idle("20 seconds").results), len(stream.idle("1 hour").results)
        (0, 1)
        """
        after = positive_microseconds(length, "length")
        if getattr(self._run.query.option("idle"), "after", None) is None:
            raise MuntinError("The query has no idle=, so no window closes without rows; give over(..., idle=...).")
        return self._add(self._run.idle(after))

    def drain(self) -> Step:
        """Run the stream as a bounded run that finds no new rows, for a query with `.drain()`.

        Examples
        --------
        >>> stream = Stream(lambda rides: fares(rides).drain(), SCHEMA)
        >>> _ = stream.batch(RIDES)
        >>> [row["paid"] for row in stream.drain().results]
        [30.5, 13.0]
        """
        if not getattr(self._run.query.option("idle"), "drains", False):
            raise MuntinError("The query has no .drain(), so that no run closes all windows; call it on the query.")
        return self._add(self._run.drain())

    def restart(self, query: Build | None = None) -> None:
        """Stop the query, and start it again from its state, as after a failure between two batches.

        With `query`, another one goes on: what the state does not fit is an error, as on Spark.

        Examples
        --------
        >>> stream = Stream(fares, SCHEMA)
        >>> _ = stream.batch(RIDES)
        >>> stream.restart()
        >>> len(stream.watermark("2024-05-01 13:00").results)
        2
        """
        self._build = self._build if query is None else _checked(query)
        if isinstance(self._run, OnEngine):
            self._run.start(self._build)
        else:
            self._run.restart(self._build)

    def stop(self) -> None:
        """Stop the query, and remove its files. It happens by itself when the test ends.

        Examples
        --------
        >>> Stream(fares, SCHEMA).stop()
        """
        self._end()

    @property
    def results(self) -> list[Row]:
        """The results of all steps so far.

        Examples
        --------
        >>> stream = Stream(fares, SCHEMA)
        >>> _ = stream.batch(RIDES)
        >>> _ = stream.watermark("2024-05-01 13:00")
        >>> [row["paid"] for row in stream.results]
        [30.5, 13.0]
        """
        return [row for step in self.steps for row in step.results]

    def _add(self, step: Step) -> Step:
        self.steps.append(step)
        return step


def _checked(build: Build) -> Build:
    def checked(rows: Any) -> Query:
        query = build(rows)
        if not isinstance(query, Query):
            raise MuntinError(
                f"query must return a query of muntin.over, without .to_df(), and returned a {type(query).__name__}."
            )
        return query

    return checked


def _on_spark(schema: Any, spark: SparkSession) -> Any:
    from muntin.testing.on_spark import OnSpark  # Spark is slow to import

    return OnSpark(schema, spark)
