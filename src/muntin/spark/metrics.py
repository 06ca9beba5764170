"""Metrics: one row per shard and batch, aggregated into the query's progress by `observe()`."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from muntin.durations import describe
from muntin.engine.metrics import ENGINE_METRICS, Metric, names
from muntin.errors import MuntinError, MuntinWarning
from muntin.sizes import describe_size

OBSERVATION = "muntin"
"""The name of the metrics of the first streaming query of a process; see `observation_name`."""
RECENT = 10
"""The number of batches with rows that the warning about late rows looks at."""


_REPORTED: dict[str, Metric] = {}
"""What the queries of this process report: the metrics of a user's own features are among them."""


def all_metrics() -> tuple[Metric, ...]:
    """The metrics of all features."""
    from muntin.features.declared import METRICS

    declared = (*ENGINE_METRICS, *METRICS, *_REPORTED.values())
    return tuple({metric.name: metric for metric in declared}.values())


def _meanings() -> dict[str, str]:
    """The meaning of every number of a `Progress`."""
    meanings = {metric.name: metric.meaning for metric in all_metrics()}
    return meanings | {
        f"batch_{metric.name}": f"The same for the last batch alone. {metric.meaning}"
        for metric in all_metrics()
        if metric.counter
    }


def _aliases() -> dict[str, str]:
    """The names that metrics had in the previous version, with their names now."""
    renamed = {metric.alias: metric.name for metric in all_metrics() if metric.alias}
    return renamed | {f"batch_{old}": f"batch_{new}" for old, new in renamed.items()}


class Progress:
    """The metrics of a streaming query after its last batch.

    Every metric is an attribute: counters since the query first started (`rows`), the same for the last batch alone
    (`batch_rows`), and current sizes (`state_bytes`). `Progress.meanings()` lists all of them. A metric that the query
    does not report is 0.
    """

    def __init__(
        self,
        batch_id: int = -1,
        *,
        batch_seconds: float = 0.0,
        rows_per_s: float = 0.0,
        warning: str | None = None,
        **metrics: int,
    ) -> None:
        unknown = metrics.keys() - _meanings().keys()
        if unknown:
            raise TypeError(f"Progress has no metric {sorted(unknown)[0]!r}.")
        self.batch_id = batch_id
        self.batch_seconds = batch_seconds
        """How long the batch took: the latency of results after the watermark has passed the end of their window."""
        self.rows_per_s = rows_per_s
        """Throughput: the input rows of the batch per second of its duration."""
        self.warning = warning
        """A likely mistake and its remedy, if most rows of the recent batches came too late; else None."""
        self._metrics = metrics

    @staticmethod
    def meanings() -> Mapping[str, str]:
        """Every metric by its name, with its meaning.

        Examples
        --------
        >>> muntin.Progress.meanings()["late_rows"]
        'Rows that came too late for all of their windows.'
        """
        return _meanings()

    def __getattr__(self, name: str) -> int:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in _meanings():
            return self._metrics.get(name, 0)
        if name in _aliases():
            warnings.warn(f"Progress.{name} is called {_aliases()[name]} now.", DeprecationWarning, stacklevel=2)
            return self._metrics.get(_aliases()[name], 0)
        raise AttributeError(f"Progress has no metric {name!r}; Progress.meanings() lists all of them.")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_meanings()})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Progress) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """The main figures on one line; all others are attributes."""
        if self.batch_id < 0:
            return "Progress(no batch yet)"
        shown_if_any = (
            ("late_rows", "late"),
            ("invalid_rows", "invalid"),
            ("outside_rows", "outside"),
            ("shed_rows", "shed"),
            ("skipped_files", "files skipped"),
            ("source_shed_rows", "shed at the source by estimate"),
        )
        parts = [
            f"batch {self.batch_id:,}: {self.batch_rows:,} rows in {self.batch_seconds:.1f} s, "
            f"{self.batch_results:,} results",
            f"in all: {self.rows:,} rows"
            + "".join(f", {getattr(self, name):,} {what}" for name, what in shown_if_any if getattr(self, name))
            + f", {self.results:,} results",
            f"state: {describe_size(self.state_bytes)}",
            *([] if self.warning is None else [f"warning: {self.warning}"]),
        ]
        return f"Progress({'; '.join(parts)})"

    def _repr_html_(self) -> str:
        from muntin.spark.progress_html import progress_html

        return progress_html(self)

    @property
    def overlap(self) -> float | None:
        """Concept overlap: the share of the groups of two neighbouring windows that are in both; None without any.

        Examples
        --------
        >>> muntin.progress(running).overlap is None
        True
        """
        return self.drift_common / self.drift_union if self.drift_union else None

    @property
    def distance(self) -> float | None:
        """Concept distance: how far the frequencies of their groups are apart, from 0 to 1; None without any.

        Examples
        --------
        >>> muntin.progress(running).distance is None
        True
        """
        return self.drift_apart / self.drift_total if self.drift_total else None

    @property
    def rate(self) -> float:
        """The shedding rate of the last batch, from 0 to 1.

        Examples
        --------
        >>> muntin.progress(running).rate
        0.0
        """
        return self.shed_rate / 1e6

    @property
    def estimated_error(self) -> float | None:
        """The mean of the estimated errors of the windows of the last batch; None if one of them is unknown.

        Examples
        --------
        >>> muntin.progress(running).estimated_error is None
        True
        """
        count = self.windows_with_error
        return self.error_millionths / 1e6 / count if count and not self.windows_without_error else None

    @property
    def windows_without_error(self) -> int:
        """The number of windows of the last batch with shed rows and an unknown error.

        Examples
        --------
        >>> muntin.progress(running).windows_without_error
        0
        """
        return self.batch_approximate_windows - self.windows_with_error

    @property
    def compressed_share(self) -> float:
        """The share of chunks that are compressed.

        Examples
        --------
        >>> muntin.progress(running).compressed_share
        0.0
        """
        return self.compressed_chunks / self.chunks if self.chunks else 0.0


_BUILT: list[str] = []
"""The observations of the streaming queries of this process, in the order in which they were built."""


def observation_name(name: str | None) -> str:
    """The name under which Spark reports the metrics of a streaming query.

    Names must be unique in a plan, and the results of several queries may be chained, united or joined. Without a name
    of the user, the queries of a process are numbered. An application that builds the same queries in the same order
    therefore reports under the same names after a restart.
    """
    if name is not None:
        observation = f"{OBSERVATION}:{name}"
    else:
        number = 1 + sum(":" not in other for other in _BUILT)
        observation = OBSERVATION if number == 1 else f"{OBSERVATION}-{number}"
    _BUILT.append(observation)
    return observation


def observations(report: Any) -> dict[str, dict[str, Any]]:
    """The metrics of Muntin's queries in a progress report of Spark, the last built query first."""
    found = {
        name: as_dict(values)
        for name, values in dict(report["observedMetrics"]).items()
        if _OBSERVATION.fullmatch(name) and values is not None
    }
    order = {name: place for place, name in enumerate(_BUILT)}
    return dict(sorted(found.items(), key=lambda item: (-order.get(item[0], -1), item[0])))


def metrics_of(report: Any) -> dict[str, Any] | None:
    """The metrics of the query that was built last, in a progress report of Spark."""
    return next(iter(observations(report).values()), None)


_OBSERVATION = re.compile(rf"{OBSERVATION}(-\d+|:.*)?", re.DOTALL)


def observed(frame: DataFrame, query: str, declared: Sequence[Metric], name: str | None = None) -> DataFrame:
    """Report the column `metrics`: for streams under `observation_name`, for tables under the id of the query."""
    _REPORTED.update((metric.name, metric) for metric in declared)
    largest = {name for metric in declared if metric.fold == "max" for name in (metric.name, f"total_{metric.name}")}
    places = {name: place for place, name in enumerate(names(declared))}
    reported = {name: name for name in places}
    for renamed in (metric for metric in declared if metric.alias):  # under the names of the previous version, too
        reported |= {renamed.alias: renamed.name, f"total_{renamed.alias}": f"total_{renamed.name}"}
    folded: list[Column] = [
        (F.max if metric in largest else F.sum)(F.col("metrics")[places[metric]]).alias(name)
        for name, metric in reported.items()
    ]
    return frame.observe(observation_name(name) if frame.isStreaming else f"{OBSERVATION}-{query}", *folded)


def progress(query: Any, name: str | None = None) -> Progress:
    """Return the metrics of a running or ended streaming query.

    Emits a `MuntinWarning` if most rows of the recent batches came too late for all of their windows.

    Parameters
    ----------
    query
        The `StreamingQuery` that `writeStream...start()` returns.
    name
        The `name=` of `muntin.over`, where the stream consists of several queries of Muntin. Without it, the metrics
        are those of the query that was built last.

    Examples
    --------
    >>> muntin.progress(running).rows
    7
    """
    if not isinstance(getattr(query, "recentProgress", None), list):
        raise MuntinError(
            f"progress() takes the StreamingQuery that writeStream...start() returns, got {kind_of(query)}. A table "
            "has no progress: count its results, or call .explain()."
        )
    reports = reports_of(query, name)
    if not reports:
        return Progress()
    report, values = reports[0]
    # Not every batch closes windows, so drift is that of the last batch that did.
    drift_values = next((earlier for _, earlier in reports if earlier.get("drift_union")), values)
    metrics = {}
    for metric in all_metrics():
        value = int((drift_values if metric.name.startswith("drift_") else values).get(metric.name) or 0)
        if metric.counter:
            metrics[f"batch_{metric.name}"], value = value, int(values.get(f"total_{metric.name}") or 0)
        metrics[metric.name] = value
    seconds = report["durationMs"].get("triggerExecution", 0) / 1000
    # Of a scan, Spark sees packed panes alone. The item is None in a Connect session.
    input_rows = max(int(report.numInputRows), int(values.get("rows") or 0))
    rate = input_rows / seconds if seconds else 0.0
    warning = late_warning(reports)
    if warning is not None:
        warnings.warn(warning, MuntinWarning, stacklevel=2)
    return Progress(batch_id=int(report["batchId"]), batch_seconds=seconds, rows_per_s=rate, warning=warning, **metrics)


def reports_of(query: Any, name: str | None) -> list[tuple[Any, dict[str, Any]]]:
    """The progress reports of a stream with the metrics of one of its queries, the latest first."""
    found = [(report, observations(report)) for report in reversed(query.recentProgress)]
    known = list(dict.fromkeys(observation for _, values in found for observation in values))
    if name is None:
        wanted = next(iter(known), OBSERVATION)
    else:
        wanted = f"{OBSERVATION}:{name}"
        if known and wanted not in known:
            named = [known_name.partition(":")[2] for known_name in known if ":" in known_name]
            raise MuntinError(
                f"name is {name!r}, and the stream has no query of that name. "
                + (f"It has {', '.join(map(repr, named))}." if named else "Give name= in muntin.over(...).")
            )
    return [(report, values[wanted]) for report, values in found if wanted in values]


def late_warning(reports: Sequence[tuple[Any, Mapping[str, Any]]]) -> str | None:
    """The warning if most rows of the recent batches were late. `reports` are in descending order of batches."""
    recent = [values for _, values in reports if values["rows"]][:RECENT]
    rows, late = (sum(int(values[name]) for values in recent) for name in ("rows", "late_rows"))
    if 2 * late <= rows:
        return None
    report, _ = reports[0]
    watermark, clock = time_of(report.eventTime.get("watermark")), time_of(report.timestamp)
    if watermark is None or clock is None or watermark > clock:
        why = f"which is ahead of the clock ({report.timestamp}): a row from the future has moved it there"
        remedy = "give over(..., max_ahead='1 hour'), which sets such rows aside, and start with a new checkpoint"
    else:
        why = f"{describe(round((clock - watermark).total_seconds()) * 1_000_000)} behind the clock"
        remedy = "give a longer watermark="
    return (
        f"{late:,} of the {rows:,} rows in the last {len(recent):,} batches with rows came too late for all of their "
        f"windows. The watermark is at {report.eventTime.get('watermark')}, {why}. If that is "
        f"not intended, {remedy}."
    )


def time_of(text: str | None) -> datetime | None:
    """A time in Spark's format; None if Python's calendar does not have it."""
    try:
        return None if text is None else datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ")
    except ValueError:
        return None


def kind_of(query: Any) -> str:
    kind = type(query).__name__
    if isinstance(query, DataFrame):
        return f"a {'streaming ' * query.isStreaming}{kind}"
    return "None; start() returns it, awaitTermination() does not" if query is None else f"a {kind}"


def as_dict(row: Any) -> dict[str, Any]:
    values = row.asDict() if hasattr(row, "asDict") else dict(row)
    if set(values) == {"values", "schema"}:  # a Connect session's row
        return dict(zip((field["name"] for field in values["schema"]["fields"]), values["values"], strict=True))
    return dict(values)
