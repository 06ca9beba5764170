"""Linear Road: position reports like those of the benchmark's generator, and the query of Gulisano (2024) over them.

The benchmark is that of Arasu et al., *Linear Road: A Stream Data Management Benchmark* (VLDB 2004). Speeds, lanes,
entries and lengths of trips follow the benchmark's records of the first five minutes on one expressway. Three hours of
`Road()` are ten million reports, and their rate grows from 12 to 1,600 per second. `PUBLISHED` has the 44 million of
Gulisano (2024), on four expressways.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

import muntin
from muntin import aggregates as A
from muntin import windows as W
from muntin.arrays import Array

EPOCH = 1_700_006_400_000_000
"""The time of second 0, in microseconds: a midnight."""
SECOND = 1_000_000
INTERVAL = 30
"""Seconds between two reports of a vehicle."""
SPAN = 3 * 3600
"""The length of the benchmark, in seconds."""
SEGMENT = 5280
"""The length of a segment, in feet."""
SEGMENTS = 100
FEET = 44
"""Feet that a vehicle covers between two reports, at one mile per hour."""
LONGEST = 74
"""Reports of the longest trip, which takes 37 minutes. Lengths are uniform up to it."""
TOP_SPEED = 75

SCHEMA = "time timestamp, vehicle int, speed int, xway int, lane int, dir int, seg int, pos int"
ARROW_SCHEMA = pa.schema(
    [
        pa.field(name, pa.timestamp("us", tz="UTC") if kind == "timestamp" else pa.int32())
        for name, kind in (column.split() for column in SCHEMA.split(", "))
    ]
)


@dataclass(frozen=True)
class Road:
    """The parameters of expressways and their traffic."""

    xways: int = 1
    seconds: int = SPAN
    joins: tuple[float, float] = (10.0, 46.0)
    """Vehicles that join each expressway per second, at the start and after three hours."""
    stopping: float = 0.001
    """The probability that a moving vehicle has stopped by its next report."""
    staying: float = 0.75
    """The probability that a stopped vehicle is still stopped at its next report."""
    seed: int = 0

    @property
    def expected_reports(self) -> float:
        """The expected number of reports. Vehicles that join late are still on the way at the end."""
        total, intervals = 0.0, -(-self.seconds // INTERVAL)
        for interval in range(intervals):
            reports_until_end = np.minimum(np.arange(1, LONGEST + 1), intervals - interval)
            total += self.joining_per_second(interval * INTERVAL) * INTERVAL * float(reports_until_end.mean())
        return total

    def joining_per_second(self, second: int) -> float:
        """Vehicles that join all expressways per second."""
        first, last = self.joins
        return (first + (last - first) * second / SPAN) * self.xways


PUBLISHED = Road(xways=4, joins=(10.8, 50.15))
"""Three hours of traffic with as many reports as in Gulisano (2024), who does not name the number of expressways."""


@dataclass
class _Traffic:
    """The vehicles on the road: each array has one value per vehicle."""

    vehicle: Array
    second: Array
    """The second of the interval in which it reports."""
    xway: Array
    dir: Array
    lane: Array
    pos: Array
    speed: Array
    cruise: Array
    """Its speed at full pace."""
    done: Array
    """Reports so far."""
    trip: Array
    """Reports of the whole trip."""

    def __len__(self) -> int:
        return len(self.vehicle)

    def only(self, vehicles: Array) -> _Traffic:
        return _Traffic(**{name: column[vehicles] for name, column in vars(self).items()})

    def and_also(self, other: _Traffic) -> _Traffic:
        theirs = vars(other)
        return _Traffic(**{name: np.concatenate([column, theirs[name]]) for name, column in vars(self).items()})


def reports(road: Road, stretch: int = 60) -> Iterator[pa.Table]:
    """The reports in time order, one table per `stretch` seconds, a multiple of the interval.

    The reports do not depend on `stretch`.
    """
    if stretch < INTERVAL or stretch % INTERVAL:
        raise ValueError(f"stretch must be a multiple of {INTERVAL} seconds, got {stretch}")
    rng = np.random.default_rng(road.seed)
    traffic = _joining(road, rng, 0, 0).only(np.arange(0))
    vehicles = 0
    tables = []
    for begin in range(0, road.seconds, INTERVAL):
        joining = _joining(road, rng, begin, vehicles)
        vehicles += len(joining)
        traffic = traffic.and_also(joining)
        _drive(road, rng, traffic)
        tables.append(_reported(traffic, begin, road.seconds))
        traffic = traffic.only(traffic.done < traffic.trip)
        end = begin + INTERVAL
        if end % stretch == 0 or end >= road.seconds:
            yield pa.concat_tables(tables).combine_chunks()
            tables = []


def _joining(road: Road, rng: np.random.Generator, begin: int, number: int) -> _Traffic:
    """The vehicles that join in one interval, on their ramps. `number` vehicles have joined before."""
    count = int(rng.poisson(road.joining_per_second(begin) * INTERVAL))
    trip = rng.integers(1, LONGEST + 1, count)
    # The entry is the earlier of two uniform positions, limited so that the longest way from it stays on the road.
    room = SEGMENTS - trip * FEET * TOP_SPEED / SEGMENT - 1
    entry = np.floor((1 - np.sqrt(rng.random(count))) * room) * SEGMENT + rng.integers(230, 600, count)
    backwards = rng.integers(0, 2, count)
    return _Traffic(
        vehicle=np.arange(number, number + count),
        second=rng.integers(0, INTERVAL, count),
        xway=rng.integers(0, road.xways, count),
        dir=backwards,
        lane=np.zeros(count, dtype=np.int64),
        pos=np.where(backwards, SEGMENTS * SEGMENT - 1 - entry, entry).astype(np.int64),
        speed=rng.integers(20, 34, count),
        cruise=np.clip(rng.normal(57, 7, count), 44, TOP_SPEED),
        done=np.zeros(count, dtype=np.int64),
        trip=trip,
    )


def _drive(road: Road, rng: np.random.Generator, traffic: _Traffic) -> None:
    """Advance each vehicle to its next report. The first is on the ramp, the second not yet at full speed."""
    count = len(traffic)
    on_the_way = traffic.done > 0
    standing = rng.random(count) < np.where(traffic.speed == 0, road.staying, road.stopping)
    wanted = np.where(traffic.done == 1, rng.normal(33, 8, count), traffic.cruise + rng.normal(0, 3.5, count))
    changed = (traffic.done <= 2) | (traffic.speed == 0) | (rng.random(count) < 0.6)
    speed = np.where(changed, np.clip(np.rint(wanted), 20, TOP_SPEED), traffic.speed).astype(np.int64)
    speed[standing] = 0
    lane = np.where(rng.random(count) < 0.5, 2, rng.choice([1, 3], count))
    lane[(traffic.done == traffic.trip - 1) & (rng.random(count) < 0.35)] = 4  # the exit
    traffic.speed = np.where(on_the_way, speed, traffic.speed)
    stays = ~on_the_way | (standing & (traffic.lane > 0))
    traffic.lane = np.where(stays, traffic.lane, lane)
    traffic.pos = traffic.pos + np.where(on_the_way, FEET * speed * (1 - 2 * traffic.dir), 0)
    traffic.done = traffic.done + 1


def _reported(traffic: _Traffic, begin: int, seconds: int) -> pa.Table:
    """One report of every vehicle, ordered by second."""
    order = np.argsort(traffic.second, kind="stable")
    order = order[traffic.second[order] < seconds - begin]
    columns = {
        "time": EPOCH + (begin + traffic.second[order]) * SECOND,
        "vehicle": traffic.vehicle[order],
        "speed": traffic.speed[order],
        "xway": traffic.xway[order],
        "lane": traffic.lane[order],
        "dir": traffic.dir[order],
        "seg": traffic.pos[order] // SEGMENT,
        "pos": traffic.pos[order],
    }
    arrays = [pa.array(columns[field.name]).cast(field.type) for field in ARROW_SCHEMA]
    return pa.Table.from_arrays(arrays, schema=ARROW_SCHEMA)


SIZE = "3 hours"
ADVANCE = "1 minute"
WATERMARK = "1 minute"


def stops_of_windows(frame: DataFrame, size: str = SIZE, advance: str = ADVANCE) -> muntin.Query:
    """The query of Gulisano (2024) as published: a function over the stored tuples of each window."""
    return _over(frame, size, advance).apply(count_stops, "stops long", columns=["speed"])


def stops_by_panes(frame: DataFrame, size: str = SIZE, advance: str = ADVANCE) -> muntin.Query:
    """The same query from partial results, without stored tuples."""
    return _over(frame, size, advance).agg(stops=STOPS)


def _over(frame: DataFrame, size: str, advance: str) -> muntin.Query:
    return muntin.over(frame, W.sliding(size, advance), time="time", watermark=WATERMARK, by="vehicle")


def count_stops(reports: pa.Table) -> pa.Table:
    """Count the stops. A stop is a run of reports with speed 0."""
    zero = reports.column("speed").to_numpy() == 0
    stops = np.count_nonzero(zero[1:] > zero[:-1]) + zero[0]
    return pa.table({"stops": pa.array([int(stops)], pa.int64())})


def lift_stops(speed: Array) -> tuple[Array, Array, Array]:
    """The state of a stretch: its stops, and whether its first and its last report belong to one."""
    zero = speed == 0
    return zero.astype(np.int32), zero, zero


def combine_stops(left: tuple[Array, Array, Array], right: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
    """A stop that spans both stretches counts once."""
    return left[0] + right[0] - (left[2] & right[1]), left[1], right[2]


STOPS = A.custom(lift_stops, combine_stops, lambda state: state[0], columns="speed", returns="long")
