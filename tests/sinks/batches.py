"""Batches of updates, and what a table should have after them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from muntin.sinks.revisions import Revisions

TIME = pa.timestamp("us", tz="UTC")
STORED = pa.schema(
    [
        ("window_start", TIME),
        ("window_id", pa.int64()),
        ('k"%s`', pa.string()),
        ("d", pa.date32()),
        ("price", pa.decimal128(10, 2)),
        ("n", pa.int64()),
        ("timing", pa.string()),
        ("revision", pa.int64()),
    ]
)
"""The column of the key has a name that must be quoted."""
KEY = 'k"%s`'
SENT = STORED.append(pa.field("retracted", pa.bool_()))
ROWS = Revisions(tuple(STORED.names), ("window_id", KEY, "d"), retracts=True)
Row = dict[str, Any]
Table = dict[tuple[Any, ...], Row]
START = datetime(1969, 12, 31, 23, 59, 59, 999_999, timezone.utc)


def row(number: int, key: str | None, revision: int, retracted: bool = False, n: int | None = 1) -> Row:
    day = None if number % 3 == 0 else START.date()
    price = None if n is None else Decimal(n) / 4
    start = START + timedelta(hours=number)
    values = (start, number, key, day, price, n, "early", revision, retracted)
    return dict(zip(SENT.names, values, strict=True))


def batch(rows: Iterable[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), SENT)


def expected(batches: Iterable[Sequence[Row]]) -> Table:
    """The latest revision of each window and key, unless it is retracted."""
    latest: Table = {}
    for rows in batches:
        latest.update({tuple(row[name] for name in ROWS.identity): row for row in rows})
    kept = {place: row for place, row in latest.items() if not row["retracted"]}
    return {place: {name: row[name] for name in STORED.names} for place, row in kept.items()}


def keyed(rows: Iterable[Mapping[str, Any]]) -> Table:
    """The rows of a table; none may be there twice."""
    found: Table = {}
    for each in rows:
        place = tuple(each[name] for name in ROWS.identity)
        assert place not in found, place
        found[place] = dict(each)
    return found


@st.composite
def updates(draw: st.DrawFn) -> list[list[Row]]:
    """Batches with at most one row for a window and key, whose revisions are consecutive."""
    revisions: dict[tuple[int, str | None], int] = {}
    batches = []
    for _ in range(draw(st.integers(1, 5))):
        rows = []
        places = st.tuples(st.integers(-2, 3), st.sampled_from(["a", "'); DROP TABLE t; --", "", None]))
        for number, key in draw(st.lists(places, unique=True, max_size=8)):
            revision = revisions.get((number, key), -1) + 1
            revisions[number, key] = revision
            retracted = draw(st.booleans()) and revision > 0
            n = None if retracted else draw(st.integers(0, 99))
            rows.append(row(number, key, revision, retracted, n))
        batches.append(rows)
    return batches
