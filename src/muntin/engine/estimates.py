"""Estimates of windows: how each was answered, how far off that may be, from how many tuples; and the column `quality`.

Answers are a chain of links, and this is what they hand to each other beside the values. The column is rendered once,
when the last link is through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrays import Array, BoolArray, Float64Array, Int64Array, all_true, any_true
from muntin.engine.metrics import Metric
from muntin.partials import values
from muntin.partials.values import is_number, nan_as_null, of_type

MANY = 1 << 14
"""Up to so many windows, what is the same of all of them is kept at hand."""
EXACT, INCREMENTAL, APPROXIMATE = "exact", "incremental", "approximate"


def quality_type(outputs: Mapping[str, pa.DataType]) -> pa.StructType:
    """Intervals are there for numbers, and for lists of them."""
    sides = pa.struct([(name, _side(kind)) for name, kind in outputs.items() if _side(kind) is not None])
    fields = [("mode", pa.string()), ("error", pa.float64()), ("confidence", pa.float64())]
    fields += [("low", sides), ("high", sides)] if sides.num_fields else []
    return pa.struct([*fields, ("sampled", pa.int64()), ("size", pa.int64())])


def is_bounded(kind: pa.DataType) -> bool:
    """Whether answers of a type have intervals."""
    return _side(kind) is not None


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
class Estimates:
    """How good the answers of some windows are, window by window."""

    approximate: Int64Array
    """The positions of the approximate windows, in order."""
    exact_mode: str
    """The mode of all other windows."""
    error: Float64Array
    """Of the approximate windows: the largest error of their aggregates; NaN where one of them is unknown."""
    confidence: float
    sampled: Int64Array
    """How many tuples each window was answered from: all of them where it is exact."""
    size: Int64Array
    """How many tuples each window received."""
    low: dict[str, pa.Array | None] = field(default_factory=dict)
    high: dict[str, pa.Array | None] = field(default_factory=dict)
    """The intervals of estimated aggregates; None where none is known. Exact aggregates have no entry."""
    complete: set[str] = field(default_factory=set)
    """The estimated aggregates whose intervals cover exact windows, too: there both sides equal the answer."""

    @classmethod
    def all_exact(cls, size: Int64Array, mode: str) -> Estimates:
        return cls(np.zeros(0, dtype=np.int64), mode, np.zeros(0), 1.0, size, size)

    def may_be_off(self, error: Float64Array, windows: Int64Array | None = None) -> None:
        """Raise the errors to those of another aggregate, for some of the approximate windows or for all of them.

        An unknown error, NaN, wins over every other.
        """
        if windows is None or len(windows) == len(self.approximate):
            self.error = np.maximum(self.error, error)
        else:
            places = np.searchsorted(self.approximate, windows)
            self.error[places] = np.maximum(self.error[places], error)

    def forget(self, name: str, windows: BoolArray) -> None:
        """Drop the interval of an aggregate in these approximate windows; their error becomes unknown."""
        for sides in (self.low, self.high):
            side = sides.get(name)
            if side is not None:
                sides[name] = picked(pa.nulls(len(windows), side.type), side, windows)
        self.may_be_off(np.full(int(windows.sum()), np.nan), np.flatnonzero(windows))

    def among(self, positions: Int64Array, size: Int64Array) -> Estimates:
        """The same windows at these positions among others, all of which are exact."""
        sampled = size.copy()
        sampled[positions] = self.sampled
        places = np.full(len(size), -1)
        places[positions] = np.arange(len(positions))
        spread = pa.array(places, mask=places < 0)
        low, high = (
            {name: None if side is None else side.take(spread) for name, side in sides.items()}
            for sides in (self.low, self.high)
        )
        return Estimates(
            positions[self.approximate],
            self.exact_mode,
            self.error,
            self.confidence,
            sampled,
            size,
            low,
            high,
            set(self.complete),
        )

    def sides(self, name: str, answers: pa.Array) -> tuple[pa.Array, pa.Array]:
        """The interval of an estimated aggregate in every window; both sides equal the answer where it is exact."""
        kind = _side(answers.type)
        assert kind is not None, "there are intervals for numbers, and for lists of them"
        approximate = marked(self.approximate, len(self.size))
        low, high = (
            picked(_bound(sides[name], len(self.size), kind), of_type(answers, kind), approximate)
            for sides in (self.low, self.high)
        )
        return low, high

    def column(self, fields: QualityFields, found: Mapping[str, pa.Array]) -> pa.Array:
        """The column `quality`; `found` are the answers."""
        at, length, count = self.approximate, len(self.size), len(self.approximate)
        if not count:
            mode, error, confidence = (_repeated(each, length) for each in (self.exact_mode, 0.0, 1.0))
        elif count == length:
            mode, confidence = (_repeated(each, length) for each in (APPROXIMATE, self.confidence))
            error = nan_as_null(self.error)
        else:
            mode = _modes(self.exact_mode, at, length)
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
                if len(self.approximate) < len(self.size) and each.name not in self.complete:
                    bound = picked(
                        bound, of_type(found[each.name], each.type), marked(self.approximate, len(self.size))
                    )
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


ESTIMATE_METRICS = (
    Metric(
        "exact_windows",
        "Windows of keys that had to be answered from all their tuples, in a query whose answers may be estimates.",
        counter=True,
    ),
    Metric("approximate_windows", "Those that were answered from a sample, or from what was kept.", counter=True),
)
"""What every feature reports that makes estimates."""
