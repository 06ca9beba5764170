"""Tuples that are kept as they are: with the code of their key, their time, and the columns that the query reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from muntin.arrays import Array, BoolArray, Int64Array, UInt64Array, all_true, any_true, is_sorted
from muntin.partials import values

MEMBERSHIP = "__muntin_families"
"""Where tuples are kept for whole windows, this column says whose they are: bit f is set if family f counts it."""


WEIGHT = "__muntin_weight"
"""Where tuples were shed, this column says how many each of those that were kept stands for."""


def membership_type(families: int) -> pa.DataType:
    return next(kind for bits, kind in _MEMBERSHIP_TYPES if families <= bits)


_MEMBERSHIP_TYPES = ((8, pa.uint8()), (16, pa.uint16()), (32, pa.uint32()), (64, pa.uint64()))


@dataclass(frozen=True)
class Tuples:
    """In the order of their arrival, until somebody needs them `in_order`."""

    key: Int64Array
    time: Int64Array
    columns: pa.RecordBatch

    def __len__(self) -> int:
        return len(self.key)

    @property
    def nbytes(self) -> int:
        return self.key.nbytes + self.time.nbytes + int(self.columns.nbytes)

    def take(self, chosen: Int64Array | BoolArray) -> Tuples:
        if chosen.dtype == bool and all_true(chosen):
            return self
        indices = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
        columns = self.columns.take(pa.array(indices)) if self.columns.num_columns else self.columns
        return Tuples(self.key[indices], self.time[indices], columns)

    def recoded(self, codes: Int64Array) -> Tuples:
        """The same tuples, with `codes[key]` for every key."""
        return Tuples(codes[self.key], self.time, self.columns)

    def in_order(self, first: str | None = None) -> Tuples:
        """By key, then by time; equal times by the values of the columns, `first` before the others.

        The tie-break is fixed by the tuples alone: it does not depend on when or in which batch they came.
        """
        if self._is_strictly_in_order:
            return self
        order = self.order(first)
        return self if is_sorted(order) else self.take(order)

    @property
    def _is_strictly_in_order(self) -> bool:
        """Whether no two have the same key and time, and all are in order: as tuples of one key mostly are."""
        later = self.time[1:] > self.time[:-1]
        same = self.key[1:] == self.key[:-1]
        return all_true(later if all_true(same) else np.where(same, later, self.key[1:] > self.key[:-1]))

    def order(self, first: str | None = None) -> Int64Array:
        """The indices of the tuples in order."""
        if self._is_strictly_in_order:
            return np.arange(len(self))
        order = by_key_and_time(self.key, self.time)
        key, time = self.key[order], self.time[order]
        ties = (key[1:] == key[:-1]) & (time[1:] == time[:-1])
        if any_true(ties) and self.columns.num_columns:
            tied = np.flatnonzero(np.append(ties, False) | np.append(False, ties))
            run = np.cumsum(~np.append(False, ties)[tied])
            chosen = order[tied]
            ranks = self._ranks(chosen, first)
            if not is_sorted(run, *ranks):  # what comes from chunks is
                order[tied] = chosen[np.lexsort((*reversed(ranks), run))]
        return order

    def _ranks(self, chosen: Int64Array, first: str | None) -> list[Array]:
        ranks: list[Array] = []
        bits: list[Array] = []  # of floating numbers, looked at last: the two zeros are equal, and not the same
        names = self.columns.schema.names
        for name in sorted(names, key=lambda name: name != first):
            part = self.columns.column(name).take(pa.array(chosen))
            if part.null_count:
                ranks.append(np.asarray(part.is_valid()))
            if values.is_fixed(part.type):
                ranks.append(values.fixed_order_keys(part))
            elif values.is_ranked(part.type):
                ranks.append(values.ranked(part)[0])
            elif pa.types.is_nested(part.type):  # these have no order, but what is written of them has
                ranks.append(np.unique([repr(value) for value in part.to_pylist()], return_inverse=True)[1])
            if pa.types.is_floating(part.type):
                bits.append(values.numbers(part).view(np.int64))
        return ranks + bits

    @property
    def membership(self) -> UInt64Array:
        """Which families count each tuple."""
        return np.asarray(self.columns.column(MEMBERSHIP)).astype(np.uint64)

    def with_membership(self, membership: UInt64Array) -> Tuples:
        at = self.columns.schema.get_field_index(MEMBERSHIP)
        kind = self.columns.schema.field(at).type
        columns = [*self.columns.columns[:at], pa.array(membership).cast(kind), *self.columns.columns[at + 1 :]]
        return Tuples(self.key, self.time, pa.record_batch(columns, schema=self.columns.schema))

    def of_family(self, family: int) -> BoolArray:
        """Which tuples a family counts."""
        return np.asarray(self.membership >> np.uint64(family) & np.uint64(1) == 1)

    def without(self, family: int, dropped: Int64Array) -> Tuples:
        """The same tuples, these of them not counted by the family."""
        membership = self.membership
        membership[dropped] &= ~np.uint64(1 << family)
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
        # Key, time and position in one integer: to sort integers is several times as fast as to sort by them.
        places = key * span + (time - first)
        return np.sort((places << bits) | np.arange(len(key))) & ((1 << bits) - 1)
    order = np.argsort(time, kind="stable")
    return order[by_code(key[order])]


def by_code(codes: Int64Array) -> Int64Array:
    """The stable order of small non-negative integers: sixteen bits at a time, which NumPy sorts by counting."""
    order = np.argsort(codes.astype(np.uint16), kind="stable")
    shift = 16
    largest = int(codes.max(initial=0))
    while largest >> shift:
        digits = (codes >> shift).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
        shift += 16
    return order
