from __future__ import annotations

import datetime as dt
import os
from itertools import pairwise
from pathlib import Path
from threading import Event

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from examples.trading import quotes
from examples.trading.__main__ import RECORDED
from examples.trading.feed import Feed
from examples.trading.quotes import CLOSES, OPENS, SECOND, Market, Stock, Tape
from hypothesis import given
from hypothesis import strategies as st

HOURS = CLOSES - OPENS


def small_tape(offsets: list[int], length: int) -> Tape:
    """A tape whose bids number the quotes, so that every quote is distinct."""
    number = np.arange(len(offsets))
    price = number.astype(np.float64)
    return Tape(np.array(offsets), price + 1, number, price + 1.5, number, length)


def seconds_since_opening(table: pa.Table) -> list[int]:
    return [round(time / SECOND) for time in np.asarray(table["time"].cast("int64")) - quotes.FIRST_DAY - OPENS]


def test_a_tape_is_played_again_with_later_times() -> None:
    stock = Stock("A", small_tape([0, 2 * SECOND, 7 * SECOND], 10 * SECOND))
    played = stock.between(0, 25 * SECOND)
    #  0 1 2 3 4 5 6 7 8 9 | 10 … 12 … 17 … | 20 … 22
    assert seconds_since_opening(played) == [0, 2, 7, 10, 12, 17, 20, 22]
    assert played["bid"].to_pylist() == [1, 2, 3, 1, 2, 3, 1, 2]


def test_a_phase_begins_within_the_tape() -> None:
    stock = Stock("A", small_tape([0, 2 * SECOND, 7 * SECOND], 10 * SECOND), phase=5 * SECOND)
    played = stock.between(0, 10 * SECOND)
    assert seconds_since_opening(played) == [2, 5, 7]
    assert played["bid"].to_pylist() == [3, 1, 2]


@given(
    st.lists(st.integers(0, 99), min_size=1, max_size=20).map(sorted),
    st.integers(0, 250),
    st.lists(st.integers(0, 400), min_size=2, max_size=6, unique=True).map(sorted),
)
def test_any_cut_gives_the_same_quotes(offsets: list[int], phase: int, cuts: list[int]) -> None:
    market = Market([Stock("A", small_tape(offsets, 100), phase), Stock("B", small_tape(offsets, 130))], "")
    pieces = [market.between(start, end) for start, end in pairwise(cuts)]
    assert pa.concat_tables(pieces).equals(market.between(cuts[0], cuts[-1]))


def test_generated_quotes_have_the_shape_of_quotes() -> None:
    stocks = quotes.generated(4).stocks
    assert [stock.symbol for stock in stocks] == ["GEN1", "GEN2", "GEN3", "GEN4"]
    rates = [len(stock.tape) / (HOURS / SECOND) for stock in stocks]
    assert rates == pytest.approx([3, 1.5, 1, 0.75], rel=0.01)  # a few stocks have most of the quotes
    for stock in stocks:
        tape = stock.tape
        gaps = np.diff(tape.offsets)
        assert (gaps >= 0).all()
        assert tape.offsets[-1] < HOURS == tape.length
        assert gaps.std() > 1.5 * gaps.mean()  # bursts: a Poisson process would have 1
        middle = np.abs(tape.offsets - HOURS / 2) < HOURS / 8
        assert middle.mean() < 0.2  # uniform arrivals would have 0.25
        for side in (tape.bid, tape.ask):
            assert np.allclose(side * 100, np.round(side * 100))  # whole ticks
        assert (tape.ask > tape.bid).all()
        assert (tape.bid > 0).all()
        assert (tape.bid_size > 0).all()
        assert (tape.ask_size > 0).all()


def test_generated_quotes_are_the_same_every_time() -> None:
    one, other = (quotes.generated(2).between(0, 600 * SECOND) for _ in range(2))
    assert one.equals(other)
    assert one.schema.equals(quotes.SCHEMA)
    assert not one.equals(quotes.generated(2, seed=1).between(0, 600 * SECOND))


def test_nights_are_cut_out_of_a_recording(tmp_path: Path) -> None:
    moments = [
        "2018-01-02 14:29:59",
        "2018-01-02 14:30",
        "2018-01-02 20:59:59",
        "2018-01-02 21:00",
        "2018-01-03 14:30:01",
    ]
    times = pa.array([dt.datetime.fromisoformat(moment).replace(tzinfo=dt.timezone.utc) for moment in moments])
    one_sided = [0.0, 1.0, 0.0, 1.0, 1.0]
    columns = {"DT": times.cast(pa.timestamp("ns", tz="UTC")), "BID": one_sided, "BIDSIZ": [1.0] * 5}
    pq.write_table(pa.table(columns | {"OFR": [1.5] * 5, "OFRSIZ": [2.0] * 5}), tmp_path / quotes.RECORDING)
    market = quotes.market(tmp_path, 2)
    tape = market.stocks[0].tape
    assert tape.offsets.tolist() == [0, HOURS - SECOND, HOURS + SECOND]
    assert tape.length == 2 * HOURS
    assert tape.bid.tolist() == [1, 0, 1]  # the stream is as raw as the recording
    copy = market.stocks[1]
    assert (len(copy.tape), copy.phase, copy.tape.ask.tolist()) == (2, HOURS, [1.2, 1.2])


@pytest.mark.skipif(not RECORDED.is_dir(), reason="there are no recorded quotes")
def test_recorded_quotes() -> None:
    market = quotes.market(RECORDED, 3)
    hour = market.between(0, 3600 * SECOND)
    assert hour.schema.equals(quotes.SCHEMA)
    counts = {entry["values"]: entry["counts"] for entry in hour["symbol"].value_counts().to_pylist()}
    assert set(counts) == {"XXX", "XXX2", "XXX3"}
    assert counts["XXX"] > 1000
    loop = market.stocks[0].tape.length
    again = market.between(loop, loop + 3600 * SECOND)
    assert again.drop_columns("time").equals(hour.drop_columns("time"))


def test_a_feed_continues_after_its_last_file(tmp_path: Path) -> None:
    market = quotes.generated(1)
    feed = Feed(market, tmp_path / "quotes", 60 * SECOND)
    feed.run(2, 0, Event())
    other = Feed(market, tmp_path / "quotes", 60 * SECOND)
    assert other.quotes == feed.quotes
    other.write()
    files = sorted((tmp_path / "quotes").iterdir(), key=os.path.getmtime)
    assert [path.name for path in files] == ["000000.parquet", "000001.parquet", "000002.parquet"]
    written = pa.concat_tables([pq.read_table(path) for path in files])
    assert written.equals(market.between(0, 180 * SECOND))
    assert other.quotes == written.num_rows


def test_a_feed_can_be_stopped(tmp_path: Path) -> None:
    stop = Event()
    stop.set()
    Feed(quotes.generated(1), tmp_path, SECOND).run(5, 60, stop)
    assert not list(tmp_path.iterdir())
