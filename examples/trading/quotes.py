"""Quotes: recorded if a recording exists, generated otherwise. Both are replayed in a loop.

A market returns the quotes of any stretch of time, and always the same ones. So a source that was stopped continues
exactly where it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from muntin.arrays import Float64Array, Int64Array

SCHEMA = pa.schema(
    [
        ("time", pa.timestamp("us", tz="UTC")),
        ("symbol", pa.string()),
        ("bid", pa.float64()),
        ("bid_size", pa.int64()),
        ("ask", pa.float64()),
        ("ask_size", pa.int64()),
    ]
)
RECORDING = "sampleQDataRaw.parquet"
SECOND = 1_000_000
DAY = 24 * 60 * 60 * SECOND
OPENS, CLOSES = int(14.5 * 60 * 60 * SECOND), 21 * 60 * 60 * SECOND
"""Regular trading hours in New York, in winter, as times of day in UTC."""
FIRST_DAY = int(np.datetime64("2018-01-02", "us").astype(np.int64))
"""The first day of the recording, and of generated quotes."""
TICK = 0.01


@dataclass(frozen=True)
class Tape:
    """The quotes of one stock over a stretch of trading."""

    offsets: Int64Array
    """Microseconds since the beginning, sorted, and below `length`."""
    bid: Float64Array
    bid_size: Int64Array
    ask: Float64Array
    ask_size: Int64Array
    length: int

    def __len__(self) -> int:
        return len(self.offsets)

    def every(self, nth: int) -> Tape:
        """The tape with every `nth` quote only."""
        selection = slice(None, None, nth)
        return Tape(
            self.offsets[selection],
            self.bid[selection],
            self.bid_size[selection],
            self.ask[selection],
            self.ask_size[selection],
            self.length,
        )

    def priced(self, factor: float) -> Tape:
        """The tape with prices scaled by `factor` and rounded to whole ticks."""
        bid, ask = (np.round(side * factor, 2) for side in (self.bid, self.ask))
        return Tape(self.offsets, bid, self.bid_size, ask, self.ask_size, self.length)


@dataclass(frozen=True)
class Stock:
    symbol: str
    tape: Tape
    phase: int = 0
    """The start position on the tape, so that copies of one tape do not move together."""

    def between(self, start: int, end: int) -> pa.Table:
        """The quotes from `start` to before `end`, in microseconds since the market opened."""
        return pa.concat_tables([self._lap(lap, start, end) for lap in self._laps(start, end)])

    def _laps(self, start: int, end: int) -> range:
        """The numbers of the loops over the tape that are in this stretch."""
        return range((start + self.phase) // self.tape.length, (end - 1 + self.phase) // self.tape.length + 1)

    def _lap(self, lap: int, start: int, end: int) -> pa.Table:
        tape = self.tape
        shift = lap * tape.length - self.phase
        first, after = np.searchsorted(tape.offsets, [start - shift, end - shift])
        in_stretch = slice(first, after)
        times = pa.array(tape.offsets[in_stretch] + (FIRST_DAY + OPENS + shift))
        columns = [
            times.cast(SCHEMA.field("time").type),
            pa.repeat(pa.scalar(self.symbol), len(times)),
            *(pa.array(side[in_stretch]) for side in (tape.bid, tape.bid_size, tape.ask, tape.ask_size)),
        ]
        return pa.table(columns, schema=SCHEMA)


@dataclass(frozen=True)
class Market:
    stocks: Sequence[Stock]
    source: str
    """The origin of the quotes, in words."""

    def between(self, start: int, end: int) -> pa.Table:
        """The quotes of all stocks from `start` to before `end`, in time order."""
        return pa.concat_tables([stock.between(start, end) for stock in self.stocks]).sort_by(
            [("time", "ascending"), ("symbol", "ascending")]
        )


def market(folder: Path, stocks: int) -> Market:
    """Recorded quotes if the folder has them, else generated ones."""
    return recorded(folder, stocks) if (folder / RECORDING).is_file() else generated(stocks)


def recorded(folder: Path, stocks: int) -> Market:
    """A recorded stock and copies of it, which start elsewhere on the tape, with other prices and fewer quotes."""
    tape = read_tape(folder / RECORDING)
    copies = [
        Stock(
            "XXX" if number == 0 else f"XXX{number + 1}",
            tape.every(number + 1).priced(0.8**number),
            phase=number * tape.length // stocks,
        )
        for number in range(stocks)
    ]
    return Market(copies, "recorded quotes of one stock, with copies of it")


def read_tape(path: Path) -> Tape:
    """The regular hours of all recorded days as one tape, without the nights, which would be long pauses.

    Everything else stays: one-sided and stale quotes are in the stream as they are in the recording.
    """
    raw = pq.read_table(path, columns=["DT", "BID", "BIDSIZ", "OFR", "OFRSIZ"])
    time = np.asarray(
        pc.cast(raw["DT"], pa.timestamp("us", tz=raw.schema.field("DT").type.tz), safe=False).cast("int64")
    )
    day, time_of_day = np.divmod(time, DAY)
    trading = (time_of_day >= OPENS) & (time_of_day < CLOSES)
    days, number = np.unique(day[trading], return_inverse=True)
    hours = CLOSES - OPENS
    offsets = number * hours + time_of_day[trading] - OPENS
    bid, ask = (np.asarray(raw[name].cast("float64"))[trading] for name in ("BID", "OFR"))
    bid_size, ask_size = (np.asarray(raw[name].cast("int64"))[trading] for name in ("BIDSIZ", "OFRSIZ"))
    return Tape(offsets, bid, bid_size, ask, ask_size, len(days) * hours)


def generated(stocks: int, seed: int = 2018) -> Market:
    """Independent generated stocks. The first has as many quotes as the recorded one, the others fewer."""
    generated_stocks = [
        Stock(f"GEN{number + 1}", made_up_tape(3 / (number + 1), 160 * 0.8**number, seed + number))
        for number in range(stocks)
    ]
    return Market(generated_stocks, "generated quotes, since there is no recording")


def made_up_tape(rate: float, price: float, seed: int) -> Tape:
    """A day of generated quotes, on average `rate` per second, starting at `price`.

    Quotes come in bursts, and more often near the opening and the close. The price is a random walk in ticks, and the
    spread is mostly one or two ticks.
    """
    random = np.random.default_rng(seed)
    length = CLOSES - OPENS
    count = max(1, int(rate * length / SECOND))
    # Gamma-distributed gaps with a small shape are mostly tiny and sometimes very long.
    cumulated = np.cumsum(random.gamma(0.3, size=count + 1))
    day = np.linspace(0, 1, 1_000)
    quotes_until = np.cumsum(1 + 3 * (2 * day - 1) ** 2)
    share = np.interp(cumulated[:-1] / cumulated[-1], (quotes_until - quotes_until[0]) / np.ptp(quotes_until), day)
    offsets = np.minimum((share * length).astype(np.int64), length - 1)
    steps = random.choice([-1, 0, 1], size=count, p=[0.25, 0.5, 0.25])
    spread = random.geometric(0.6, size=count)
    # In ticks, and at least one, since a random walk may become negative.
    bid = np.maximum(round(price / TICK) + np.cumsum(steps), 1)
    return Tape(
        offsets,
        np.round(bid * TICK, 2),
        random.geometric(0.3, size=count),
        np.round((bid + spread) * TICK, 2),
        random.geometric(0.3, size=count),
        length,
    )
