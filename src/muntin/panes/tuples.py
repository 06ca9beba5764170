"""Tuples that are kept as they are: with the code of their key, their time, and the columns that the query reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from muntin.aggregates import values
from muntin.arrays import Array, BoolArray, Int64Array


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
        if chosen.dtype == bool and chosen.all():
            return self
        indices = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
        columns = self.columns.take(pa.array(indices)) if self.columns.num_columns else self.columns
        return Tuples(self.key[indices], self.time[indices], columns)

    def recoded(self, codes: Int64Array) -> Tuples:
        """The same tuples, with `codes[key]` for every key."""
        return Tuples(codes[self.key], self.time, self.columns)

    def in_order(self) -> Tuples:
        """By key, then by time; equal times by the values of the columns, in the order of the columns.

        The tie-break is fixed by the tuples alone: it does not depend on when or in which batch they came.
        """
        order = by_key_and_time(self.key, self.time)
        key, time = self.key[order], self.time[order]
        ties = (key[1:] == key[:-1]) & (time[1:] == time[:-1])
        if ties.any() and self.columns.num_columns:
            tied = np.flatnonzero(np.append(ties, False) | np.append(False, ties))
            run = np.cumsum(np.append(True, ~ties))[tied]
            chosen = order[tied]
            order[tied] = chosen[np.lexsort((*reversed(self._ranks(chosen)), run))]
        return self.take(order)

    def _ranks(self, chosen: Int64Array) -> list[Array]:
        ranks: list[Array] = []
        for column in self.columns.columns:
            part = column.take(pa.array(chosen))
            if part.null_count:
                ranks.append(np.asarray(part.is_valid()))
            if values.is_fixed(part.type):
                ranks.append(values.fixed_order_keys(part))
            elif values.is_ranked(part.type):
                ranks.append(values.ranked(part)[0])
        return ranks


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
    if not len(key):
        return np.zeros(0, dtype=np.int64)
    first = int(time.min())
    span = int(time.max()) - first + 1
    bits = len(key).bit_length()
    if (int(key.max()) + 1) * span < 1 << (62 - bits):
        # Key, time and position in one integer: to sort integers is several times as fast as to sort by them.
        return np.sort((key * span + (time - first) << bits) | np.arange(len(key))) & ((1 << bits) - 1)
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
