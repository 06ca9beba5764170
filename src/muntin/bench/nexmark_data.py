"""Nexmark's auction house: persons, auctions and bids, made in vectorised steps and the same ones every time.

The shapes are those of Apache Beam's generator. Of 50 events, one is a person, three are auctions and 46 are bids. Half
of the bids are on the hot auction and three quarters are of the hot bidder; the hot one changes every hundred auctions
or persons. All others go to the latest hundred auctions and the latest thousand persons, or to the next few to come.
Texts that no query reads (addresses, descriptions, padding) are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrays import BoolArray, Int64Array

EPOCH = 1_700_000_000_000_000
"""The time of the first event, in microseconds."""
PER_SECOND = 10_000
"""Events per second of event time."""
INTERVAL = 1_000_000 // PER_SECOND
"""Microseconds between two events: no two have the same time."""
EVENTS, PERSONS, AUCTIONS, BIDS = 50, 1, 3, 46
"""Of so many events, so many are of each kind."""
HOT_AUCTIONS, HOT_BIDDERS, HOT_SELLERS = 2, 4, 4
"""One in so many does not go to the hot one."""
HOT_SPAN = 100
"""How many auctions or persons later another one is hot."""
IN_FLIGHT, ACTIVE, LEAD = 100, 1_000, 10
"""The latest auctions and persons that others refer to, and how many of the future."""
FIRST_ID = 1_000
CATEGORIES = np.arange(10, 15)
TIME = pa.timestamp("us", tz="UTC")
FIRST_NAMES = ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"]
LAST_NAMES = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"]
CITIES = ["Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent"]
CHANNELS = ["Google", "Facebook", "Baidu", "Apple"]


@dataclass(frozen=True)
class Events:
    """The events of a stretch of time, in the order of their time."""

    persons: pa.Table
    auctions: pa.Table
    bids: pa.Table

    @property
    def count(self) -> int:
        return len(self.persons) + len(self.auctions) + len(self.bids)


def batches(count: int, events: int) -> Iterator[Events]:
    """Some batches of so many events each."""
    return (generate(number * events, events) for number in range(count))


def generate(first: int, count: int) -> Events:
    """The events `first` to `first + count`, without those before."""
    rng = np.random.default_rng([first, count])
    number = np.arange(first, first + count)
    place = number % EVENTS
    auctions, bids = (place >= PERSONS) & (place < PERSONS + AUCTIONS), place >= PERSONS + AUCTIONS
    return Events(_persons(number[place < PERSONS], rng), _auctions(number[auctions], rng), _bids(number[bids], rng))


def _persons(number: Int64Array, rng: np.random.Generator) -> pa.Table:
    count = len(number)
    names = [f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES]
    return pa.table(
        {
            "id": _last_person(number) + FIRST_ID,
            "name": _of(names, rng, count),
            "city": _of(CITIES, rng, count),
            "at": _times(number),
        }
    )


def _auctions(number: Int64Array, rng: np.random.Generator) -> pa.Table:
    count = len(number)
    hot = _last_person(number) // HOT_SPAN * HOT_SPAN
    horizon = IN_FLIGHT * EVENTS // AUCTIONS * INTERVAL
    lasts = 1 + rng.integers(0, 2 * horizon, count)
    price = _prices(rng, count)
    return pa.table(
        {
            "id": _last_auction(number) + FIRST_ID,
            "seller": np.where(_hot(rng, count, HOT_SELLERS), hot, _person(number, rng)) + FIRST_ID,
            "category": rng.choice(CATEGORIES, count),
            "initial_bid": price,
            "reserve": price + _prices(rng, count),
            "expires": _times(number, lasts),
            "at": _times(number),
        }
    )


def _bids(number: Int64Array, rng: np.random.Generator) -> pa.Table:
    count = len(number)
    last = _last_auction(number)
    begin = np.maximum(last - IN_FLIGHT, 0)
    auction = begin + rng.integers(0, last - begin + 1 + LEAD)
    hot_bidder = _last_person(number) // HOT_SPAN * HOT_SPAN + 1
    return pa.table(
        {
            "auction": np.where(_hot(rng, count, HOT_AUCTIONS), last // HOT_SPAN * HOT_SPAN, auction) + FIRST_ID,
            "bidder": np.where(_hot(rng, count, HOT_BIDDERS), hot_bidder, _person(number, rng)) + FIRST_ID,
            "price": _prices(rng, count),
            "channel": _of(CHANNELS, rng, count),
            "at": _times(number),
        }
    )


def _last_person(number: Int64Array) -> Int64Array:
    """The latest person at an event, counted from 0: every 50 events begin with one."""
    return number // EVENTS


def _last_auction(number: Int64Array) -> Int64Array:
    """The latest auction at an event, counted from 0. Before the first one, that is the first one."""
    known = np.clip(number % EVENTS - PERSONS, -1, AUCTIONS - 1)
    return np.asarray(np.maximum(number // EVENTS * AUCTIONS + known, 0))


def _person(number: Int64Array, rng: np.random.Generator) -> Int64Array:
    """Any of the latest persons, or of the next ones."""
    known = _last_person(number) + 1
    active = np.minimum(known, ACTIVE)
    return np.asarray(known - active + rng.integers(0, active + LEAD))


def _hot(rng: np.random.Generator, count: int, ratio: int) -> BoolArray:
    return rng.integers(0, ratio, count) > 0


def _prices(rng: np.random.Generator, count: int) -> Int64Array:
    """From a dollar to a million of them, in cents: each digit more is as frequent as the one before."""
    return np.asarray(np.round(10 ** (rng.random(count) * 6) * 100), dtype=np.int64)


def _of(texts: list[str], rng: np.random.Generator, count: int) -> pa.Array:
    return pa.array(texts).take(pa.array(rng.integers(0, len(texts), count)))


def _times(number: Int64Array, after: Int64Array | int = 0) -> pa.Array:
    return pa.array(EPOCH + number * INTERVAL + after).view(TIME)


def sold(auctions: pa.Table, bids: pa.Table) -> pa.Table:
    """The auctions that had a bid before they expired, with their highest bid, in the order in which they expire."""
    joined = bids.join(auctions.select(["id", "seller", "expires", "at"]), "auction", "id", right_suffix="_opened")
    valid = pc.and_(pc.greater_equal(joined["at"], joined["at_opened"]), pc.less_equal(joined["at"], joined["expires"]))
    best = joined.filter(valid).group_by(["auction", "seller", "expires"]).aggregate([("price", "max")])
    best = best.rename_columns([{"price_max": "price", "expires": "at"}.get(name, name) for name in best.column_names])
    return best.select(["auction", "seller", "price", "at"]).sort_by([("at", "ascending"), ("auction", "ascending")])
