"""A batch of tuples as the aggregates see it: every column is decoded at most once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from muntin.arrays import Array, BoolArray, Float64Array, Int64Array, Runs
from muntin.partials import values
from muntin.partials.groups import Groups
from muntin.partials.strata import Strata


class Rows:
    """Tuples with the group that each belongs to: `groups[i]` in `range(group_count)` is the (key, pane) of row i."""

    def __init__(
        self,
        batch: pa.RecordBatch,
        times: Int64Array,
        groups: Int64Array | Runs | None,
        group_count: int,
        strata: Strata | None = None,
        received: Rows | None = None,
    ) -> None:
        """`groups` are runs if the rows of each group are neighbours, and None if every row is a group of its own.

        If others were dropped, `strata` says how these were drawn, and `received` are all rows, in the same groups.
        """
        self.batch = batch
        self.times = times
        self.one_each = groups is None
        """Whether every group is one row: then there is nothing to add up."""
        self.group_count = group_count
        self.strata = strata
        self.received = received
        self.dictionaries: dict[str, pa.Array] = {}
        self._all = Groups(np.arange(group_count) if groups is None else groups, group_count)
        self._order_keys: dict[str, Int64Array] = {}
        self._numbers: dict[str, Float64Array] = {}
        self._masks: dict[tuple[tuple[str, ...], str | None], BoolArray | None] = {}
        self._grouped: dict[tuple[tuple[str, ...], str | None], Groups] = {}
        self._sums: dict[tuple[str, str | None], Float64Array] = {}

    @property
    def groups(self) -> Int64Array:
        """The group of each row."""
        return self._all.numbers

    def of_groups(self, kept: Int64Array, columns: Sequence[str]) -> Rows:
        """The rows of the groups `kept`, which are renumbered in this order, with some of the columns."""
        number = np.full(self.group_count, -1)
        number[kept] = np.arange(len(kept))
        groups = number[self.groups]
        rows = np.flatnonzero(groups >= 0)
        arrays = [self.array(column).take(pa.array(rows)) for column in columns]
        strata = None if self.strata is None else self.strata.take(kept)
        received = None if self.received is None or not columns else self.received.of_groups(kept, columns)
        batch = pa.RecordBatch.from_arrays(arrays, names=list(columns))
        return Rows(batch, self.times[rows], groups[rows], len(kept), strata, received)

    def array(self, column: str) -> pa.Array:
        return self.batch.column(column)

    def order_keys(self, column: str) -> Int64Array:
        if column not in self._order_keys:
            array = self.array(column)
            if values.is_ranked(array.type):
                self._order_keys[column], self.dictionaries[column] = values.ranked(array)
            else:
                self._order_keys[column] = values.fixed_order_keys(array)
        return self._order_keys[column]

    def numbers(self, column: str) -> Float64Array:
        if column not in self._numbers:
            self._numbers[column] = values.numbers(self.array(column))
        return self._numbers[column]

    def mask(self, columns: tuple[str, ...], where: str | None) -> BoolArray | None:
        """The rows that count: no column is null and the filter is true. None if all of them do."""
        key = (columns, where)
        if key not in self._masks:
            masks = [values.valid_mask(self.array(column)) for column in columns]
            if where is not None:
                matches = values.filled(self.array(where))  # a filter that is null is not true
                masks.append(np.asarray(matches.to_numpy(zero_copy_only=False)))
            present = [mask for mask in masks if mask is not None]
            self._masks[key] = np.logical_and.reduce(present) if present else None
        return self._masks[key]

    def one_by_one(self, columns: tuple[str, ...], where: str | None, values: Array, default: int) -> Array:
        """If every row is a group: the value of each row, or the default if the row does not count."""
        mask = self.mask(columns, where)
        return values if mask is None else np.where(mask, values, values.dtype.type(default))

    def grouped(self, columns: tuple[str, ...], where: str | None) -> Groups:
        """The rows that count, by group."""
        mask = self.mask(columns, where)
        if mask is None:
            return self._all
        key = (columns, where)
        if key not in self._grouped:
            self._grouped[key] = self._all.where(mask)
        return self._grouped[key]

    def counting(self, columns: tuple[str, ...], where: str | None, values: Array) -> Array:
        """The values of the rows that count."""
        mask = self.mask(columns, where)
        return values if mask is None else values[mask]

    def sums(self, column: str, where: str | None) -> Float64Array:
        """The sum of a column over each group's rows that count."""
        key = (column, where)
        if key not in self._sums:
            inputs = (column,)
            numbers = self.counting(inputs, where, self.numbers(column))
            self._sums[key] = self.grouped(inputs, where).sums(numbers)
        return self._sums[key]

    def select(self, columns: tuple[str, ...], where: str | None, *arrays: Array) -> tuple[Array, ...]:
        """The groups and `arrays`, restricted to the rows that count."""
        groups = self.grouped(columns, where).numbers
        return (groups, *(self.counting(columns, where, array) for array in arrays))
