"""Whether two runs wrote the same rows, as often, in whatever order."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq


def difference(disturbed: Path, undisturbed: Path, only: tuple[str, ...] = ()) -> tuple[int, str | None]:
    """How many rows there are undisturbed, and what differs, if something does. NaN equals NaN, to the bit."""
    ours, expected = (_rows(run / "rows.parquet", only) for run in (disturbed, undisturbed))
    lost, extra = expected - ours, ours - expected
    if not lost and not extra:
        return expected.total(), None
    return expected.total(), (
        f"{lost.total()} of {expected.total()} rows are missing and {extra.total()} are too many, such as\n"
        + "\n".join(f"  missing  {row}" for row in sorted(lost)[:3])
        + "\n"
        + "\n".join(f"  too many {row}" for row in sorted(extra)[:3])
    )


def _rows(path: Path, only: tuple[str, ...]) -> Counter[str]:
    rows = pq.read_table(path).to_pylist()
    return Counter(repr({name: _field(row, name) for name in only} if only else row) for row in rows)


def _field(row: Any, name: str) -> Any:
    for part in name.split("."):
        row = row[part]
    return row
