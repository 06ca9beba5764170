"""The least tuple of a group in some order: min, max, first, last, argmin and argmax are all this one partial.

| aggregate | order, least first |
| --- | --- |
| `min(x)` | x |
| `max(x)` | x, inverted |
| `first(x)` | time, then x |
| `last(x)` | time inverted, then x inverted |
| `argmin(x, by)` | by, then time, then whether x is null, then x |
| `argmax(x, by)` | by inverted, then time, then whether x is null, then x |

The later places of an order are a fixed tie-break: the answer does not depend on the order of arrival.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from muntin.arrays import Array, BoolArray, Int64Array, Runs, State, namespace
from muntin.partials import values
from muntin.partials.groups import Groups
from muntin.partials.partial import Field, Partial
from muntin.partials.rows import Rows

_LARGEST = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Place:
    """One place in the order: a column's order key, or the event time (`column` None), perhaps inverted."""

    column: str | None
    inverted: bool = False
    ranked: bool = False
    """Whether the column's order keys are ranks in a dictionary."""
    nullness: bool = False
    """Whether the place compares nullness (1 if the column is null, else 0) instead of the value."""


@dataclass(frozen=True)
class Least(Partial):
    """Field 0 is 1 if there is no tuple, else 0; the other fields are the order keys of the least tuple.

    A tuple counts if none of its columns is null, except those whose nullness is a place in the order.
    """

    places: tuple[Place, ...]

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(place.column for place in self.places if place.column is not None))

    @property
    def required(self) -> tuple[str, ...]:
        optional = {place.column for place in self.places if place.nullness}
        return tuple(column for column in self.inputs if column not in optional)

    @property
    def fields(self) -> tuple[Field, ...]:
        order_keys = (
            Field("int64", dictionary=place.column if place.ranked else None, inverted=place.inverted)
            for place in self.places
        )
        return (Field("uint8"), *order_keys)

    def lift(self, rows: Rows) -> State:
        groups = rows.grouped(self.required, self.where)
        absent = (groups.sizes == 0).astype(np.uint8)
        if len(self.places) == 1:
            return (
                absent,
                _without_rank(_best(self.places[0], self.required, self.where, rows), absent, self.places[0]),
            )
        group, *keys = rows.select(self.required, self.where, *(_keys(place, rows) for place in self.places))
        least = []
        for index, place in enumerate(self.places):
            signed = ~keys[index] if place.inverted else keys[index]
            best = groups.least(signed)
            least.append(_without_rank(best, absent, place))
            if index + 1 < len(self.places):  # only tuples that tie so far are compared by the next place
                ties = np.flatnonzero(signed == groups.repeated(best))
                group, *keys = (column[ties] for column in (group, *keys))
                groups = Groups(group, rows.group_count)
        return (absent, *least)

    def combine(self, left: State, right: State) -> State:
        take_right = less(right, left)
        xp = namespace(take_right)
        return tuple(xp.where(take_right, b, a) for a, b in zip(left, right, strict=True))

    def reduce(self, state: State, runs: Runs) -> State:
        if len(self.places) > 1:
            return super().reduce(state, runs)
        # One place: with absent partials replaced by the largest key, the run's least key is a plain minimum.
        (absent, key), runs = runs.gathered(state)
        best = runs.least(np.where(absent == 1, _LARGEST, key))
        all_absent = runs.least(absent)
        return (all_absent, np.where(all_absent == 1, ~np.int64(0) if self.places[0].inverted else 0, best))


def _best(place: Place, columns: tuple[str, ...], where: str | None, rows: Rows) -> Int64Array:
    """The least order key of each group's rows that count, complemented if the place is inverted."""
    groups = rows.grouped(columns, where)
    if place.column is not None and not place.nullness and pa.types.is_floating(rows.array(place.column).type):
        numbers = rows.counting(columns, where, rows.numbers(place.column))  # fewer passes than over the order keys
        keys = values.float_order_keys(groups.greatest(numbers) if place.inverted else groups.least(numbers))
    else:
        ordered = rows.counting(columns, where, _keys(place, rows))
        keys = groups.greatest(ordered) if place.inverted else groups.least(ordered)
    return ~keys if place.inverted else keys


def _without_rank(best: Int64Array, absent: Array, place: Place) -> Int64Array:
    """Groups without a tuple get rank 0, which every dictionary has, so that they can be ranked again."""
    best[absent == 1] = ~np.int64(0) if place.inverted else 0
    return best


def _keys(place: Place, rows: Rows) -> Int64Array:
    if place.column is None:
        return rows.times
    if place.nullness:
        return np.asarray(rows.array(place.column).is_null()).astype(np.int64)
    return rows.order_keys(place.column)


def less(left: State, right: State) -> BoolArray:
    """Whether `left` comes before `right`, comparing field by field."""
    before: BoolArray = left[0] < right[0]
    equal = left[0] == right[0]
    for a, b in zip(left[1:], right[1:], strict=True):
        before |= equal & (a < b)
        equal &= a == b
    return before


@dataclass(frozen=True)
class LeastCount(Partial):
    """The least value (the greatest, if inverted) and the number of tuples that have it."""

    place: Place

    @property
    def inputs(self) -> tuple[str, ...]:
        assert self.place.column is not None, "a value is counted, not a time"
        return (self.place.column,)

    @property
    def fields(self) -> tuple[Field, ...]:
        dictionary = self.place.column if self.place.ranked else None
        return (Field("int64", dictionary=dictionary, inverted=self.place.inverted), Field("int64"))

    def lift(self, rows: Rows) -> State:
        groups = rows.grouped(self.inputs, self.where)
        key = rows.counting(self.inputs, self.where, rows.order_keys(self.inputs[0]))
        signed = ~key if self.place.inverted else key
        best = groups.least(signed)
        count = groups.where(signed == groups.repeated(best)).sizes
        best[count == 0] = ~np.int64(0) if self.place.inverted else 0
        return (best, count)

    def combine(self, left: State, right: State) -> State:
        (key_left, count_left), (key_right, count_right) = left, right
        take_right = (count_right > 0) & ((count_left == 0) | (key_right < key_left))
        take_both = (count_left > 0) & (count_right > 0) & (key_left == key_right)
        xp = namespace(key_left)
        count: Array = xp.where(take_right, count_right, count_left) + xp.where(take_both, count_right, 0)
        return (xp.where(take_right, key_right, key_left), count)
