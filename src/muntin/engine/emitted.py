"""What a shard emits: results, or windows for other tasks to answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

import pyarrow as pa

if TYPE_CHECKING:
    from muntin.engine.answers import ClosedWindows


@dataclass(frozen=True)
class Results:
    """Rows of results."""

    rows: pa.RecordBatch
    windows: ClosedWindows | None = None
    """The window of each row; None for late rows, and for rows that a function returned."""
    count: int | None = None
    """The number of results before some were left out; None if all are there."""

    def __len__(self) -> int:
        return self.rows.num_rows if self.count is None else self.count


class Handout(Protocol):
    """Windows that another task answers."""

    @property
    def turn(self) -> int:
        """Its turn among the jobs of a batch: lower ones begin first."""
        ...

    def __len__(self) -> int: ...

    def pack(self) -> bytes: ...


Emitted: TypeAlias = Results | Handout
