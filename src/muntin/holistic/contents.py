"""Windows as ranges of ordered tuples, and the computations that all holistic aggregates share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from muntin.arrays import (
    BoolArray,
    Float64Array,
    Int64Array,
    all_true,
    expand,
    positions_in_runs,
    run_starts,
    stable_order,
)
from muntin.panes import keys
from muntin.panes.tuples import WEIGHT, Tuples
from muntin.partials import values
from muntin.tree.wavelet import WaveletMatrix

SELECTED = 4
"""Up to this many places of a single window are selected; for more, its tuples are sorted."""


@dataclass
class WindowContents:
    """Windows of one model over tuples sorted by (key, time). Window i contains the tuples `[begin[i], end[i])`.

    A window never spans two keys. Windows sorted by their begin are sorted by their end as well.
    """

    tuples: Tuples
    begin: Int64Array
    end: Int64Array
    one_per_key: bool = False
    """Whether each key has one window with all of its tuples, as in samples of windows: then no windows overlap."""
    _selections: dict[tuple[str, str | None], Selection] = field(default_factory=dict)

    def selected(self, column: str, where: str | None) -> Selection:
        """The windows over the tuples that count: those whose column is not null and whose filter is true."""
        if (column, where) not in self._selections:
            array = self.tuples.columns.column(column)
            self._selections[column, where] = Selection.of(self, array, self.mask((column,), where))
        return self._selections[column, where]

    def selected_together(self, columns: Sequence[str], where: str | None) -> Selection:
        """The same for combinations of several non-null columns: equal combinations share one code."""
        parts = [keys.normalised(self.tuples.columns.column(column)) for column in columns]
        codes, _ = keys.encode(parts, len(self.tuples))
        return Selection.of(self, pa.array(codes), self.mask(columns, where))

    @cached_property
    def weights(self) -> Float64Array | None:
        """The number of tuples that each kept tuple represents after shedding; None if each represents only itself."""
        if WEIGHT not in self.tuples.columns.schema.names:
            return None
        weights = np.asarray(self.tuples.columns.column(WEIGHT))
        return None if np.all(weights == 1) else weights

    def mask(self, columns: Sequence[str], where: str | None) -> BoolArray | None:
        """Which tuples count: those with no null in these columns and a true filter. None if all tuples count."""
        masks = [values.valid_mask(self.tuples.columns.column(column)) for column in columns]
        if where is not None:
            masks.append(np.asarray(values.filled(self.tuples.columns.column(where))))
        conditions = [mask for mask in masks if mask is not None]
        return np.logical_and.reduce(conditions) if conditions else None

    def matching(self, columns: Sequence[str], where: str | None) -> Int64Array:
        """The number of tuples in each window that count."""
        kept = self.mask(columns, where)
        if kept is None:
            return self.end - self.begin
        counts_before = np.append(0, np.cumsum(kept))
        return np.asarray(counts_before[self.end] - counts_before[self.begin])


@dataclass
class Selection:
    """A column of the tuples that count, and the windows as ranges of its rows."""

    key: Int64Array
    column: pa.Array
    begin: Int64Array
    end: Int64Array
    one_per_key: bool = False
    weights: Float64Array | None = None
    _selected_places: int = 0

    @classmethod
    def of(cls, windows: WindowContents, column: pa.Array, kept: BoolArray | None) -> Selection:
        weights = windows.weights
        if kept is None or all_true(kept):
            return cls(windows.tuples.key, column, windows.begin, windows.end, windows.one_per_key, weights)
        counts_before = np.append(0, np.cumsum(kept))
        begin, end = counts_before[windows.begin], counts_before[windows.end]
        weights = None if weights is None else weights[kept]
        return cls(windows.tuples.key[kept], column.filter(pa.array(kept)), begin, end, windows.one_per_key, weights)

    @property
    def sizes(self) -> Int64Array:
        return self.end - self.begin

    @property
    def total(self) -> Float64Array:
        """The number of tuples that the kept tuples of each window represent."""
        return self.sizes.astype(np.float64) if self.weights is None else self._summed(self.weights)

    @property
    def effective_sizes(self) -> Int64Array:
        """The effective sample size of each window (Kish): smaller if a few tuples carry most of the weight."""
        if self.weights is None:
            return self.sizes
        return np.floor(self.total**2 / np.maximum(self._summed(self.weights**2), 1e-9) + 1e-6).astype(np.int64)

    def _summed(self, weights: Float64Array) -> Float64Array:
        sums_before = np.append(0.0, np.cumsum(weights))
        return np.asarray(sums_before[self.end] - sums_before[self.begin])

    @cached_property
    def first_of_key(self) -> Int64Array:
        """For every tuple, the index of the first tuple of its key."""
        return np.arange(len(self.key)) - self.position

    @cached_property
    def position(self) -> Int64Array:
        """For every tuple, its position among the tuples of its key."""
        return positions_in_runs(run_starts(self.key), len(self.key))

    @cached_property
    def numbers(self) -> Float64Array:
        """The values of a numeric column."""
        return values.numbers(self.column)

    @cached_property
    def order_keys(self) -> Int64Array:
        """Integers with the same order as the values."""
        ranked = values.is_ranked(self.column.type)
        return values.ranked(self.column)[0] if ranked else values.fixed_order_keys(self.column)

    @cached_property
    def by_value(self) -> Int64Array:
        """The tuples of each key, from the smallest value to the largest; ties keep their order."""
        return stable_order(self.order_keys, self.key)

    @cached_property
    def ranks(self) -> WaveletMatrix:
        """The rank of every tuple among the values of its key, which gives the order statistics of each window."""
        rank = np.empty(len(self.key), dtype=np.int64)
        rank[self.by_value] = self.position
        return WaveletMatrix(rank, int(self.position.max(initial=0)) + 1)

    @cached_property
    def apart(self) -> bool:
        """Whether no two windows share a tuple, as where every key has one window: then there is nothing to share."""
        return all_true(self.begin[1:] >= self.end[:-1])

    @cached_property
    def by_value_in_windows(self) -> Int64Array:
        """The tuples of each window, from the smallest value to the largest, if windows are apart."""
        tuples, window = expand(self.begin, self.sizes)
        return np.asarray(tuples[stable_order(self.order_keys[tuples], window)])

    def kth(self, windows: Int64Array, k: Int64Array) -> Int64Array:
        """The tuple with the k-th smallest value (from 0) in each of these windows; `k` may have several rows."""
        begin = self.begin[windows]
        if self.one_per_key:
            return np.asarray(self.by_value[begin + k])
        if len(self.sizes) == k.ndim == 1 and 0 < len(k) <= SELECTED - self._selected_places:
            self._selected_places += len(k)
            return self._selected(int(self.begin[0]), int(self.end[0]), k)
        if self.apart:
            first = np.cumsum(self.sizes) - self.sizes
            return np.asarray(self.by_value_in_windows[first[windows] + k])
        position = self.first_of_key[begin] + self.ranks.kth(begin, self.end[windows], k)
        return np.asarray(self.by_value[position])

    def _selected(self, begin: int, end: int, k: Int64Array) -> Int64Array:
        """The same for a single window: selecting a few tuples is faster than sorting all."""
        keys = self.order_keys[begin:end]
        found = np.partition(keys, k)[k]
        places = [_nth_equal(keys, *each) for each in zip(found.tolist(), k.tolist(), strict=True)]
        return begin + np.array(places, dtype=np.int64)


def _nth_equal(keys: Int64Array, value: int, place: int) -> int:
    """The position of the value at this place of the sorted keys, where equal keys stay in order."""
    equal = np.flatnonzero(keys == value)
    return int(equal[place - np.count_nonzero(keys < value)])
