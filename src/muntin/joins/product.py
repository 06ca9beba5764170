"""The pairs of a window: the cross product of its left and right tuples, for all windows and keys at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from muntin.arrays import Int64Array
from muntin.engine.answers import Answered, AnswerLink, ClosedWindows
from muntin.engine.contents import ShardTuples
from muntin.engine.description import PAIRS
from muntin.joins.names import SIDE_FLAGS, TIME
from muntin.panes.tuples import WEIGHT

PLACE = "__muntin_place"
"""A pseudo column: the number of a tuple, which identifies it."""
MOST_PAIRS = 1 << 20
"""Pairs that are in memory at once, which bounds the memory of a window with very many pairs."""


@dataclass(frozen=True)
class Origin:
    """The source of a column of the pairs: a column of the tuples, and the tuple of the pair that provides it."""

    column: str
    of: Literal["left", "right", "later"]


@dataclass(frozen=True)
class Product:
    """The pairs of a window as a window function, in place of a user-defined one."""

    schema: pa.Schema
    """The schema of the pairs, without window and key."""
    origins: tuple[Origin, ...]
    """One for each column of the schema."""
    knows_weights: ClassVar[bool] = True

    @classmethod
    def of(cls, origins: Mapping[str, Origin], types: Mapping[str, pa.DataType]) -> Product:
        return cls(pa.schema([(name, types[name]) for name in origins]), tuple(origins.values()))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the tuples that it reads, without weights."""
        return tuple(name for name in self.read if name != WEIGHT)

    @property
    def read(self) -> tuple[str, ...]:
        """The columns of the tuples that it reads, with weights if the pairs need them."""
        origins = (origin.column for origin in self.origins if origin.column != PLACE)
        return tuple(dict.fromkeys([SIDE_FLAGS["left"], *origins]))

    def link(self, tuples: ShardTuples) -> AnswerLink:
        return PairAnswers(self, tuples)

    def described(self) -> dict[str, Any]:
        return {"what": PAIRS}

    def pieces(
        self, tuples: pa.RecordBatch, begin: Int64Array, end: Int64Array
    ) -> Iterator[tuple[Int64Array, list[pa.Array]]]:
        """The pairs of windows with the tuples `[begin, end)`: the window of each pair, and the columns.

        Pairs are ordered by window, then left tuple, then right tuple. They come in pieces of at most `MOST_PAIRS`, so
        one window may span several pieces.
        """
        is_left = np.asarray(tuples.column(SIDE_FLAGS["left"])).astype(bool)
        all_left, all_right = np.flatnonzero(is_left), np.flatnonzero(~is_left)
        lefts_before = np.append(0, np.cumsum(is_left))
        first_left = lefts_before[begin]
        first_right = begin - first_left
        lefts = lefts_before[end] - first_left
        rights = end - begin - lefts
        pairs = lefts * rights
        pairs_until = np.cumsum(pairs)
        total = int(pairs_until[-1]) if len(pairs_until) else 0
        for start in range(0, total, MOST_PAIRS):
            stop = min(start + MOST_PAIRS, total)
            first, last = np.searchsorted(pairs_until, [start, stop - 1], side="right")
            windows = np.arange(first, last + 1)  # the windows of this piece
            in_piece = np.minimum(pairs_until[windows], stop) - np.maximum(pairs_until[windows] - pairs[windows], start)
            window = np.repeat(windows, in_piece)
            left, right = np.divmod(np.arange(start, stop) - (pairs_until - pairs)[window], rights[window])
            yield (
                window,
                self._paired(tuples, all_left[first_left[window] + left], all_right[first_right[window] + right]),
            )

    def _paired(self, tuples: pa.RecordBatch, left: Int64Array, right: Int64Array) -> list[pa.Array]:
        """The columns of the pairs of these tuples."""
        rows = {"left": pa.array(left), "right": pa.array(right)}
        if any(origin.of == "later" for origin in self.origins):
            times = np.asarray(tuples.column(TIME).cast(pa.int64()))
            rows["later"] = pa.array(np.where(times[right] > times[left], right, left))
        return [
            rows[origin.of] if origin.column == PLACE else tuples.column(origin.column).take(rows[origin.of])
            for origin in self.origins
        ]


@dataclass(frozen=True)
class PairAnswers:
    """The innermost link of a join that makes pairs. There may be very many: they come in several pieces."""

    product: Product
    tuples: ShardTuples

    def answer(self, windows: ClosedWindows) -> Iterator[Answered]:
        names = list(self.product.read)
        for part in self.tuples.parts(windows.operator, windows.answers):
            given = pa.record_batch(self.tuples.columns(part.contents.tuples, names), names=names)
            for window_of_pair, pairs in self.product.pieces(given, part.contents.begin, part.contents.end):
                values = dict(zip(self.product.schema.names, pairs, strict=True))
                yield Answered(windows, values, None, part.answers[window_of_pair])
