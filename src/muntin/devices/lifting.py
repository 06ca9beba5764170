"""The kernels of the pane stage on a device: lift, sort by key, and reduce by key (SPRINGALD, section V-A).

Everything up to the sort is only started, and its sizes are known beforehand: a task can read its next rows while the
device works. Rows that do not count, as they are null or filtered, stay where they are, with a neutral value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from muntin.arrays import Array, Int64Array
from muntin.devices.shim import Arrays
from muntin.partials.least import Least, LeastCount, Place
from muntin.partials.partial import HALF, LOW, Count, FloatSum, IntegerSum, Moments, Partial, carried
from muntin.partials.rows import Rows

DeviceState: TypeAlias = tuple[Any, ...]
"""Partials of one aggregate as arrays of the device."""
MOST = 1 << 62
"""Codes times panes, and the microseconds between the first and the last row, must be fewer: they are one integer."""

_LARGEST = np.iinfo(np.int64).max


class SortedRows:
    """The rows of a batch on the device, sorted by (key, pane)."""

    def __init__(
        self,
        arrays: Arrays,
        rows: Rows,
        places: Int64Array,
        codes: Int64Array | None,
        base: int,
        length: int,
        pane_count: int,
        *,
        in_order: bool = False,
    ) -> None:
        """`codes` are the keys of the rows; None for a single key. Pane i is the places from `base + i * length` on.

        If they are `in_order`, nothing is sorted.
        """
        self._arrays, self._xp, self._rows = arrays, arrays.xp, rows
        self._uploaded: dict[tuple[str, str], Any] = {}
        self._masks: dict[tuple[tuple[str, ...], str | None], Any] = {}
        xp = self._xp
        pair = (arrays.upload(places) - base) // length
        if codes is not None:
            pair = arrays.upload(codes) * pane_count + pair
        self._order = None if in_order else xp.argsort(pair, stable=True)
        self._pair = self._ordered(pair)
        begins = self._pair[1:] != self._pair[:-1]
        self.numbers = xp.concat([xp.zeros_like(self._pair[:1]), xp.cumulative_sum(xp.astype(begins, xp.int64))])
        """The group of each row, in sorted order."""

    def _ordered(self, values: Any) -> Any:
        return values if self._order is None else self._xp.take(values, self._order)

    def count(self) -> int:
        """The number of groups. This waits for the device; reductions can be started from then on."""
        from array_api_compat import device

        xp, count = self._xp, int(self.numbers[-1]) + 1
        groups = xp.arange(count + 1, dtype=xp.int64, device=device(self.numbers))
        self.edges = xp.searchsorted(self.numbers, groups)
        return count

    def pairs(self) -> Int64Array:
        """What each group is of: `key * pane_count + pane`."""
        return self._arrays.download(self._xp.take(self._pair, self.edges[:-1]))

    def groups(self) -> Int64Array:
        """The group of each row, in the order of the rows."""
        groups = self.numbers
        if self._order is not None:
            groups = self._arrays.put(self._xp.zeros_like(groups), self._order, groups)
        return self._arrays.download(groups)

    def sorted(self, kind: str, column: str, values: Callable[[], Array]) -> Any:
        """Values of the rows, in sorted order. They are sent once."""
        if (kind, column) not in self._uploaded:
            self._uploaded[kind, column] = self._ordered(self._arrays.upload(values()))
        return self._uploaded[kind, column]

    def numbers_of(self, column: str) -> Any:
        return self.sorted("numbers", column, lambda: self._rows.numbers(column))

    def order_keys(self, column: str) -> Any:
        if not pa.types.is_floating(self._rows.array(column).type):
            return self.sorted("keys", column, lambda: self._rows.order_keys(column))
        xp, numbers = self._xp, self.numbers_of(column)  # as `values.float_order_keys`
        bits = self._arrays.bits(xp.where(xp.isnan(numbers), xp.asarray(np.nan, dtype=xp.float64), numbers + 0.0))
        return xp.where(bits < 0, bits ^ _LARGEST, bits)

    def keys_of(self, place: Place) -> Any:
        """The order keys of a place."""
        column = place.column
        if column is None:
            keys = self.sorted("times", "", lambda: self._rows.times)
        elif place.nullness:
            keys = self.sorted("null", column, lambda: np.asarray(self._rows.array(column).is_null()).astype(np.int64))
        else:
            keys = self.order_keys(column)
        return ~keys if place.inverted else keys

    def mask(self, columns: tuple[str, ...], where: str | None) -> Any:
        """The rows that count; None if all of them do."""
        if (columns, where) not in self._masks:
            mask = self._rows.mask(columns, where)
            name = f"{columns} {where}"
            self._masks[columns, where] = None if mask is None else self.sorted("mask", name, lambda: mask)
        return self._masks[columns, where]

    def sums(self, values: Any, mask: Any) -> Any:
        """The sums of the rows that count."""
        if mask is not None:
            values = self._xp.where(mask, values, self._xp.zeros_like(values))
        return self._arrays.sums(values, self.numbers, self.edges)

    def least(self, values: Any, mask: Any) -> Any:
        if mask is not None:
            values = self._xp.where(mask, values, self._xp.full_like(values, _LARGEST))
        return self._arrays.least(values, self.numbers, self.edges)

    def sizes(self, mask: Any) -> Any:
        """How many rows of each group count."""
        if mask is None:
            return self._xp.astype(self.edges[1:] - self.edges[:-1], self._xp.int64)
        return self._arrays.sums(self._xp.astype(mask, self._xp.int64), self.numbers, self.edges)

    def repeated(self, values: Any) -> Any:
        """For each row, the value of its group."""
        return self._xp.take(values, self.numbers)

    def lifted(self, partial: Partial) -> DeviceState:
        """One partial per group. `on_device` says which partials have a kernel."""
        with np.errstate(all="ignore"):  # inf - inf is NaN; only NumPy's own arrays warn
            return _KERNELS[type(partial)](self, partial, self._xp)

    def downloaded(self, state: DeviceState, partial: Partial) -> tuple[Array, ...]:
        """A state as arrays of NumPy, in the types of its fields."""
        columns = zip(state, partial.fields, strict=True)
        return tuple(self._arrays.download(column).astype(field.dtype, copy=False) for column, field in columns)


def _count(rows: SortedRows, partial: Count, xp: Any) -> DeviceState:
    return (rows.sizes(rows.mask(partial.inputs, partial.where)),)


def _float_sum(rows: SortedRows, partial: FloatSum, xp: Any) -> DeviceState:
    numbers = rows.numbers_of(partial.column)
    return (rows.sums(numbers, rows.mask(partial.inputs, partial.where)) + 0.0,)  # never -0.0


def _integer_sum(rows: SortedRows, partial: IntegerSum, xp: Any) -> DeviceState:
    integers, mask = rows.order_keys(partial.column), rows.mask(partial.inputs, partial.where)
    return carried(rows.sums(integers >> HALF, mask), rows.sums(integers & LOW, mask))


def _moments(rows: SortedRows, partial: Moments, xp: Any) -> DeviceState:
    numbers, mask = rows.numbers_of(partial.column), rows.mask(partial.inputs, partial.where)
    count = xp.astype(rows.sizes(mask), xp.float64)
    mean = (rows.sums(numbers, mask) + 0.0) / xp.maximum(count, xp.ones_like(count))
    deviations = numbers - rows.repeated(mean)
    return (count, mean, rows.sums(deviations * deviations, mask))


def _least(rows: SortedRows, partial: Least, xp: Any) -> DeviceState:
    mask = rows.mask(partial.required, partial.where)
    absent = rows.sizes(mask) == 0
    least = []
    for index, place in enumerate(partial.places):
        keys = rows.keys_of(place)
        best = rows.least(keys, mask)
        neutral = xp.full_like(best, -1 if place.inverted else 0)
        least.append(xp.where(absent, neutral, best))
        if index + 1 < len(partial.places):  # only rows that tie so far are compared by the next place
            ties = keys == rows.repeated(best)
            mask = ties if mask is None else mask & ties
    return (xp.astype(absent, xp.uint8), *least)


def _least_count(rows: SortedRows, partial: LeastCount, xp: Any) -> DeviceState:
    keys, mask = rows.keys_of(partial.place), rows.mask(partial.inputs, partial.where)
    best = rows.least(keys, mask)
    ties = keys == rows.repeated(best)
    count = rows.sizes(ties if mask is None else mask & ties)
    neutral = xp.full_like(best, -1 if partial.place.inverted else 0)
    return (xp.where(count == 0, neutral, best), count)


_KERNELS: Mapping[type[Partial], Callable[[SortedRows, Any, Any], DeviceState]] = {
    Count: _count,
    FloatSum: _float_sum,
    IntegerSum: _integer_sum,
    Moments: _moments,
    Least: _least,
    LeastCount: _least_count,
}


def on_device(partial: Partial) -> bool:
    """Whether a partial has kernels for devices, in the pane stage and in the tree.

    Ranks of strings and decimals do not: they change with every new value, and the dictionaries are on the processor.
    """
    return type(partial) in _KERNELS and not any(field.dictionary is not None for field in partial.fields)
