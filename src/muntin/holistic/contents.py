"""Windows as ranges of tuples in order, and what all holistic aggregates over them share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from muntin.arrays import BoolArray, Float64Array, Int64Array, all_true, positions_in_runs, run_starts, stable_order
from muntin.panes import keys
from muntin.panes.tuples import WEIGHT, Tuples
from muntin.partials import values
from muntin.tree.wavelet import WaveletMatrix


@dataclass
class Held:
    """Windows of one model over tuples that are sorted by (key, time): window i holds the tuples `[begin[i], end[i])`.

    No window reaches across a key. In the order of their begins, the windows are in the order of their ends, too.
    """

    tuples: Tuples
    begin: Int64Array
    end: Int64Array
    one_per_key: bool = False
    """Whether each window is all that its key has, as with samples of windows: then nothing overlaps."""
    _chosen: dict[tuple[str, str | None], Chosen] = field(default_factory=dict)

    def chosen(self, column: str, where: str | None) -> Chosen:
        """The windows over the tuples that count: the column is not null and the filter is true."""
        if (column, where) not in self._chosen:
            array = self.tuples.columns.column(column)
            self._chosen[column, where] = Chosen.of(self, array, self.mask((column,), where))
        return self._chosen[column, where]

    def chosen_together(self, columns: Sequence[str], where: str | None) -> Chosen:
        """The same of combinations of several columns, none of which is null: equal ones have one code."""
        parts = [keys.normalised(self.tuples.columns.column(column)) for column in columns]
        codes, _ = keys.encode(parts, len(self.tuples))
        return Chosen.of(self, pa.array(codes), self.mask(columns, where))

    @cached_property
    def weights(self) -> Float64Array | None:
        """How many tuples each stands for, where others were shed; None where each stands for itself."""
        if WEIGHT not in self.tuples.columns.schema.names:
            return None
        weights = np.asarray(self.tuples.columns.column(WEIGHT))
        return None if np.all(weights == 1) else weights

    def mask(self, columns: Sequence[str], where: str | None) -> BoolArray | None:
        """Which tuples count: no column is null and the filter is true. None if all of them do."""
        masks = [values.valid_mask(self.tuples.columns.column(column)) for column in columns]
        if where is not None:
            masks.append(np.asarray(values.filled(self.tuples.columns.column(where))))
        present = [mask for mask in masks if mask is not None]
        return np.logical_and.reduce(present) if present else None

    def matching(self, columns: Sequence[str], where: str | None) -> Int64Array:
        """How many tuples of each window count."""
        kept = self.mask(columns, where)
        if kept is None:
            return self.end - self.begin
        before = np.append(0, np.cumsum(kept))
        return np.asarray(before[self.end] - before[self.begin])


@dataclass
class Chosen:
    """A column of the tuples that count, and the windows of `Held` as ranges of it."""

    key: Int64Array
    column: pa.Array
    begin: Int64Array
    end: Int64Array
    one_per_key: bool = False
    weights: Float64Array | None = None

    @classmethod
    def of(cls, held: Held, column: pa.Array, kept: BoolArray | None) -> Chosen:
        weights = held.weights
        if kept is None or all_true(kept):
            return cls(held.tuples.key, column, held.begin, held.end, held.one_per_key, weights)
        before = np.append(0, np.cumsum(kept))
        begin, end = before[held.begin], before[held.end]
        weights = None if weights is None else weights[kept]
        return cls(held.tuples.key[kept], column.filter(pa.array(kept)), begin, end, held.one_per_key, weights)

    @property
    def sizes(self) -> Int64Array:
        return self.end - self.begin

    @property
    def total(self) -> Float64Array:
        """How many tuples those of each window stand for."""
        return self.sizes.astype(np.float64) if self.weights is None else self._summed(self.weights)

    @property
    def as_good_as(self) -> Int64Array:
        """How many tuples of equal weight would tell as much of each window (Kish): fewer, if a few stand for most."""
        if self.weights is None:
            return self.sizes
        return np.floor(self.total**2 / np.maximum(self._summed(self.weights**2), 1e-9) + 1e-6).astype(np.int64)

    def _summed(self, each: Float64Array) -> Float64Array:
        before = np.append(0.0, np.cumsum(each))
        return np.asarray(before[self.end] - before[self.begin])

    @cached_property
    def first_of_key(self) -> Int64Array:
        """For every tuple, where the tuples of its key begin."""
        return np.arange(len(self.key)) - self.position

    @cached_property
    def position(self) -> Int64Array:
        """For every tuple, how many of its key are before it."""
        return positions_in_runs(run_starts(self.key), len(self.key))

    @cached_property
    def numbers(self) -> Float64Array:
        """The values of a numeric column."""
        return values.numbers(self.column)

    @cached_property
    def order_keys(self) -> Int64Array:
        """Integers that compare as the values do."""
        ranked = values.is_ranked(self.column.type)
        return values.ranked(self.column)[0] if ranked else values.fixed_order_keys(self.column)

    @cached_property
    def by_value(self) -> Int64Array:
        """The tuples of each key from the least value to the greatest; equal ones in their order."""
        return stable_order(self.order_keys, self.key)

    @cached_property
    def ranks(self) -> WaveletMatrix:
        """Of every tuple the place among the values of its key: each window's order statistics."""
        rank = np.empty(len(self.key), dtype=np.int64)
        rank[self.by_value] = self.position
        return WaveletMatrix(rank, int(self.position.max(initial=0)) + 1)

    def kth(self, windows: Int64Array, k: Int64Array) -> Int64Array:
        """The tuple with the k-th smallest value, from 0, of each of these windows; `k` may have several rows."""
        begin = self.begin[windows]
        if self.one_per_key:
            return np.asarray(self.by_value[begin + k])
        place = self.first_of_key[begin] + self.ranks.kth(begin, self.end[windows], k)
        return np.asarray(self.by_value[place])
