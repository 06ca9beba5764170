"""Sums and means of decimals: exact, and of the types that Spark gives them.

A decimal is a number of its smallest units, an integer of up to 128 bits. Panes add up its digits of 32 bits, each in
an integer of 64, as they do for integers. Only where a window is answered are they put together, and divided by as many
values as there are: as at school, digit by digit, for all windows at once.
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
from muntin.partials.partial import ColumnPartial, Field, IntegerSum, carried, exact_sums
from muntin.partials.rows import Rows
from muntin.partials.values import units

MOST_DIGITS = 38
"""Of a decimal in Spark and in Arrow."""
SHORT = 18
"""Decimals of so many digits fit 64 bits."""
BITS = 16
"""Of a digit of `Wide`: so that a digit times a count fits 64 bits."""
_BASE = 1 << BITS


def sum_type(kind: pa.Decimal128Type) -> pa.Decimal128Type:
    return pa.decimal128(min(kind.precision + 10, MOST_DIGITS), kind.scale)


def mean_type(kind: pa.Decimal128Type) -> pa.Decimal128Type:
    return pa.decimal128(min(kind.precision + 4, MOST_DIGITS), min(kind.scale + 4, MOST_DIGITS))


def decimal_sum(where: str | None, column: str, kind: pa.Decimal128Type) -> ShortDecimalSum | LongDecimalSum:
    return ShortDecimalSum(where, column) if kind.precision <= SHORT else LongDecimalSum(where, column)


@dataclass(frozen=True)
class ShortDecimalSum(IntegerSum):
    """The exact sum of decimals that fit 64 bits, in their smallest units."""

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
        groups, *selected = rows.select(self.inputs, self.where, *digits)
        return carried(*(exact_sums(groups, digit, rows.group_count) for digit in selected))

    def combine(self, left: State, right: State) -> State:
        return carried(*(one + other for one, other in zip(left, right, strict=True)))

    def reduce(self, state: State, runs: Runs) -> State:
        return carried(*(runs.sums(digit) for digit in state))


@dataclass(frozen=True)
class Wide:
    """Integers of any number of bits."""

    negative: BoolArray
    digits: tuple[Int64Array, ...]
    """Of what they are without the sign, the lowest first, each of 16 bits."""

    @classmethod
    def of(cls, state: State) -> Wide:
        """From digits of 32 bits, the highest first, which has the sign and may be larger."""
        negative = state[0] < 0
        top, *others = carried(*(np.where(negative, -digit, digit) for digit in state))
        digits = [part for digit in reversed(others) for part in (digit & (_BASE - 1), digit >> BITS)]
        return cls(negative, (*digits, *((top >> shift) & (_BASE - 1) for shift in range(0, 64, BITS))))

    def times(self, by: Int64Array | int) -> Wide:
        """By positive numbers of less than 46 bits."""
        digits: list[Int64Array] = []
        nothing = carry = np.zeros(len(self.negative), dtype=np.int64)
        for digit in (*self.digits, nothing, nothing, nothing):
            product = digit * by + carry
            digits.append(product & (_BASE - 1))
            carry = product >> BITS
        return Wide(self.negative, tuple(digits))

    def over(self, by: Int64Array) -> Wide:
        """By positive numbers of less than 46 bits, rounded; a half is rounded away from zero, as in Spark."""
        digits, rest = [], np.zeros(len(self.negative), dtype=np.int64)
        for digit in reversed(self.digits):
            quotient, rest = np.divmod((rest << BITS) + digit, by)
            digits.append(quotient)
        digits.reverse()
        carry = (2 * rest >= by).astype(np.int64)
        for at, digit in enumerate(digits):
            digits[at], carry = (digit + carry) & (_BASE - 1), (digit + carry) >> BITS
        return Wide(self.negative, tuple(digits))

    def as_decimals(self, kind: pa.Decimal128Type, missing: BoolArray, what: str) -> pa.Array:
        """So many smallest units of a type, null where they are missing."""
        low, high = (_joined(self.digits[at : at + 4], len(missing)) for at in (0, 4))
        fits = not any_true(high < 0) and not any(any_true(digit > 0) for digit in self.digits[8:])
        # Arrow's decimals have the complement of two for a sign.
        signed = np.where(self.negative, -low, low), np.where(self.negative, ~high + (low == 0), high)
        found = pa.Array.from_buffers(kind, len(missing), [None, pa.py_buffer(np.column_stack(signed))])
        try:
            found.validate(full=True)
        except pa.ArrowInvalid:
            fits = False
        if not fits:
            raise overflow(what, kind)
        return pc.if_else(pa.array(missing), pa.scalar(None, kind), found) if any_true(missing) else found


def _joined(digits: Sequence[Int64Array], length: int) -> Int64Array:
    """Four digits, or fewer, as the bits of one integer."""
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
    """The sums, or so many times those."""
    total, (count,) = states
    found = Wide.of(total) if times is None else Wide.of(total).times(times)
    return found.as_decimals(kind, count == 0, f"sum of column {shown(column)!r}")


def lower_mean(
    column: str,
    kind: pa.Decimal128Type,
    more_digits: int,
    states: Sequence[State],
    dictionaries: Dictionaries,
) -> pa.Array:
    """The means, of a type that has so many more digits behind the point than the column."""
    total, (count,) = states
    found = Wide.of(total).times(10**more_digits).over(np.maximum(count, 1))
    return found.as_decimals(kind, count == 0, f"mean of column {shown(column)!r}")
