"""The column `quality`: in which way a window was answered, how far off that may be, and from how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrays import Array, BoolArray, Float64Array, Int64Array, all_true, any_true
from muntin.features.sampling.estimated import Estimate
from muntin.partials import values
from muntin.partials.values import is_number, nan_as_null, of_type

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


@dataclass
class Told:
    """How good answers are, window by window, as far as it has been found out."""

    at: Int64Array
    """Which of them are approximate, in order."""
    exactly: str
    """The mode of the others."""
    error: Float64Array
    """Of those that are approximate: the largest of their aggregates' errors; NaN where nobody can tell one of them."""
    confidence: float
    sampled: Int64Array
    """Of how many tuples each is; those that are exact are of all."""
    size: Int64Array
    low: dict[str, pa.Array | None] = field(default_factory=dict)
    high: dict[str, pa.Array | None] = field(default_factory=dict)
    """The intervals of aggregates that are estimates, None where nobody can tell; the others are what they are."""
    complete: set[str] = field(default_factory=set)
    """Those of them whose intervals are told of exact answers, too: there both sides are the answers."""

    @classmethod
    def all_exact(cls, size: Int64Array, mode: str) -> Told:
        return cls(np.zeros(0, dtype=np.int64), mode, np.zeros(0), 1.0, size, size)

    @classmethod
    def from_samples(cls, size: Int64Array, judged: Judged, confidence: float) -> Told:
        low = {name: estimate.low for name, estimate in judged.estimates.items()}
        high = {name: estimate.high for name, estimate in judged.estimates.items()}
        at, sampled = np.flatnonzero(judged.approximate), judged.sampled
        if len(at) < len(size):
            sampled = np.where(judged.approximate, sampled, size)
        return cls(at, EXACT, judged.error[at], confidence, sampled, size, low, high)

    def may_be_off(self, error: Float64Array, windows: Int64Array | None = None) -> None:
        """Where the error of another aggregate is larger, that; it is of some of the approximate ones, or of all.

        One that nobody can tell, NaN, is larger than any other.
        """
        if windows is None or len(windows) == len(self.at):
            self.error = np.maximum(self.error, error)
        else:
            places = np.searchsorted(self.at, windows)
            self.error[places] = np.maximum(self.error[places], error)

    def forget(self, name: str, windows: BoolArray) -> None:
        """Of an aggregate, what is known of these approximate windows: it would be wrong."""
        for sides in (self.low, self.high):
            side = sides.get(name)
            if side is not None:
                sides[name] = picked(pa.nulls(len(windows), side.type), side, windows)
        self.may_be_off(np.full(int(windows.sum()), np.nan), np.flatnonzero(windows))

    def column(self, fields: QualityFields, found: Mapping[str, pa.Array]) -> pa.Array:
        """The column `quality`; `found` are the answers."""
        at, length, count = self.at, len(self.size), len(self.at)
        if not count:
            mode, error, confidence = (_repeated(each, length) for each in (self.exactly, 0.0, 1.0))
        elif count == length:
            mode, confidence = (_repeated(each, length) for each in (APPROXIMATE, self.confidence))
            error = nan_as_null(self.error)
        else:
            mode = _modes(self.exactly, at, length)
            error = placed(np.zeros(length), at, self.error)
            confidence = pa.array(written(np.ones(length), at, self.confidence))
        sampled, size = pa.array(self.sampled), pa.array(self.size)
        columns = {"mode": mode, "error": error, "confidence": confidence, "sampled": sampled, "size": size}
        if fields.of_sides:
            columns["low"] = self._side(self.low, fields.of_sides, found)
            # Where all are exact, both sides are the answers.
            columns["high"] = self._side(self.high, fields.of_sides, found) if count else columns["low"]
        return pa.StructArray.from_arrays([columns[each.name] for each in fields.of_column], fields=fields.of_column)

    def _side(
        self,
        bounds: Mapping[str, pa.Array | None],
        fields: Sequence[pa.Field],
        found: Mapping[str, pa.Array],
    ) -> pa.Array:
        """One side of all intervals; that of an exact answer is the answer."""
        columns = []
        for each in fields:
            if each.name in bounds:
                bound = _bound(bounds[each.name], len(self.size), each.type)
                if len(self.at) < len(self.size) and each.name not in self.complete:
                    bound = picked(bound, of_type(found[each.name], each.type), marked(self.at, len(self.size)))
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


def _modes(exactly: str, at: Int64Array, length: int) -> pa.Array:
    """Approximate there, and exact elsewhere."""
    letters = len(APPROXIMATE)
    if len(exactly) != letters or length > MANY:
        return picked(_repeated(APPROXIMATE, length), _repeated(exactly, length), marked(at, length))
    # Both words are of eleven letters: so one is written over the other, which Arrow takes twice as long for.
    words = _all_letters(exactly)[: length * letters].copy()
    words.view(_WORD.dtype)[at] = _WORD
    return pa.StringArray.from_buffers(length, _word_ends(letters), pa.py_buffer(words))


_WORD = np.frombuffer(APPROXIMATE.encode(), np.dtype((np.void, len(APPROXIMATE))))


@lru_cache(maxsize=2)
def _all_letters(word: str) -> Array:
    """Those of the word, as often as there may be windows."""
    return np.frombuffer(word.encode() * MANY, np.uint8)


@lru_cache(maxsize=1)
def _word_ends(letters: int) -> pa.Buffer:
    return pa.py_buffer(np.arange(0, (MANY + 1) * letters, letters, dtype=np.int32))


def written(values: Array, at: Int64Array, others: Array | float) -> Array:
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


def marked(at: Int64Array, length: int) -> BoolArray:
    """A mask of so many, with these places marked."""
    mask = np.zeros(length, dtype=bool)
    mask[at] = True
    return mask


def placed(numbers: Float64Array, at: Int64Array, others: Float64Array) -> pa.Array:
    """Numbers, and at some places others, null where those are NaN. The numbers are written over."""
    numbers[at] = others
    unknown = np.isnan(others)
    return values.masked(numbers, marked(at[unknown], len(numbers))) if any_true(unknown) else pa.array(numbers)


def patched(array: pa.Array, at: Int64Array, others: pa.Array) -> pa.Array:
    """The array with other values at some places, which are in order."""
    if len(at) == len(array):
        return others
    if is_number(array.type) and not array.null_count and not others.null_count:
        numbers = np.array(array)
        numbers[at] = np.asarray(others)
        return pa.array(numbers, array.type)
    return pc.replace_with_mask(array, pa.array(marked(at, len(array))), others)
