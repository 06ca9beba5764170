"""The column `quality`: in which way a window was answered, how far off that may be, and from how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.aggregates import values
from muntin.aggregates.values import is_number, nan_as_null, of_type
from muntin.arrays import Array, BoolArray, Float64Array, Int64Array, all_true, any_true
from muntin.sampling.estimated import Estimate

MANY = 1 << 14
"""Up to so many windows, what is the same of all of them is kept at hand."""
EXACT, INCREMENTAL, APPROXIMATE = "exact", "incremental", "approximate"


@dataclass(frozen=True)
class Judged:
    """Estimates for all windows, and what is to be thought of them."""

    estimates: Mapping[str, Estimate]
    error: Float64Array
    """Of the window that each answer belongs to: the groups' errors combined, and the worst of the aggregates."""
    good: BoolArray
    """Whether that is within what the user allows."""
    sampled: Int64Array
    approximate: BoolArray
    """Whether it is good, and not all there is."""


def quality_type(outputs: Mapping[str, pa.DataType]) -> pa.StructType:
    """Intervals are there for numbers, and for lists of them."""
    sides = pa.struct([(name, _side(kind)) for name, kind in outputs.items() if _side(kind) is not None])
    fields = [("mode", pa.string()), ("error", pa.float64()), ("confidence", pa.float64())]
    fields += [("low", sides), ("high", sides)] if sides.num_fields else []
    return pa.struct([*fields, ("sampled", pa.int64()), ("size", pa.int64())])


def _side(kind: pa.DataType) -> pa.DataType | None:
    if values.is_numeric(kind):
        return pa.float64()
    if pa.types.is_list(kind) and values.is_number(kind.value_type):
        return pa.list_(pa.float64())
    return None


@dataclass(frozen=True)
class QualityFields:
    """The fields of the column and of its intervals, at hand: to ask a type for them takes as long as to fill them."""

    of_column: tuple[pa.Field, ...]
    of_sides: tuple[pa.Field, ...]

    @classmethod
    def of(cls, kind: pa.StructType) -> QualityFields:
        sides = next((each.type for each in kind if each.name == "low"), ())
        return cls(tuple(kind), tuple(sides))


@dataclass(frozen=True)
class Told:
    """How good answers are, window by window."""

    approximate: BoolArray
    exactly: str
    """The mode of the others."""
    error: Float64Array
    """Of those that are approximate; NaN where nobody can tell."""
    confidence: float
    sampled: Int64Array
    size: Int64Array
    low: Mapping[str, pa.Array | None] = field(default_factory=dict)
    high: Mapping[str, pa.Array | None] = field(default_factory=dict)
    """The intervals of aggregates that are estimates, None where nobody can tell; the others are what they are."""
    complete: frozenset[str] = frozenset()
    """Those of them whose intervals are told of exact answers, too: there both sides are the answers."""

    @classmethod
    def all_exact(cls, size: Int64Array, mode: str) -> Told:
        return cls(np.zeros(len(size), dtype=bool), mode, np.zeros(len(size)), 1.0, size, size)

    @classmethod
    def from_samples(cls, size: Int64Array, judged: Judged, confidence: float) -> Told:
        low = {name: estimate.low for name, estimate in judged.estimates.items()}
        high = {name: estimate.high for name, estimate in judged.estimates.items()}
        return cls(judged.approximate, EXACT, judged.error, confidence, judged.sampled, size, low, high)

    def column(self, fields: QualityFields, found: Mapping[str, pa.Array]) -> pa.Array:
        """The column `quality`; `found` are the answers."""
        at, length = np.flatnonzero(self.approximate), len(self.size)
        size, count = pa.array(self.size), len(at)
        if not count:
            mode, error, confidence = (_repeated(each, length) for each in (self.exactly, 0.0, 1.0))
            sampled = size
        elif count == length:
            mode, confidence = (_repeated(each, length) for each in (APPROXIMATE, self.confidence))
            error, sampled = nan_as_null(self.error), pa.array(self.sampled)
        else:
            mode = _modes(self.exactly, self.approximate, at)
            error = nan_as_null(_with(np.zeros(length), at, self.error[at]))
            confidence = pa.array(_with(np.ones(length), at, self.confidence))
            sampled = pa.array(_with(self.size.copy(), at, self.sampled[at]))
        columns = {"mode": mode, "error": error, "confidence": confidence, "sampled": sampled, "size": size}
        if fields.of_sides:
            columns["low"] = self._side(self.low, fields.of_sides, found, count)
            # Where all are exact, both sides are the answers.
            columns["high"] = self._side(self.high, fields.of_sides, found, count) if count else columns["low"]
        return pa.StructArray.from_arrays([columns[each.name] for each in fields.of_column], fields=fields.of_column)

    def _side(
        self,
        bounds: Mapping[str, pa.Array | None],
        fields: Sequence[pa.Field],
        found: Mapping[str, pa.Array],
        approximate: int,
    ) -> pa.Array:
        """One side of all intervals; that of an exact answer is the answer."""
        columns = []
        for each in fields:
            if each.name in bounds:
                bound = _bound(bounds[each.name], len(self.size), each.type)
                if approximate < len(self.size) and each.name not in self.complete:
                    bound = picked(bound, of_type(found[each.name], each.type), self.approximate)
                columns.append(bound)
            else:
                columns.append(of_type(found[each.name], each.type))
        return pa.StructArray.from_arrays(columns, fields=fields)


def _repeated(value: str | float, times: int) -> pa.Array:
    """As `pa.repeat`. The same few come again and again, and to make them takes as long as all else that is told."""
    if times > MANY:
        return pa.repeat(value, times)
    return _longer(value, max(times - 1, 0).bit_length()).slice(0, times)


@lru_cache(maxsize=128)
def _longer(value: str | float, bits: int) -> pa.Array:
    return pa.repeat(value, 1 << bits)


def _modes(exactly: str, approximate: BoolArray, at: Int64Array) -> pa.Array:
    """Approximate there, and exact elsewhere."""
    length = len(approximate)
    if len(exactly) != len(APPROXIMATE) or length > MANY:
        return picked(_repeated(APPROXIMATE, length), _repeated(exactly, length), approximate)
    # Both words are of eleven letters: so one is written over the other, which Arrow takes twice as long for.
    word, offsets = np.dtype((np.void, len(exactly))), _word_ends(len(exactly))
    words = np.frombuffer(_longer(exactly, MANY.bit_length() - 1).buffers()[2], word)[:length].copy()
    words[at] = np.frombuffer(APPROXIMATE.encode(), word)
    return pa.StringArray.from_buffers(length, offsets, pa.py_buffer(words))


@lru_cache(maxsize=1)
def _word_ends(letters: int) -> pa.Buffer:
    return pa.py_buffer(np.arange(0, (MANY + 1) * letters, letters, dtype=np.int32))


def _with(values: Array, at: Int64Array, others: Array | float) -> Array:
    """With other values at some places, in place."""
    values[at] = others
    return values


def _bound(bound: pa.Array | None, length: int, kind: pa.DataType) -> pa.Array:
    """A side of an interval; where nothing is known of it, it has no type of its own."""
    return pa.nulls(length, kind) if bound is None or bound.null_count == length else of_type(bound, kind)


def picked(first: pa.Array, second: pa.Array, where: BoolArray) -> pa.Array:
    """The first where the mask says so, else the second."""
    if all_true(where):
        return first
    if not any_true(where):
        return second
    return pc.if_else(pa.array(where), first, second)


def patched(array: pa.Array, at: Int64Array, values: pa.Array) -> pa.Array:
    """The array with other values at some places, which are in order."""
    if len(at) == len(array):
        return values
    if is_number(array.type) and not array.null_count and not values.null_count:
        numbers = np.array(array)
        numbers[at] = np.asarray(values)
        return pa.array(numbers, array.type)
    where = np.zeros(len(array), dtype=bool)
    where[at] = True
    return pc.replace_with_mask(array, pa.array(where), values)
