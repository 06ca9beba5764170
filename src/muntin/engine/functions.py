"""Window functions: a query may apply one to the tuples of each window instead of computing aggregates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from muntin.engine.answers import Answered, AnswerLink, ClosedWindows
from muntin.engine.description import FUNCTION
from muntin.holistic.applied import Applied

if TYPE_CHECKING:
    from muntin.engine.contents import ShardTuples


class WindowFunction(Protocol):
    """Makes rows of the tuples of a window."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows, without window and key."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of tuples that it reads."""
        ...

    @property
    def knows_weights(self) -> bool:
        """Whether it sees the weights of tuples, where some are dropped."""
        ...

    def link(self, tuples: ShardTuples) -> AnswerLink:
        """The innermost link of the chain."""
        ...

    def described(self) -> dict[str, Any]:
        """Its parts on which the meaning of the state depends."""
        ...


@dataclass(frozen=True)
class AppliedFunction:
    """The user's function. It gets the tuples of one window at a time."""

    applied: Applied
    knows_weights = False

    @property
    def schema(self) -> pa.Schema:
        return self.applied.schema

    @property
    def columns(self) -> tuple[str, ...]:
        return self.applied.columns

    def link(self, tuples: ShardTuples) -> AnswerLink:
        return FunctionAnswers(self.applied, tuples)

    def described(self) -> dict[str, Any]:
        return {"what": FUNCTION}


@dataclass(frozen=True)
class FunctionAnswers:
    """The rows that the user's function returns for each window."""

    applied: Applied
    tuples: ShardTuples

    def answer(self, windows: ClosedWindows) -> Iterator[Answered]:
        """The rows of all windows, in order. A window whose tuples were all dropped has one row of nulls."""
        applied, answers = self.applied, windows.answers
        window_parts, tables = [], [applied.schema.empty_table()]
        given = np.zeros(len(answers.key), dtype=np.int64)
        for part in self.tuples.parts(windows.operator, answers):
            begin, end = part.contents.begin, part.contents.end
            given[part.answers] = end - begin
            filled = begin < end
            if not filled.all():
                window_parts.append(part.answers[~filled])
                tables.append(_nulls(applied.schema, len(window_parts[-1])))
                begin, end = begin[filled], end[filled]
            filled_windows = part.answers[filled]
            names = list(applied.columns)
            table = pa.table(self.tuples.columns(part.contents.tuples, names), names=list(applied.names or names))
            answered = answers.take(filled_windows)
            title, of = partial(self.tuples.title, answered), partial(self.tuples.window_of_key, answered)
            counts, rows = applied.over(table, begin, end, title, of if applied.gets_window else None)
            window_parts.append(np.repeat(filled_windows, counts))
            tables += rows
        window_of_row = np.concatenate(window_parts)
        order = np.argsort(window_of_row, kind="stable")
        table = pa.concat_tables(tables).combine_chunks()
        values = {
            name: _combined(column).take(pa.array(order))
            for name, column in zip(applied.schema.names, table.columns, strict=True)
        }
        yield Answered(windows, values, None, window_of_row[order], given)


def _nulls(schema: pa.Schema, length: int) -> pa.Table:
    return pa.table([pa.nulls(length, field.type) for field in schema], schema=schema)


def _combined(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
