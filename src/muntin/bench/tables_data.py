"""The files of the tables benchmark."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

KEYS = 1_000
PER_PANE = 10
"""Rows per key and second, on average."""
FILES = 8
FIRST = 1_700_000_000
"""The first second of the data."""


@dataclass(frozen=True)
class Scale:
    rows: int
    rounds: int

    @property
    def seconds(self) -> int:
        """The event time that the rows cover."""
        return self.rows // (KEYS * PER_PANE)


def write(folder: Path, scale: Scale) -> None:
    """Rows in the order of their time, in several files."""
    folder.mkdir()
    generator = np.random.default_rng(0)
    rows, length = scale.rows // FILES, scale.seconds * 1_000_000 // FILES
    for number in range(FILES):
        times = np.sort(generator.integers(0, length, rows)) + number * length + FIRST * 1_000_000
        table = pa.table(
            {
                "ts": pa.array(times).cast(pa.timestamp("us", tz="UTC")),
                "key": generator.integers(0, KEYS, rows).astype(np.int32),
                "value": np.round(generator.normal(10, 3, rows), 2),
            }
        )
        pq.write_table(table, folder / f"{number}.parquet")
