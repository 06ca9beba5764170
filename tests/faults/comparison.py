"""Compares the rows of two runs, with their counts, in any order."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

NEAR = 1e-9
"""Tolerance for estimates. They are sums of fractions, which a replay may add in another order."""


def difference(
    disturbed: Path, undisturbed: Path, only: tuple[str, ...] = (), rounded: bool = False
) -> tuple[int, str | None]:
    """The number of undisturbed rows, and the difference, or None.

    NaN equals NaN. Other values must be equal to the bit, or with `rounded` up to rounding.
    """
    ours, expected = (_rows(run / "rows.parquet", only) for run in (disturbed, undisturbed))
    missing, extra = _apart(ours, expected) if rounded else _unlike(ours, expected)
    if not missing and not extra:
        return len(expected), None
    return len(expected), (
        f"{len(missing)} of {len(expected)} rows are missing and {len(extra)} are too many, such as\n"
        + "\n".join(f"  missing  {row}" for row in sorted(map(repr, missing))[:3])
        + "\n"
        + "\n".join(f"  too many {row}" for row in sorted(map(repr, extra))[:3])
    )


def _unlike(ours: list[Any], expected: list[Any]) -> tuple[list[Any], list[Any]]:
    """The missing and the extra rows, with values equal to the bit."""
    counts = [Counter(map(repr, rows)) for rows in (expected, ours)]
    return list((counts[0] - counts[1]).elements()), list((counts[1] - counts[0]).elements())


def _apart(ours: list[Any], expected: list[Any]) -> tuple[list[Any], list[Any]]:
    """The missing and the extra rows, with floats equal up to rounding. Sorting makes candidates neighbours."""
    missing = []
    remaining = sorted(ours, key=_sort_key)
    for row in sorted(expected, key=_sort_key):
        position = next((i for i, other in enumerate(remaining) if _near(row, other)), None)
        if position is None:
            missing.append(row)
        else:
            del remaining[position]
    return missing, remaining


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
        for field in value.values():
            yield from _without_floats(field)
    elif isinstance(value, list):
        for element in value:
            yield from _without_floats(element)
    elif not isinstance(value, float):
        yield repr(value)


def _rows(path: Path, only: tuple[str, ...]) -> list[Any]:
    rows = pq.read_table(path).to_pylist()
    return [{name: _field(row, name) for name in only} for row in rows] if only else rows


def _field(row: Any, name: str) -> Any:
    for part in name.split("."):
        row = row[part]
    return row
