"""Unaggregated tuples: the code of their key, their time, and the columns that the query reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from muntin.arrays import BoolArray, Int64Array, UInt64Array, all_true, any_true, is_sorted, stable_order
from muntin.partials import values

MEMBERSHIP = "__muntin_families"
"""A column of tuples that are kept for holistic aggregates: bit f is set if window operator f counts the tuple."""


WEIGHT = "__muntin_weight"
"""A column of tuples of which others were dropped: the number of received tuples that each represents."""


def membership_type(operators: int) -> pa.DataType:
    """The narrowest type with a bit for each of this many window operators."""
    return next(kind for bits, kind in _MEMBERSHIP_TYPES if operators <= bits)


_MEMBERSHIP_TYPES = ((8, pa.uint8()), (16, pa.uint16()), (32, pa.uint32()), (64, pa.uint64()))


@dataclass(frozen=True)
class Tuples:
    """Tuples in order of arrival; `in_order` sorts them by key and time."""

    key: Int64Array
    time: Int64Array
    columns: pa.RecordBatch

    def __len__(self) -> int:
        return len(self.key)

    @property
    def nbytes(self) -> int:
        return self.key.nbytes + self.time.nbytes + int(self.columns.nbytes)

    def take(self, selection: Int64Array | BoolArray) -> Tuples:
        if selection.dtype == bool and all_true(selection):
            return self
        indices = np.flatnonzero(selection) if selection.dtype == bool else selection
        columns = self.columns.take(pa.array(indices)) if self.columns.num_columns else self.columns
        return Tuples(self.key[indices], self.time[indices], columns)

    def recoded(self, codes: Int64Array) -> Tuples:
        """The same tuples, with `codes[key]` for every key."""
        return Tuples(codes[self.key], self.time, self.columns)

    def in_order(self, first: str | None = None) -> Tuples:
        """Sorted by key, then by time; ties by the values of the columns, the column `first` before the others.

        The tie-break depends only on the tuples, not on when or in which batch they arrived.
        """
        if self._is_strictly_in_order:
            return self
        order = self.order(first)
        return self if is_sorted(order) else self.take(order)

    @property
    def _is_strictly_in_order(self) -> bool:
        """Whether all are in order and no two have the same key and time, as is common for tuples of one key."""
        is_later = self.time[1:] > self.time[:-1]
        same_key = self.key[1:] == self.key[:-1]
        return all_true(is_later if all_true(same_key) else np.where(same_key, is_later, self.key[1:] > self.key[:-1]))

    def order(self, first: str | None = None) -> Int64Array:
        """The positions of the tuples in sorted order."""
        if self._is_strictly_in_order:
            return np.arange(len(self))
        order = by_key_and_time(self.key, self.time)
        key, time = self.key[order], self.time[order]
        ties = (key[1:] == key[:-1]) & (time[1:] == time[:-1])
        if any_true(ties) and self.columns.num_columns:
            tied = np.flatnonzero(np.append(ties, False) | np.append(False, ties))
            run = np.cumsum(~np.append(False, ties)[tied])
            positions = order[tied]
            ranks = self._ranks(positions, first)
            if not is_sorted(run, *ranks):  # tuples from chunks already are
                order[tied] = positions[stable_order(*reversed(ranks), run)]
        return order

    def _ranks(self, positions: Int64Array, first: str | None) -> list[Int64Array]:
        """Sort keys of the tuples at `positions`, the most significant first."""
        ranks: list[Int64Array] = []
        bits: list[Int64Array] = []  # of floating numbers, compared last: they distinguish 0.0 from -0.0
        names = self.columns.schema.names
        for name in sorted(names, key=lambda name: name != first):
            part = self.columns.column(name).take(pa.array(positions))
            if part.null_count:
                ranks.append(np.asarray(part.is_valid()).astype(np.int64))
            if values.is_fixed(part.type):
                ranks.append(values.fixed_order_keys(part))
            elif values.is_ranked(part.type):
                ranks.append(values.ranked(part)[0])
            elif pa.types.is_nested(part.type):  # these have no order, but their text has
                ranks.append(np.unique([repr(value) for value in part.to_pylist()], return_inverse=True)[1])
            if pa.types.is_floating(part.type):
                bits.append(values.numbers(part).view(np.int64))
        return ranks + bits

    @property
    def membership(self) -> UInt64Array:
        """The window operators that count each tuple, one per bit."""
        return np.asarray(self.columns.column(MEMBERSHIP)).astype(np.uint64)

    def with_membership(self, membership: UInt64Array) -> Tuples:
        index = self.columns.schema.get_field_index(MEMBERSHIP)
        kind = self.columns.schema.field(index).type
        columns = [*self.columns.columns[:index], pa.array(membership).cast(kind), *self.columns.columns[index + 1 :]]
        return Tuples(self.key, self.time, pa.record_batch(columns, schema=self.columns.schema))

    def of_operator(self, operator: int) -> BoolArray:
        """Which tuples a window operator counts."""
        return np.asarray(self.membership >> np.uint64(operator) & np.uint64(1) == 1)

    def without(self, operator: int, dropped: Int64Array) -> Tuples:
        """The same tuples, with `dropped` no longer counted by a window operator."""
        membership = self.membership
        membership[dropped] &= ~np.uint64(1 << operator)
        return self.with_membership(membership)


def concatenated(parts: Sequence[Tuples]) -> Tuples:
    if len(parts) == 1:
        return parts[0]
    schema = parts[0].columns.schema
    columns = [pa.concat_arrays([part.columns.column(i) for part in parts]) for i in range(len(schema))]
    return Tuples(
        np.concatenate([part.key for part in parts]),
        np.concatenate([part.time for part in parts]),
        pa.record_batch(columns, schema=schema),
    )


def by_key_and_time(key: Int64Array, time: Int64Array) -> Int64Array:
    """The stable order by key, then by time."""
    if is_sorted(key, time):
        return np.arange(len(key))
    first = int(time.min())
    span = int(time.max()) - first + 1
    bits = len(key).bit_length()
    if (int(key.max()) + 1) * span < 1 << (62 - bits):
        # Key, time and position in one integer: sorting integers is several times as fast as sorting positions by them.
        composite = key * span + (time - first)
        return np.sort((composite << bits) | np.arange(len(key))) & ((1 << bits) - 1)
    order = np.argsort(time, kind="stable")
    return order[by_code(key[order])]


def by_code(codes: Int64Array) -> Int64Array:
    """The stable order of small non-negative integers: sixteen bits at a time, which NumPy sorts with a radix sort."""
    order = np.argsort(codes.astype(np.uint16), kind="stable")
    shift = 16
    largest = int(codes.max(initial=0))
    while largest >> shift:
        digits = (codes >> shift).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
        shift += 16
    return order
