"""Estimates of windows: how each was answered, its error, and the number of tuples; and the column `quality`.

The links of the chain of answers pass them on with the values. The column is rendered once, after the last link.
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
"""Up to this many windows, constant columns are cached."""
EXACT, INCREMENTAL, APPROXIMATE = "exact", "incremental", "approximate"
SIZE_ESTIMATED = "size_estimated"
"""The field that only queries have that do not know how many tuples a window received."""


def quality_type(outputs: Mapping[str, pa.DataType], size_estimated: bool = False) -> pa.StructType:
    """The type of the column. Numbers and lists of numbers have intervals."""
    sides = pa.struct([(name, _side(kind)) for name, kind in outputs.items() if _side(kind) is not None])
    fields = [("mode", pa.string()), ("error", pa.float64()), ("confidence", pa.float64())]
    fields += [("low", sides), ("high", sides)] if sides.num_fields else []
    fields += [("sampled", pa.int64()), ("size", pa.int64())]
    return pa.struct([*fields, (SIZE_ESTIMATED, pa.bool_())] if size_estimated else fields)


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
    """The cached fields of the column and of its intervals: reading them from the type is as slow as filling them."""

    of_column: tuple[pa.Field, ...]
    of_sides: tuple[pa.Field, ...]

    @classmethod
    def of(cls, kind: pa.StructType) -> QualityFields:
        sides = next((column.type for column in kind if column.name == "low"), ())
        return cls(tuple(kind), tuple(sides))


@dataclass
class Estimates:
    """The quality of answers, window by window."""

    approximate: Int64Array
    """The positions of the approximate windows, in order."""
    exact_mode: str
    """The mode of all other windows."""
    error: Float64Array
    """The error of each approximate window: the largest of its aggregates; NaN where one is unknown."""
    confidence: float
    sampled: Int64Array
    """How many tuples each window was answered from: all tuples where it is exact."""
    size: Int64Array
    """How many tuples each window received; estimates where they were shed before anybody counted them."""
    low: dict[str, pa.Array | None] = field(default_factory=dict)
    high: dict[str, pa.Array | None] = field(default_factory=dict)
    """The intervals of estimated aggregates; None for an unknown interval. Exact aggregates have no entry."""
    complete: set[str] = field(default_factory=set)
    """The estimated aggregates whose intervals include exact windows, where both sides equal the answer."""

    _of_windows: pa.Array | None = None

    @classmethod
    def all_exact(cls, size: Int64Array, mode: str) -> Estimates:
        return cls(np.zeros(0, dtype=np.int64), mode, np.zeros(0), 1.0, size, size)

    def may_be_off(self, error: Float64Array, windows: Int64Array | None = None) -> None:
        """Raise the errors of some or all approximate windows to those of another aggregate. NaN (unknown) wins."""
        if windows is None or len(windows) == len(self.approximate):
            self.error = np.maximum(self.error, error)
        else:
            positions = np.searchsorted(self.approximate, windows)
            self.error[positions] = np.maximum(self.error[positions], error)

    def forget(self, name: str, windows: BoolArray) -> None:
        """Drop the interval of an aggregate in these approximate windows; their error becomes unknown."""
        for sides in (self.low, self.high):
            side = sides.get(name)
            if side is not None:
                sides[name] = picked(pa.nulls(len(windows), side.type), side, windows)
        self.may_be_off(np.full(int(windows.sum()), np.nan), np.flatnonzero(windows))

    def among(self, positions: Int64Array, size: Int64Array) -> Estimates:
        """The same estimates at these positions among other windows, which are exact."""
        sampled = size.copy()
        sampled[positions] = self.sampled
        sources = np.full(len(size), -1)
        sources[positions] = np.arange(len(positions))
        indices = pa.array(sources, mask=sources < 0)
        low, high = (
            {name: None if side is None else side.take(indices) for name, side in sides.items()}
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

    def column_of_rows(self, fields: QualityFields, window_of_row: Int64Array) -> pa.Array:
        """The column `quality` for rows that a function returned; it is made once for all pieces of the windows."""
        if self._of_windows is None:
            self._of_windows = self.column(fields, {})
        return self._of_windows.take(pa.array(window_of_row))

    def column(self, fields: QualityFields, answers: Mapping[str, pa.Array]) -> pa.Array:
        """The column `quality`."""
        approximate, length, count = self.approximate, len(self.size), len(self.approximate)
        if not count:
            mode, error, confidence = (_repeated(value, length) for value in (self.exact_mode, 0.0, 1.0))
        elif count == length:
            mode, confidence = (_repeated(value, length) for value in (APPROXIMATE, self.confidence))
            error = nan_as_null(self.error)
        else:
            mode = _modes(self.exact_mode, approximate, length)
            error = placed(np.zeros(length), approximate, self.error)
            confidence = pa.array(written(np.ones(length), approximate, self.confidence))
        sampled, size = pa.array(self.sampled), pa.array(self.size)
        columns = {"mode": mode, "error": error, "confidence": confidence, "sampled": sampled, "size": size}
        if fields.of_column[-1].name == SIZE_ESTIMATED:
            columns[SIZE_ESTIMATED] = pa.array(marked(approximate, length))
        if fields.of_sides:
            columns["low"] = self._side(self.low, fields.of_sides, answers)
            # Where all windows are exact, both sides are the answers.
            columns["high"] = self._side(self.high, fields.of_sides, answers) if count else columns["low"]
        return pa.StructArray.from_arrays(
            [columns[column.name] for column in fields.of_column], fields=fields.of_column
        )

    def _side(
        self,
        bounds: Mapping[str, pa.Array | None],
        fields: Sequence[pa.Field],
        answers: Mapping[str, pa.Array],
    ) -> pa.Array:
        """One side of all intervals. For exact answers it is the answer."""
        columns = []
        for side in fields:
            if side.name in bounds:
                bound = _bound(bounds[side.name], len(self.size), side.type)
                if len(self.approximate) < len(self.size) and side.name not in self.complete:
                    is_approximate = marked(self.approximate, len(self.size))
                    bound = picked(bound, of_type(answers[side.name], side.type), is_approximate)
                columns.append(bound)
            else:
                columns.append(of_type(answers[side.name], side.type))
        return pa.StructArray.from_arrays(columns, fields=fields)


def _repeated(value: str | float, times: int) -> pa.Array:
    """Like `pa.repeat`, but cached: the same few values recur, and making them is as slow as the rest of the column."""
    if times > MANY:
        return pa.repeat(value, times)
    return _longer(value, max(times - 1, 0).bit_length()).slice(0, times)


@lru_cache(maxsize=128)
def _longer(value: str | float, bits: int) -> pa.Array:
    return pa.repeat(value, 1 << bits)


def _modes(exact_mode: str, approximate: Int64Array, length: int) -> pa.Array:
    """The mode of every window."""
    letters = len(APPROXIMATE)
    if len(exact_mode) != letters or length > MANY:
        return picked(_repeated(APPROXIMATE, length), _repeated(exact_mode, length), marked(approximate, length))
    # Both words have eleven letters, so one can be written over the other: twice as fast as Arrow.
    words = _all_letters(exact_mode)[: length * letters].copy()
    words.view(_WORD.dtype)[approximate] = _WORD
    return pa.StringArray.from_buffers(length, _word_ends(letters), pa.py_buffer(words))


_WORD = np.frombuffer(APPROXIMATE.encode(), np.dtype((np.void, len(APPROXIMATE))))


@lru_cache(maxsize=2)
def _all_letters(word: str) -> Array:
    """The letters of the word, repeated for `MANY` windows."""
    return np.frombuffer(word.encode() * MANY, np.uint8)


@lru_cache(maxsize=1)
def _word_ends(letters: int) -> pa.Buffer:
    return pa.py_buffer(np.arange(0, (MANY + 1) * letters, letters, dtype=np.int32))


def written(values: Array, positions: Int64Array, others: Array | float) -> Array:
    """Write other values at some positions, in place."""
    values[positions] = others
    return values


def _bound(bound: pa.Array | None, length: int, kind: pa.DataType) -> pa.Array:
    """A side of an interval with its type; nulls where it is unknown."""
    return pa.nulls(length, kind) if bound is None or bound.null_count == length else of_type(bound, kind)


def picked(first: pa.Array, second: pa.Array, where: BoolArray) -> pa.Array:
    """The first where the mask is true, else the second."""
    if all_true(where):
        return first
    if not any_true(where):
        return second
    return pc.if_else(pa.array(where), first, second)


def marked(positions: Int64Array, length: int) -> BoolArray:
    """A mask that is true at these positions."""
    mask = np.zeros(length, dtype=bool)
    mask[positions] = True
    return mask


def placed(numbers: Float64Array, positions: Int64Array, others: Float64Array) -> pa.Array:
    """Write other numbers at some positions, in place; NaN becomes null there."""
    numbers[positions] = others
    unknown = np.isnan(others)
    return values.masked(numbers, marked(positions[unknown], len(numbers))) if any_true(unknown) else pa.array(numbers)


def patched(array: pa.Array, positions: Int64Array, others: pa.Array) -> pa.Array:
    """The array with other values at some positions, which are in order."""
    if len(positions) == len(array):
        return others
    if is_number(array.type) and not array.null_count and not others.null_count:
        numbers = np.array(array)
        numbers[positions] = np.asarray(others)
        return pa.array(numbers, array.type)
    return pc.replace_with_mask(array, pa.array(marked(positions, len(array))), others)


ESTIMATE_METRICS = (
    Metric(
        "exact_windows",
        "Windows of keys that had to be answered from all their tuples, in a query whose answers may be estimates.",
        counter=True,
    ),
    Metric("approximate_windows", "Those that were answered from a sample, or from what was kept.", counter=True),
)
"""The metrics of every feature that makes estimates."""
