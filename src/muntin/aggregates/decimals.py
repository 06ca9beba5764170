"""Exact sums and means of decimals, with the result types of Spark.

A decimal is an integer of up to 128 bits that counts its smallest units. Panes sum its 32-bit digits, each in a 64-bit
integer. Only the answer of a window joins the digits and divides by the count: long division, digit by digit, for all
windows at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.aggregates.aggregate import Dictionaries, overflow
from muntin.arrays import BoolArray, Int64Array, Runs, State, any_true
from muntin.expressions import shown
from muntin.partials.partial import ColumnPartial, Field, IntegerSum, carried
from muntin.partials.rows import Rows
from muntin.partials.values import units

MOST_DIGITS = 38
"""The largest precision of a decimal in Spark and Arrow."""
SHORT = 18
"""The largest precision that fits 64 bits."""
BITS = 16
"""Bits of a digit of `Wide`, so that a digit times a count fits 64 bits."""
_BASE = 1 << BITS


def sum_type(kind: pa.Decimal128Type) -> pa.Decimal128Type:
    return pa.decimal128(min(kind.precision + 10, MOST_DIGITS), kind.scale)


def mean_type(kind: pa.Decimal128Type) -> pa.Decimal128Type:
    return pa.decimal128(min(kind.precision + 4, MOST_DIGITS), min(kind.scale + 4, MOST_DIGITS))


def decimal_sum(where: str | None, column: str, kind: pa.Decimal128Type) -> ShortDecimalSum | LongDecimalSum:
    return ShortDecimalSum(where, column) if kind.precision <= SHORT else LongDecimalSum(where, column)


@dataclass(frozen=True)
class ShortDecimalSum(IntegerSum):
    """The exact sum of decimals that fit 64 bits, in smallest units."""

    def integers(self, rows: Rows) -> Int64Array:
        return units(rows.array(self.column))[0]


@dataclass(frozen=True)
class LongDecimalSum(ColumnPartial):
    """The exact sum of decimals of up to 128 bits, in four digits of 32 bits, the highest first."""

    @property
    def fields(self) -> tuple[Field, ...]:
        return (Field("int64"),) * 4

    def lift(self, rows: Rows) -> State:
        low, high = units(rows.array(self.column))
        mask = (1 << 32) - 1
        digits = (high >> 32, high & mask, (low >> 32) & mask, low & mask)
        groups = rows.grouped(self.inputs, self.where)
        return carried(*(groups.exact_sums(rows.counting(self.inputs, self.where, digit)) for digit in digits))

    def combine(self, left: State, right: State) -> State:
        return carried(*(left_digit + right_digit for left_digit, right_digit in zip(left, right, strict=True)))

    def reduce(self, state: State, runs: Runs) -> State:
        return carried(*(runs.sums(digit) for digit in state))


@dataclass(frozen=True)
class Wide:
    """Integers with any number of bits."""

    negative: BoolArray
    digits: tuple[Int64Array, ...]
    """The 16-bit digits of the absolute values, the lowest first."""

    @classmethod
    def of(cls, state: State) -> Wide:
        """From 32-bit digits, the highest first; the highest one has the sign and may be wider."""
        negative = state[0] < 0
        top, *others = carried(*(np.where(negative, -digit, digit) for digit in state))
        digits = [half for digit in reversed(others) for half in (digit & (_BASE - 1), digit >> BITS)]
        return cls(negative, (*digits, *((top >> shift) & (_BASE - 1) for shift in range(0, 64, BITS))))

    def times(self, by: Int64Array | int) -> Wide:
        """The product with positive numbers of less than 46 bits."""
        digits: list[Int64Array] = []
        zero = carry = np.zeros(len(self.negative), dtype=np.int64)
        for digit in (*self.digits, zero, zero, zero):
            product = digit * by + carry
            digits.append(product & (_BASE - 1))
            carry = product >> BITS
        return Wide(self.negative, tuple(digits))

    def over(self, by: Int64Array) -> Wide:
        """The quotient by positive numbers of less than 46 bits, rounded half away from zero as in Spark."""
        digits, remainder = [], np.zeros(len(self.negative), dtype=np.int64)
        for digit in reversed(self.digits):
            quotient, remainder = np.divmod((remainder << BITS) + digit, by)
            digits.append(quotient)
        digits.reverse()
        carry = (2 * remainder >= by).astype(np.int64)
        for place, digit in enumerate(digits):
            digits[place], carry = (digit + carry) & (_BASE - 1), (digit + carry) >> BITS
        return Wide(self.negative, tuple(digits))

    def as_decimals(self, kind: pa.Decimal128Type, missing: BoolArray, what: str) -> pa.Array:
        """Decimals of a type from their smallest units, null where missing."""
        low, high = (_joined(self.digits[place : place + 4], len(missing)) for place in (0, 4))
        fits = not any_true(high < 0) and not any(any_true(digit > 0) for digit in self.digits[8:])
        # Arrow's decimals are in two's complement.
        signed = np.where(self.negative, -low, low), np.where(self.negative, ~high + (low == 0), high)
        array = pa.Array.from_buffers(kind, len(missing), [None, pa.py_buffer(np.column_stack(signed))])
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            fits = False
        if not fits:
            raise overflow(what, kind)
        return pc.if_else(pa.array(missing), pa.scalar(None, kind), array) if any_true(missing) else array


def _joined(digits: Sequence[Int64Array], length: int) -> Int64Array:
    """Up to four digits as the bits of one integer."""
    bits = np.zeros(length, dtype=np.int64)
    for place, digit in enumerate(digits):
        bits |= digit << BITS * place
    return bits


def lower_sum(
    column: str,
    kind: pa.Decimal128Type,
    states: Sequence[State],
    dictionaries: Dictionaries,
    times: Int64Array | None = None,
) -> pa.Array:
    """The sums, multiplied by `times` if given."""
    total, (count,) = states
    sums = Wide.of(total) if times is None else Wide.of(total).times(times)
    return sums.as_decimals(kind, count == 0, f"sum of column {shown(column)!r}")


def lower_mean(
    column: str,
    kind: pa.Decimal128Type,
    more_digits: int,
    states: Sequence[State],
    dictionaries: Dictionaries,
) -> pa.Array:
    """The means, with `more_digits` decimal places more than the column."""
    total, (count,) = states
    means = Wide.of(total).times(10**more_digits).over(np.maximum(count, 1))
    return means.as_decimals(kind, count == 0, f"mean of column {shown(column)!r}")
