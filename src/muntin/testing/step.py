"""What a step of a test shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from muntin.sizes import describe_size

Row = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """A batch of a stream, with the batch without rows that follows where the watermark has moved."""

    results: list[Row]
    """The results, with the columns of the DataFrame, in the order of windows and keys. Times are in UTC."""
    late: list[Row]
    """The late rows, if the query has `.late("emit")`."""
    watermark: datetime | None
    """The watermark after the step; None before there is one."""
    metrics: Mapping[str, int] = field(default_factory=dict)
    """All metrics, as `muntin.progress` names them: counts are those of this step."""

    @property
    def late_rows(self) -> int:
        """The number of rows that came too late for all of their windows."""
        return self.metrics.get("late_rows", 0)

    @property
    def invalid_rows(self) -> int:
        return self.metrics.get("invalid_rows", 0)

    @property
    def state_bytes(self) -> int:
        """The size of the state after the step."""
        return self.metrics.get("state_bytes", 0)

    def __repr__(self) -> str:
        counts = f"{len(self.results):,} results, {self.late_rows:,} late rows"
        return f"Step({counts}, watermark {self.watermark}, state {describe_size(self.state_bytes)})"


def split(rows: Iterable[Row], keys: Sequence[str]) -> tuple[list[Row], list[Row]]:
    """Results in the order of windows and keys, and late rows."""
    results, late = [], []
    for row in rows:
        if row.get("late") is not None:
            late.append(row["late"])
        else:
            results.append({name: value for name, value in row.items() if name not in ("late", "lateness")})
    return sorted(results, key=lambda row: _place(row, keys)), late


def _place(row: Row, keys: Sequence[str]) -> tuple[Any, ...]:
    if "window" not in row:  # wide rows
        return row["as_of"], *(repr(row[key]) for key in keys)
    window = row["window"]
    texts = (row.get("window_name") or "", *(repr(row[key]) for key in keys), repr(row.get("revision")))
    return (window["end"], window["start"], row["window_id"], texts)


def in_utc(table: pa.Table) -> pa.Table:
    """A table whose times are in UTC, whatever the zone of the session is."""
    return table.cast(pa.schema([pa.field(field.name, _in_utc(field.type)) for field in table.schema]))


def _in_utc(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz=None if kind.tz is None else "UTC")
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _in_utc(field.type)) for field in kind])
    return pa.list_(_in_utc(kind.value_type)) if pa.types.is_list(kind) else kind
