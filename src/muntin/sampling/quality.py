"""The column `quality`: in which way a window was answered, how far off that may be, and from how much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from muntin.aggregates import values
from muntin.arrays import BoolArray, Float64Array, Int64Array
from muntin.sampling.estimated import Estimate

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
    complete: BoolArray
    """Whether a good sample is all there is."""

    @property
    def approximate(self) -> BoolArray:
        return self.good & ~self.complete


def quality_type(outputs: Mapping[str, pa.DataType]) -> pa.StructType:
    """Intervals are there for numbers, and for lists of them."""
    sides = pa.struct([(name, _side(kind)) for name, kind in outputs.items() if _side(kind) is not None])
    fields = [("mode", pa.string()), ("error", pa.float64()), ("confidence", pa.float64())]
    fields += [("low", sides), ("high", sides)] if sides.num_fields else []
    return pa.struct([*fields, ("sampled", pa.int64()), ("size", pa.int64())])


def _side(kind: pa.DataType) -> pa.DataType | None:
    if values.is_number(kind):
        return pa.float64()
    if pa.types.is_list(kind) and values.is_number(kind.value_type):
        return pa.list_(pa.float64())
    return None


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
    low: Mapping[str, pa.Array] = field(default_factory=dict)
    high: Mapping[str, pa.Array] = field(default_factory=dict)
    """The intervals of aggregates that are estimates; the others are what they are."""

    @classmethod
    def all_exact(cls, size: Int64Array, mode: str) -> Told:
        return cls(np.zeros(len(size), dtype=bool), mode, np.zeros(len(size)), 1.0, size, size)

    @classmethod
    def from_samples(cls, size: Int64Array, judged: Judged, confidence: float) -> Told:
        sides: list[dict[str, pa.Array]] = []
        for side in ("low", "high"):
            bounds = {name: getattr(estimate, side) for name, estimate in judged.estimates.items()}
            unknown = pa.nulls(len(size), pa.float64())
            sides.append({name: unknown if bound is None else bound for name, bound in bounds.items()})
        return cls(judged.approximate, EXACT, judged.error, confidence, judged.sampled, size, *sides)

    def column(self, kind: pa.StructType, found: Mapping[str, pa.Array]) -> pa.Array:
        """The column `quality`; `found` are the answers."""
        approximate = self.approximate
        columns = {
            "mode": pa.array([self.exactly, APPROXIMATE]).take(pa.array(approximate.astype(np.int8))),
            "error": pa.array(np.where(approximate, self.error, 0.0), from_pandas=True),
            "confidence": pa.array(np.where(approximate, self.confidence, 1.0)),
            "sampled": pa.array(np.where(approximate, self.sampled, self.size)),
            "size": pa.array(self.size),
        }
        for side, estimates in (("low", self.low), ("high", self.high)):
            bounds = []
            for name, each in _sides(kind):
                exact, bound = of_type(found[name], each), estimates.get(name)
                bounds.append(exact if bound is None else picked(_bound(bound, each), exact, approximate))
            columns[side] = _struct_of(kind, side, bounds)
        return _struct(kind, columns)


def _bound(bound: pa.Array, kind: pa.DataType) -> pa.Array:
    """A side of an interval; nulls only, which have no type of their own, are of any."""
    return pa.nulls(len(bound), kind) if bound.null_count == len(bound) else of_type(bound, kind)


def _sides(kind: pa.StructType) -> list[tuple[str, pa.DataType]]:
    at = kind.get_field_index("low")
    return [] if at < 0 else [(field.name, field.type) for field in kind.field(at).type]


def _struct_of(kind: pa.StructType, side: str, columns: list[pa.Array]) -> pa.Array | None:
    if not columns:
        return None
    return pa.StructArray.from_arrays(columns, fields=list(kind.field(side).type))


def _struct(kind: pa.StructType, columns: Mapping[str, pa.Array | None]) -> pa.Array:
    return pa.StructArray.from_arrays([columns[field.name] for field in kind], fields=list(kind))


def of_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column if column.type == kind else column.cast(kind)


def picked(first: pa.Array, second: pa.Array, where: BoolArray) -> pa.Array:
    """The first where the mask says so, else the second."""
    if where.all():
        return first
    if not where.any():
        return second
    both = pa.concat_arrays([first, second])
    return both.take(pa.array(np.arange(len(where)) + np.where(where, 0, len(where))))
