"""Whether two runs wrote the same rows, as often, in whatever order."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

NEAR = 1e-9
"""Estimates are sums of fractions. A replay may add them in another order, and differs by no more than rounding."""


def difference(
    disturbed: Path, undisturbed: Path, only: tuple[str, ...] = (), rounded: bool = False
) -> tuple[int, str | None]:
    """How many rows there are undisturbed, and what differs, if something does.

    NaN equals NaN. All else is equal to the bit, or, where answers are `rounded`, up to rounding.
    """
    ours, expected = (_rows(run / "rows.parquet", only) for run in (disturbed, undisturbed))
    lost, extra = _apart(ours, expected) if rounded else _unlike(ours, expected)
    if not lost and not extra:
        return len(expected), None
    return len(expected), (
        f"{len(lost)} of {len(expected)} rows are missing and {len(extra)} are too many, such as\n"
        + "\n".join(f"  missing  {row}" for row in sorted(map(repr, lost))[:3])
        + "\n"
        + "\n".join(f"  too many {row}" for row in sorted(map(repr, extra))[:3])
    )


def _unlike(ours: list[Any], expected: list[Any]) -> tuple[list[Any], list[Any]]:
    """The rows that only the one or the other has, to the bit."""
    counts = [Counter(map(repr, rows)) for rows in (expected, ours)]
    return list((counts[0] - counts[1]).elements()), list((counts[1] - counts[0]).elements())


def _apart(ours: list[Any], expected: list[Any]) -> tuple[list[Any], list[Any]]:
    """The same, up to rounding: rows that agree in all but floats are neighbours once both are sorted."""
    lost = []
    left = sorted(ours, key=_sort_key)
    for row in sorted(expected, key=_sort_key):
        place = next((i for i, other in enumerate(left) if _near(row, other)), None)
        if place is None:
            lost.append(row)
        else:
            del left[place]
    return lost, left


def _near(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=NEAR, abs_tol=NEAR) or (math.isnan(one) and math.isnan(other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_near(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_near, one, other))
    return type(one) is type(other) and bool(one == other)


def _sort_key(row: Any) -> str:
    return repr(list(_without_floats(row)))


def _without_floats(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for each in value.values():
            yield from _without_floats(each)
    elif isinstance(value, list):
        for each in value:
            yield from _without_floats(each)
    elif not isinstance(value, float):
        yield repr(value)


def _rows(path: Path, only: tuple[str, ...]) -> list[Any]:
    rows = pq.read_table(path).to_pylist()
    return [{name: _field(row, name) for name in only} for row in rows] if only else rows


def _field(row: Any, name: str) -> Any:
    for part in name.split("."):
        row = row[part]
    return row
