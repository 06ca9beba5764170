"""Both sides of a join without an engine: tuples with the columns of both, and their pairs by a loop over all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from muntin import windows as W
from muntin.engine.plan import Plan
from muntin.joins.names import SIDE_FLAGS, TIME
from muntin.joins.product import Origin, Product
from tests import builders, naive, strategies
from tests.naive import Aggregation, Row

LEFT = {name: builders.TYPES[name] for name in ("x", "n", "w", "kept")}
RIGHT = {"m": pa.int64(), "v": pa.string(), "wanted": pa.bool_()}
KEYS = {name: builders.TYPES[name] for name in ("k", "f", "s")}
TYPES: dict[str, pa.DataType] = {
    TIME: builders.TIME,
    **dict.fromkeys(SIDE_FLAGS.values(), pa.bool_()),
    **KEYS,
    **LEFT,
    **RIGHT,
}
PRODUCT = Product(
    pa.schema([*LEFT.items(), *RIGHT.items(), (TIME, builders.TIME)]),
    (*(Origin(name, "left") for name in LEFT), *(Origin(name, "right") for name in RIGHT), Origin(TIME, "later")),
)
"""Pairs with all columns and their time."""


def pair_types(on: Sequence[str]) -> dict[str, pa.DataType]:
    """Of the columns that the pairs have, beside their windows."""
    return {name: KEYS[name] for name in on} | {field.name: field.type for field in PRODUCT.schema}


def left(row: Row) -> Row:
    keys = {name: row[name] for name in KEYS}
    own = {name: row[name] for name in LEFT}
    return {"t": row["t"], TIME: row["t"], **marks("left"), **keys, **own, **dict.fromkeys(RIGHT)}


def right(row: Row) -> Row:
    keys = {name: row[name] for name in KEYS}
    own = {"m": row["n"], "v": row["w"], "wanted": row["kept"]}
    return {"t": row["t"], TIME: row["t"], **marks("right"), **keys, **dict.fromkeys(LEFT), **own}


def marks(which: str) -> dict[str, bool]:
    return {mark: which == side for side, mark in SIDE_FLAGS.items()}


ON = st.sampled_from([("k",), ("f",), ("k", "f"), ("s",), ("s", "k")])
WINDOWS = strategies.windows(max_size=1)


def sides(times: st.SearchStrategy[Any] = strategies.TIMES, max_size: int = 12) -> st.SearchStrategy[list[Row]]:
    """Tuples of both sides, mixed."""
    return st.tuples(strategies.rows(times, max_size=max_size), strategies.rows(times, max_size=max_size)).map(
        lambda both: [left(row) for row in both[0]] + [right(row) for row in both[1]]
    )


def with_keys(rows: Iterable[Row], on: Sequence[str]) -> list[Row]:
    """Without the rows that the source leaves out."""
    return [row for row in rows if all(row[key] is not None for key in on)]


def pairs(rows: Sequence[Row]) -> list[Row]:
    """The pairs of one window of a key."""
    lefts = [row for row in rows if row[SIDE_FLAGS["left"]]]
    rights = [row for row in rows if not row[SIDE_FLAGS["left"]]]
    return [
        {**{name: a[name] for name in LEFT}, **{name: b[name] for name in RIGHT}, "t": max(a["t"], b["t"])}
        for a in lefts
        for b in rights
    ]


def over_pairs(named: Mapping[str, Aggregation]) -> dict[str, Aggregation]:
    """Of the tuples of both sides, and None where there is no pair."""

    def of(aggregation: Aggregation) -> Aggregation:
        return lambda rows: aggregation(pairs(rows)) if pairs(rows) else NOTHING

    return {name: of(aggregation) for name, aggregation in named.items()}


NOTHING = object()


def joined(answers: naive.Answers) -> naive.Answers:
    """Without the windows that have no pair."""
    return {place: named for place, named in answers.items() if NOTHING not in named.values()}


def listed(rows: Sequence[Row]) -> list[str]:
    """The pairs as text, sorted, for comparing: NaN is equal to NaN then."""
    return sorted(told(pair) for pair in pairs(rows))


def told(pair: Row) -> str:
    return repr([pair[name] for name in (*LEFT, *RIGHT)] + [pair["t"] if "t" in pair else pair[TIME]])


def pair_plan(window: W.Window, on: Sequence[str], **others: Any) -> Plan:
    return Plan.make(time=TIME, windows=(window,), types=TYPES, keys=on, aggregates={}, function=PRODUCT, **others)
