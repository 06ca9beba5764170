"""Time windows from trees that live: which windows have panes, and their aggregates, without reading the table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from muntin.arrays import Int64Array, all_true, run_starts
from muntin.engine.live import LivePanes
from muntin.engine.operators import operator as operators
from muntin.engine.operators.operator import Answers, Closing, Combined, LazyAggregates, lowered
from muntin.engine.operators.time import TimeOperator
from muntin.panes.table import PaneTable


@dataclass(frozen=True)
class LiveReader:
    """The windows of a time operator over one table, in window order."""

    operator: TimeOperator
    table: PaneTable
    live: LivePanes

    def closing(self, after: int, until: int, numbered: bool = False) -> Iterator[Closing]:
        """The windows whose end is in `(after, until]`, for the keys that have panes in them."""
        code = self.live.codes
        if after >= until or not len(code):
            return
        model, ids, start, end = self._windows(after, until)
        if not len(ids):
            return
        for first, last in _pieces(end, len(code)):
            windows = np.repeat(np.arange(first, last), len(code))
            key = np.tile(code, last - first)
            has_panes = self.live.has_panes(key, start[windows], end[windows])
            if not all_true(has_panes):
                windows, key = windows[has_panes], key[has_panes]
            if not len(key):
                continue
            alone = last - first == 1 and len(key) > 1
            answers = Answers(model[windows], ids[windows], key, start[windows], end[windows], alone=alone)
            yield Closing(answers if len(self.operator.models) == 1 else _in_order(answers))

    def _windows(self, after: int, until: int) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
        """All windows that close and that may contain panes, in order: the model, the id, the start and the end."""
        bounds, parts = np.array(self.live.span), []
        for (index, _), window in zip(self.operator.windows, self.operator.models, strict=True):
            first = max(window.last_ended(after) + 1, int(window.first_containing(bounds)[0]))
            last = min(window.last_ended(until), int(window.last_containing(bounds)[1]))
            ids = np.arange(first, last + 1)
            parts.append((np.full(len(ids), index), window.public_id(ids), window.start(ids), window.end(ids)))
        model, ids, start, end = map(np.concatenate, zip(*parts, strict=True))
        order = np.lexsort((start, end))
        return model[order], ids[order], start[order], end[order]

    def combined(self, closing: Closing) -> Iterator[Combined]:
        answers, first, requested = closing.answers, self.operator.first_set, self.operator.requested[False]
        windows, states = {}, {}
        for number, parts in enumerate(requested.parts):
            if parts:
                present, *state = self.live.ranges(number, answers.key, answers.start, answers.end)
                filled = windows[number] = None if all_true(present) else np.flatnonzero(present)
                kept = tuple(state) if filled is None else tuple(column[filled] for column in state)
                states.update({(number, start): part for start, part in parts.by_field(kept).items()})
        values = {}
        for output in requested.outputs:
            slots = [states[number - first, fields.start] for number, fields in output.slots]
            filled = windows[output.slots[0][0] - first]
            values[output.name] = lowered(output, slots, filled, len(answers.key), self.table)
        yield Combined(answers, values, LazyAggregates())


def _pieces(end: Int64Array, keys: int) -> Iterator[tuple[int, int]]:
    """Runs of windows with so few answers that their memory is bounded. Windows with one end stay together."""
    edges = [*run_starts(end).tolist(), len(end)]
    first = 0
    for edge, following in zip(edges[1:], [*edges[2:], None], strict=True):
        if following is None or (following - first) * keys > operators.MOST_ANSWERS:
            if edge > first:
                yield first, edge
            first = edge


def _in_order(answers: Answers) -> Answers:
    return answers.take(np.lexsort((answers.key, answers.start, answers.end)))
