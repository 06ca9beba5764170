"""The source: a folder of quotes that gets a file every second."""

from __future__ import annotations

import os
import time
from pathlib import Path
from threading import Event

import pyarrow.parquet as pq
from examples.trading.quotes import Market

_FIRST_FILE_WRITTEN = 1_514_901_600
"""Modification time of the first file, in seconds: the morning of the first day. Any fixed time works."""


class Feed:
    """Writes the quotes of one step of market time per file."""

    def __init__(self, market: Market, folder: Path, step: int) -> None:
        """`step` is the market time per file, in microseconds."""
        self._market = market
        self._folder = folder
        self._step = step
        folder.mkdir(parents=True, exist_ok=True)
        # A feed that was stopped continues after its last file.
        written = list(folder.glob("[0-9]*.parquet"))
        self._files = len(written)
        self.quotes = sum(pq.read_metadata(path).num_rows for path in written)
        """The number of quotes in the folder."""

    def write(self) -> None:
        """Write the next file."""
        number = self._files
        quotes = self._market.between(number * self._step, (number + 1) * self._step)
        # Spark ignores hidden files, so it never reads an unfinished one.
        hidden = self._folder / f".{number:06}.parquet"
        pq.write_table(quotes, hidden)
        # A file stream reads the oldest file first, and only compares whole seconds.
        os.utime(hidden, (_FIRST_FILE_WRITTEN + number, _FIRST_FILE_WRITTEN + number))
        hidden.rename(self._folder / f"{number:06}.parquet")
        self._files += 1
        self.quotes += quotes.num_rows

    def run(self, files: int, every: float, stop: Event) -> None:
        """Write `files` files, one every `every` seconds; 0 writes all at once."""
        began = time.monotonic()
        for number in range(files):
            if stop.wait(max(0.0, began + number * every - time.monotonic())):
                return
            self.write()
