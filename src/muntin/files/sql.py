"""Reads simple SQL conditions: comparisons of columns and values, AND, OR, NOT, IN, BETWEEN and IS NULL.

What it does not know for sure to mean the same as in Spark is no condition (None), and Spark computes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import partial, reduce

import pyarrow as pa

from muntin.files.conditions import And, Column, Compare, Condition, IsNull, Not, Or
from muntin.files.zones import UTC, point_in_time

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>(?:\d+\.\d+|\d+)(?![\w.]))
    | (?P<text>'[^'\\]*'(?!'))
    | (?P<quoted>`[^`]+`)
    | (?P<word>[A-Za-z_]\w*)
    | (?P<sign><=>|<=|>=|<>|!=|==|=|<|>|\(|\)|,|-)
    )""",
    re.VERBOSE,
)
_WORDS = {"AND", "OR", "NOT", "IN", "BETWEEN", "IS", "NULL", "TRUE", "FALSE", "DATE", "TIMESTAMP"}
_RESERVED = _WORDS | {"LIKE", "RLIKE", "ILIKE", "CASE", "INTERVAL", "DISTINCT", "DIV", "EXISTS", "CAST"}
_SIGNS = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?")
_EXACT_FLOAT = 1 << 24


class _Unknown(Exception):  # noqa: N818 - it is no error
    """The text is no condition that is known here."""


@dataclass(frozen=True)
class _Value:
    """A value as it is written; its type follows from what it is compared with."""

    kind: str
    """number, text, date, timestamp or boolean."""
    text: str


@dataclass(frozen=True)
class _Name:
    name: str


def condition_of(
    text: str, types: Mapping[str, pa.DataType], case_sensitive: bool = False, zone: str = "UTC"
) -> Condition | None:
    """The condition that a text says over columns of these types; None if that is not certain."""
    try:
        return _Parser(text, types, case_sensitive, zone).whole()
    except _Unknown:
        return None


class _Parser:
    def __init__(self, text: str, types: Mapping[str, pa.DataType], case_sensitive: bool, zone: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0
        self._types = types
        self._case_sensitive = case_sensitive
        self._zone = zone

    def whole(self) -> Condition:
        condition = self._any()
        if self._at < len(self._tokens):
            raise _Unknown
        return condition

    def _any(self) -> Condition:
        return self._joined(self._all, "OR", Or)

    def _all(self) -> Condition:
        return self._joined(self._one, "AND", And)

    def _joined(
        self, part: Callable[[], Condition], word: str, joined: Callable[[Condition, Condition], Condition]
    ) -> Condition:
        parts = [part()]
        while self._take(word):
            parts.append(part())
        return reduce(joined, parts)

    def _one(self) -> Condition:
        if self._take("NOT"):
            return Not(self._one())
        if self._take("("):
            condition = self._any()
            self._expect(")")
            return condition
        return self._comparison()

    def _comparison(self) -> Condition:
        left = self._operand()
        if self._take("IS"):
            negated = self._take("NOT")
            self._expect("NULL")
            condition: Condition = IsNull(_column(left).name)
            return Not(condition) if negated else condition
        negated = self._take("NOT")
        if self._take("IN"):
            self._expect("(")
            conditions = [self._same(left, self._operand())]
            while self._take(","):
                conditions.append(self._same(left, self._operand()))
            self._expect(")")
            condition = reduce(Or, conditions)
            return Not(condition) if negated else condition
        if self._take("BETWEEN"):
            low = self._operand()
            self._expect("AND")
            condition = And(self._compared(left, ">=", low), self._compared(left, "<=", self._operand()))
            return Not(condition) if negated else condition
        if negated:
            raise _Unknown
        kind, sign = self._peek()
        if kind == "sign" and sign in _SIGNS:
            self._at += 1
            return self._compared(left, _SIGNS[sign], self._operand())
        name = _column(left).name
        if self._types[name] != pa.bool_():
            raise _Unknown
        return Column(name)

    def _operand(self) -> _Name | _Value:
        kind, text = self._next()
        if kind == "sign" and text == "-":
            kind, text = self._next()
            if kind != "number":
                raise _Unknown
            return _Value("number", f"-{text}")
        if kind in ("number", "text"):
            return _Value(kind, text)
        if kind == "keyword" and text in ("TRUE", "FALSE"):
            return _Value("boolean", text)
        if kind == "keyword" and text in ("DATE", "TIMESTAMP"):
            literal, value = self._next()
            if literal != "text":
                raise _Unknown
            return _Value(text.lower(), value)
        if kind == "name":
            return _Name(self._resolved(text))
        raise _Unknown

    def _resolved(self, name: str) -> str:
        alike = [known for known in self._types if known == name or known.lower() == name.lower()]
        if self._case_sensitive:
            alike = [known for known in alike if known == name]
        if len(alike) != 1:
            raise _Unknown
        return alike[0]

    def _compared(self, left: _Name | _Value, operator: str, right: _Name | _Value) -> Condition:
        if isinstance(left, _Value):
            if isinstance(right, _Value):
                raise _Unknown
            return self._compared(right, _MIRRORED[operator], left)
        kind = self._types[left.name]
        if kind == pa.bool_() and operator not in ("=", "!="):
            raise _Unknown
        if isinstance(right, _Name):
            return Compare(left.name, operator, _common(kind, self._types[right.name]), None, right.name)
        compared, value = _value(right, kind, self._zone)
        return Compare(left.name, operator, compared, pa.scalar(value, compared))

    def _same(self, left: _Name | _Value, right: _Name | _Value) -> Condition:
        """An item of IN, for which Spark converts texts otherwise than for a comparison."""
        if isinstance(right, _Value) and right.kind == "text" and self._types[_column(left).name] != pa.string():
            raise _Unknown
        return self._compared(left, "=", right)

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("", "")

    def _next(self) -> tuple[str, str]:
        token = self._peek()
        self._at += 1
        return token

    def _take(self, word: str) -> bool:
        kind, text = self._peek()
        if kind not in ("keyword", "sign") or text != word:
            return False
        self._at += 1
        return True

    def _expect(self, word: str) -> None:
        if not self._take(word):
            raise _Unknown


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens, position = list[tuple[str, str]](), 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _Unknown
        kind, token = str(match.lastgroup), match[str(match.lastgroup)]
        if kind == "word" and token.upper() in _RESERVED:
            kind, token = "keyword", token.upper()
        elif kind == "word":
            kind = "name"
        elif kind == "quoted":
            kind, token = "name", token[1:-1]
        elif kind == "text":
            token = token[1:-1]
        if token == "(" and tokens and tokens[-1][0] == "name":
            raise _Unknown  # a function
        tokens.append((kind, token))
        position = match.end()
    return tokens


def _column(operand: _Name | _Value) -> _Name:
    if isinstance(operand, _Value):
        raise _Unknown
    return operand


def _common(first: pa.DataType, second: pa.DataType) -> pa.DataType:
    """The type in which Spark compares two columns."""
    if pa.types.is_integer(first) and pa.types.is_integer(second):
        return pa.int64()
    if first == second and not pa.types.is_nested(first) and not pa.types.is_null(first):
        return first
    raise _Unknown


def _value(value: _Value, kind: pa.DataType, zone: str) -> tuple[pa.DataType, object]:
    """A value that a column of this type is compared with, and the type in which Spark compares them."""
    if value.kind == "number":
        return _number(value.text, kind)
    if value.kind == "boolean" and kind == pa.bool_():
        return kind, value.text == "TRUE"
    if value.kind == "text" and kind == pa.string():
        return kind, value.text
    if value.kind in ("text", "date") and kind == pa.date32() and _DAY.fullmatch(value.text):
        return kind, _parsed(date.fromisoformat, value.text)
    # A literal with TIMESTAMP is a point in time: beside local times, Spark would convert it.
    if kind == UTC and value.kind in ("text", "timestamp") and _is_time(value.text):
        return kind, _parsed(partial(point_in_time, zone=zone), value.text)
    if kind == pa.timestamp("us") and value.kind == "text" and _is_time(value.text):
        return kind, _parsed(datetime.fromisoformat, value.text)
    raise _Unknown


def _is_time(text: str) -> bool:
    return bool(_TIME.fullmatch(text) or _DAY.fullmatch(text))


def _parsed(function: Callable[[str], object], text: str) -> object:
    try:
        return function(text)
    except (ValueError, LookupError):  # no such day, or no such time zone
        raise _Unknown from None


def _number(text: str, kind: pa.DataType) -> tuple[pa.DataType, object]:
    number = Decimal(text)
    whole = "." not in text
    if pa.types.is_integer(kind):
        if whole and -(1 << 63) <= number < 1 << 63:
            return pa.int64(), int(number)
        return _decimal(number, 19, 0)
    if pa.types.is_float64(kind):
        return kind, float(number)
    if pa.types.is_float32(kind):
        # Spark compares with a whole number as float, and with another one as double.
        if whole and abs(number) > _EXACT_FLOAT:
            raise _Unknown
        return pa.float64(), float(number)
    if pa.types.is_decimal(kind):
        return _decimal(number, kind.precision - kind.scale, kind.scale)
    raise _Unknown


def _decimal(number: Decimal, digits: int, scale: int) -> tuple[pa.DataType, object]:
    """A decimal type that has the column's values and this one."""
    _, own, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    scale, digits = max(scale, -exponent), max(digits, len(own) + exponent)
    if scale + digits > 38:
        raise _Unknown
    return pa.decimal128(scale + digits, scale), number
