"""The source: quotes as a folder of files to which one is added every second, as a feed handler would."""

from __future__ import annotations

import os
import time
from pathlib import Path
from threading import Event

import pyarrow.parquet as pq
from examples.trading.quotes import Market

_FIRST_FILE_WRITTEN = 1_514_901_600
"""Any fixed moment would do; this is the morning of the first day, in seconds."""


class Feed:
    """File n holds the quotes of the n-th step of the market's time."""

    def __init__(self, market: Market, folder: Path, step: int) -> None:
        """`step` is the market time that a file covers, in microseconds."""
        self._market = market
        self._folder = folder
        self._step = step
        folder.mkdir(parents=True, exist_ok=True)
        # A feed that was stopped goes on behind its last file.
        written = list(folder.glob("[0-9]*.parquet"))
        self._files = len(written)
        self.quotes = sum(pq.read_metadata(path).num_rows for path in written)
        """How many are in the folder."""

    def write(self) -> None:
        """The next file."""
        number = self._files
        quotes = self._market.between(number * self._step, (number + 1) * self._step)
        # Spark does not look at hidden files, so it never sees one that is half written.
        hidden = self._folder / f".{number:06}.parquet"
        pq.write_table(quotes, hidden)
        # A file stream reads the oldest file first, and files written within one second are of one age.
        os.utime(hidden, (_FIRST_FILE_WRITTEN + number, _FIRST_FILE_WRITTEN + number))
        hidden.rename(self._folder / f"{number:06}.parquet")
        self._files += 1
        self.quotes += quotes.num_rows

    def run(self, files: int, every: float, stop: Event) -> None:
        """So many files, one every so many seconds; 0 writes them all at once."""
        began = time.monotonic()
        for number in range(files):
            if stop.wait(max(0.0, began + number * every - time.monotonic())):
                return
            self.write()
