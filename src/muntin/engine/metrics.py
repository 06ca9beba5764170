"""Metrics of a shard. Each is declared once, where it is measured; columns and totals are derived from that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Metric:
    """One number that a shard reports with every batch."""

    name: str
    meaning: str
    counter: bool = False
    """Whether the state keeps its total since the query first started."""
    fold: Literal["sum", "max"] = "sum"
    """How the values of all shards are combined."""
    alias: str = ""
    """Its name in the previous version."""
    about: Literal["", "tuples", "jobs"] = ""
    """What a query must have for it to be anything but 0."""


ENGINE_METRICS = (
    Metric("rows", "Rows with an event time, late ones included.", counter=True),
    Metric("late_rows", "Rows that came too late for all of their windows.", counter=True),
    Metric(
        "invalid_rows",
        "Rows without an event time, rows further ahead of the clock than `max_ahead=` allows, and rows that a delta "
        "window excludes: those whose column is null, NaN or has decreased. So are rows whose zone is null or unknown, "
        "with `zone_column=`.",
        counter=True,
        alias="bad_rows",
    ),
    Metric("outside_rows", "Rows between windows, where the slide is larger than the size.", counter=True),
    Metric("ahead_rows", "The invalid rows that are too far ahead of the clock.", counter=True),
    Metric("skipped_files", 'Files of a scan that could not be read, with `bad_files="skip"`.', counter=True),
    Metric("results", "Windows of keys that closed, or the rows that a function returned for them.", counter=True),
    Metric("panes", "Panes of keys that open windows still need."),
    Metric("tuples", "Tuples that wait in the state, unaggregated."),
    Metric("hot_bytes", "Bytes of the panes in the workers' memory, and of the trees over them."),
    Metric("state_bytes", "Bytes of the panes and chunks in the state."),
    Metric("segments", "Values of the state that hold panes."),
    Metric("cache_hits", "Shards whose panes were still in the memory of their worker."),
    Metric("cache_misses", "Shards whose panes had to be read from the state."),
    Metric("arrived_bytes", "Bytes of the packed panes that the shards received in the last batch."),
    Metric("answer_nanoseconds", "Time of all shards in the last batch from closed windows to their results."),
    Metric("answer_bytes", "Bytes of the tuples, or samples, that the windows of the last batch were answered from."),
    Metric("chunks", "Chunks of tuples that open windows still need.", about="tuples"),
    Metric("chunk_tuples", "Tuples in those chunks.", about="tuples"),
    Metric("uncompressed_bytes", "Bytes of the chunks in the state that are not compressed.", about="tuples"),
    Metric("resident_bytes", "Bytes of the chunks in the workers' memory.", about="tuples"),
    Metric("left_chunks", "Chunks that are only in the state.", about="tuples"),
    Metric("jobs", "Window jobs that the last batch handed out.", about="jobs"),
    Metric("job_bytes", "Bytes of those jobs.", about="jobs"),
    Metric("compressed_chunks", "Chunks in the state that are compressed.", about="tuples"),
    Metric("compressed_tuples", "Tuples in those chunks.", about="tuples"),
    Metric("compressed_bytes", "Bytes of the chunks in the state that are compressed.", about="tuples"),
    Metric(
        "compressed_after",
        "D at present: the age in event time of the youngest compressed chunk, in microseconds.",
        fold="max",
        about="tuples",
    ),
    Metric("compressions", "Chunks that were compressed.", counter=True, about="tuples"),
    Metric(
        "decompressions", "Chunks that were decompressed, for windows that needed them.", counter=True, about="tuples"
    ),
)
"""The metrics of every query. Features declare their own."""


class Metrics:
    """The metrics of one shard and batch, by name."""

    def __init__(self, declared: Iterable[Metric] = ENGINE_METRICS) -> None:
        self.declared = tuple(declared)
        self.values: dict[str, int] = {}
        for metric in self.declared:
            self.values[metric.name] = 0
            if metric.counter:
                self.values[f"total_{metric.name}"] = 0

    def __getattr__(self, name: str) -> int:
        try:
            return self.__dict__["values"][name]  # type: ignore[no-any-return]
        except KeyError as error:
            raise AttributeError(f"The query reports no metric {name!r}.") from error

    def __getitem__(self, name: str) -> int:
        return self.values[name]

    def get(self, name: str) -> int:
        """A metric, or 0 if the query does not report it."""
        return self.values.get(name, 0)

    def __setitem__(self, name: str, value: int) -> None:
        if name not in self.values:
            raise KeyError(f"{name!r} is not declared; add a Metric for it.")
        self.values[name] = value

    def add(self, **counts: int) -> None:
        for name, count in counts.items():
            self[name] = self.values[name] + count

    @property
    def counters(self) -> dict[str, int]:
        """The counters of this batch alone."""
        return {metric.name: self.values[metric.name] for metric in self.declared if metric.counter}

    def set_totals(self, totals: Mapping[str, int]) -> None:
        for name in self.counters:
            self[f"total_{name}"] = totals.get(name, 0)


def names(declared: Iterable[Metric]) -> tuple[str, ...]:
    """The columns of these metrics: every metric, and the totals of counters."""
    return tuple(Metrics(declared).values)
