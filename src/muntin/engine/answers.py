"""From closed windows to their answers: a chain of links, the innermost of which is exact.

Every link gets windows with their decomposable aggregates, and returns values, with estimates if they are not exact.
The chain is made once per batch; rows of results are rendered after its last link.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from muntin.arrays import Int64Array
from muntin.engine.contents import OfContents, ShardTuples, holistic
from muntin.engine.emitted import Results
from muntin.engine.estimates import Estimates
from muntin.engine.lateness import lateness
from muntin.engine.operators.operator import Answers, Combined, LazyAggregates, LazyOfSome, WindowOperator
from muntin.engine.schema import LATENESS, Schema
from muntin.panes.table import PaneTable
from muntin.panes.watermarks import Watermarks
from muntin.partials.values import taken_from, viewed


@dataclass(frozen=True)
class ClosedWindows:
    """Windows of one operator that close together."""

    operator: WindowOperator
    answers: Answers
    values: Mapping[str, pa.Array]
    """The decomposable aggregates."""
    lazy: LazyAggregates
    """Hidden aggregates that are only computed when a link requests them."""
    also: Mapping[str, OfContents] = field(default_factory=dict)
    """Functions of an outer link, for an inner one to compute where it reads the tuples anyway."""

    def __len__(self) -> int:
        return len(self.answers.key)

    def take(self, positions: Int64Array) -> ClosedWindows:
        """The windows at some positions, in order."""
        indices = pa.array(positions)
        values = {name: column.take(indices) for name, column in self.values.items()}
        return replace(self, answers=self.answers.take(positions), values=values, lazy=LazyOfSome(self.lazy, positions))


@dataclass(frozen=True)
class Answered:
    """Answers of some windows."""

    windows: ClosedWindows
    values: Mapping[str, pa.Array]
    """By name; hidden aggregates may be among them."""
    estimates: Estimates | None = None
    """Their quality, window by window; None if all are exact."""
    window_of_row: Int64Array | None = None
    """The window of each row of values, where a function returns any number of rows."""
    given: Int64Array | None = None
    """How many tuples of each window the function got."""


class AnswerLink(Protocol):
    """One link of the chain."""

    def answer(self, windows: ClosedWindows) -> Iterator[Answered]: ...


@dataclass(frozen=True)
class FromPartials:
    """The innermost link where partial results answer every window."""

    tuples: ShardTuples

    def answer(self, windows: ClosedWindows) -> Iterator[Answered]:
        yield Answered(windows, windows.values)


@dataclass(frozen=True)
class Exact:
    """The innermost link where holistic aggregates read the tuples."""

    tuples: ShardTuples

    def answer(self, windows: ClosedWindows) -> Iterator[Answered]:
        functions = {**holistic(windows.operator), **windows.also}
        computed = self.tuples.computed(windows.operator, windows.answers, functions)
        yield Answered(windows, {**windows.values, **computed})


def closed_windows(operator: WindowOperator, combined: Combined) -> ClosedWindows:
    return ClosedWindows(operator, combined.answers, combined.values, combined.lazy)


def results(
    schema: Schema, table: PaneTable, operator: WindowOperator, combined: Iterator[Combined], link: AnswerLink
) -> Iterator[Results]:
    """The rows of results of windows that are combined."""
    for windows in combined:
        for answered in link.answer(closed_windows(operator, windows)):
            aligned = answered.windows if answered.window_of_row is None else None
            yield Results(rendered(schema, table, answered), aligned)


def rendered(schema: Schema, table: PaneTable, answered: Answered) -> pa.RecordBatch:
    """Rows of results."""
    answers, values = answered.windows.answers, answered.values
    columns = [values[column.name] for column in schema.columns]
    if schema.quality_fields is not None:
        assert answered.estimates is not None, "some link makes estimates"
        if answered.window_of_row is None:
            columns.append(answered.estimates.column(schema.quality_fields, values))
        else:
            columns.append(answered.estimates.column_of_rows(schema.quality_fields, answered.window_of_row))
    if answered.window_of_row is not None:
        answers = answers.take(answered.window_of_row)
    return result_batch(schema, table, answers, columns)


def result_batch(schema: Schema, table: PaneTable, answers: Answers, values: Sequence[pa.Array]) -> pa.RecordBatch:
    """One row per answer: the window, the key, and the values."""
    bounds = [viewed(edge, schema.types[schema.time]) for edge in (answers.start, answers.end)]
    columns: list[pa.Array] = [
        pa.StructArray.from_arrays(bounds, fields=schema.window_fields),
        pa.array(answers.window),
    ]
    if len(schema.windows) > 1:
        columns.append(schema.titles.take(pa.array(answers.model)))
    if schema.has_partial:
        partial = answers.partial
        columns.append(pa.array(np.zeros(len(answers.key), bool) if partial is None else partial))
    every_key = answers.alone and len(answers.key) == table.keys.num_rows
    columns += [
        table.keys.column(key) if every_key else taken_from(table.keys.column(key), answers.key) for key in schema.keys
    ]
    columns += values
    columns += [pa.nulls(len(answers.key), column.type) for column in schema.added]
    columns += [pa.nulls(len(answers.key), column.type) for column in schema.late_fields]
    return pa.record_batch(columns, schema=schema.results)


def rows_as_results(schema: Schema, rows: pa.Table, closed: Watermarks | None = None) -> Iterator[pa.RecordBatch]:
    """Results without a window: the keys, the full row in `late`, and if it came after `closed`, how late it was."""
    assert schema.late_row is not None
    for batch in rows.to_batches():
        late = pa.StructArray.from_arrays(
            [batch.column(column.name).cast(column.type) for column in schema.late_row], fields=list(schema.late_row)
        )
        known = {key: batch.column(key) for key in schema.keys} | {"late": late}
        if closed is not None:
            times = np.asarray(batch.column(schema.time).cast(pa.int64()))
            known[LATENESS] = lateness(times, schema.windows, closed, schema.results.field(LATENESS).type)
        columns = [known.get(column.name, pa.nulls(batch.num_rows, column.type)) for column in schema.results]
        yield pa.record_batch(columns, schema=schema.results)
