"""What leaves a shard: results, or work that is handed out."""

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
    """The windows that they are of, row by row; None for late rows, and where a function returned the rows."""
    count: int | None = None
    """How many results the rows stand for, where some were left out on the way."""

    def __len__(self) -> int:
        return self.rows.num_rows if self.count is None else self.count


class Handout(Protocol):
    """Windows that another task answers."""

    @property
    def turn(self) -> int:
        """When it is begun, among those of a batch."""
        ...

    def __len__(self) -> int: ...

    def pack(self) -> bytes: ...


Emitted: TypeAlias = Results | Handout
