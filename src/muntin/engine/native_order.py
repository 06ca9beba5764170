"""The order of a pane's tuples as one integer, whose least an ordinary aggregation finds.

`first`, `last`, `argmin` and `argmax` compare several things, one after the other. Spark has no fast aggregate for
that: it would sort all rows by their groups. Where all of them fit 64 bits, they are the digits of an integer, and its
minimum is the least tuple.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrays import BoolArray, Int64Array
from muntin.partials.least import Least, Place

_BITS = 64
_SHORT_DECIMAL = 9
"""Decimals of up to this many digits are converted fast enough."""


@dataclass(frozen=True)
class Digit:
    """One place of an order: a number in `[0, 2**bits)`. The first digit is less by half of that."""

    column: str | None
    """None for the time since the start of the pane."""
    bits: int
    shift: int
    """What is added to a value so that it is not negative."""
    scale: int = 0
    """A decimal is an integer after this many decimal places."""
    inverted: bool = False
    nullness: bool = False
    """Whether the digit is 1 if the column is null, and else 0."""
    optional: bool = False
    """Whether the column may be null: then the digit is 0."""

    @property
    def mask(self) -> int:
        return (1 << self.bits) - 1


def digits_of(partial: Least, types: Mapping[str, pa.DataType], length: int) -> tuple[Digit, ...] | None:
    """The digits of an order, over panes of a length; None if they do not fit an integer."""
    found = [_digit(partial, place, types, length) for place in partial.places]
    digits = [digit for digit in found if digit is not None]
    if len(digits) < len(found) or sum(digit.bits for digit in digits) > _BITS:
        return None
    return tuple(digits)


def _digit(partial: Least, place: Place, types: Mapping[str, pa.DataType], length: int) -> Digit | None:
    if place.column is None:
        return Digit(None, max((length - 1).bit_length(), 1), 0, inverted=place.inverted)
    if place.nullness:
        return Digit(place.column, 1, 0, inverted=place.inverted, nullness=True)
    size = _size(types[place.column])
    if size is None:
        return None
    bits, shift, scale = size
    return Digit(place.column, bits, shift, scale, place.inverted, optional=place.column not in partial.required)


def _size(kind: pa.DataType) -> tuple[int, int, int] | None:
    """The bits, the shift and the scale of a type."""
    if pa.types.is_boolean(kind):
        return 1, 0, 0
    if pa.types.is_signed_integer(kind) or pa.types.is_date32(kind):
        return kind.bit_width, 1 << (kind.bit_width - 1), 0
    if pa.types.is_decimal(kind) and kind.precision <= _SHORT_DECIMAL:
        bits = (2 * 10**kind.precision).bit_length()
        return bits, 1 << (bits - 1), kind.scale
    return None


def unpacked(
    packed: pa.Array, digits: Sequence[Digit], types: Mapping[str, pa.DataType], starts: Int64Array
) -> list[pa.Array]:
    """The values of each digit, null where there is no tuple: times and nullness as integers, others in their types."""
    missing = np.asarray(packed.is_null())
    rest = np.asarray(packed.fill_null(0)).astype(np.int64, copy=False)
    columns: list[pa.Array] = []
    for index, digit in reversed(list(enumerate(digits))):
        number = rest & digit.mask if index else rest + (1 << (digit.bits - 1))
        rest = rest >> digit.bits
        number = (digit.mask - number if digit.inverted else number) - digit.shift
        columns.append(_values(number, missing, digit, types, starts))
    return columns[::-1]


def _values(
    number: Int64Array, missing: BoolArray, digit: Digit, types: Mapping[str, pa.DataType], starts: Int64Array
) -> pa.Array:
    if digit.column is None:
        return pa.array(starts + number, mask=missing)
    kind = pa.int64() if digit.nullness else types[digit.column]
    if pa.types.is_decimal(kind):
        number = np.where(np.abs(number) < 10**kind.precision, number, 0)  # digits of nulls may be any
        halves = np.stack([number, number >> 63], axis=1)  # the lower and the upper 64 bits
        decimals = pa.Array.from_buffers(kind, len(number), [None, pa.py_buffer(halves)])
        return pc.if_else(pa.array(missing), pa.scalar(None, kind), decimals)
    integers = pa.array(number, mask=missing)
    return integers.cast(pa.int32()).cast(kind) if pa.types.is_date32(kind) else integers.cast(kind)
