"""The data sets of the approximate and the shed benchmark: those of SPEAr and CoD, or generated ones like them.

Each is a table of `time`, `value` and, for grouped queries, `key`, in time order. If a file is missing, tuples are
generated with as many groups of about the same sizes. Times are scaled so that windows have as many tuples as in
Katsipoulakis et al. (2020), *SPEAr*, and short files are repeated at later times.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

from muntin.arrays import Array, Int64Array
from muntin.durations import describe
from muntin.engine.map_stage import shard_of

FOLDER = Path(__file__).parents[4] / "shared" / "data"
"""A folder beside the project."""
SECOND = 1_000_000
MINUTE, DAY = 60 * SECOND, 86_400 * SECOND
BEGIN = 19_680 * DAY
"""A midnight, so that windows of any size and slide begin with the tuples."""
TIME = pa.timestamp("us", tz="UTC")
ARRIVALS = {
    "DEC": "dec_pkt_1_udp_830k/dec_pkt_1_udp_arrivals_us.parquet",
    "Bellcore": "bc_paug89_1m/bc_paug89_arrivals_us.parquet",
}
"""The times of packets. Their sizes are in another file."""

PACKETS_IN_WINDOW = 47_000
TASKS_IN_HOUR = 320_000
RIDES_IN_WINDOW = 10_000
"""The mean tuples of a window, from table 1 and section 5.4 of SPEAr."""
ZIPF_IN_WINDOW, ZIPF_GROUPS, ZIPF_VARIATION = 100_000, 10_000, 0.2
"""Tuples of a window, groups, and the coefficient of variation of the values of one group."""
WORKERS = 4
"""SPEAr divides the routes among this many workers. A budget is that of one worker."""
MIX = 40_000
"""The mix of packet sizes changes after this many packets, a little less than a window."""
NEIGHBOURS = 500
"""Sizes are drawn from this many neighbouring packets of the real ones."""
CLASSES = {0: 0.8125, 1: 0.0360, 2: 0.1487, 3: 0.0028}
"""Google's scheduling classes, and the share of tasks in each."""


@dataclass(frozen=True)
class DataSet:
    """A stream, and the windows over it."""

    name: str
    tuples: pa.Table
    size: int
    slide: int
    """Microseconds."""
    made: bool
    """Whether the tuples are generated."""
    groups: tuple[int, ...] | None = None
    """The keys, if a query may know them in advance."""

    @property
    def title(self) -> str:
        return f"{self.name}{' (made)' * self.made}, {describe(self.size)}"

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(name for name in self.tuples.column_names if name == "key")

    @property
    def times(self) -> Int64Array:
        return np.asarray(self.tuples["time"].cast(pa.int64()))

    @property
    def ends(self) -> Int64Array:
        """The ends of the windows that have all their tuples, and a few later ones."""
        return np.arange(BEGIN + self.size, int(self.times[-1]) - self.lag, self.slide)

    @property
    def lag(self) -> int:
        """How far windows close behind the latest tuple."""
        return self.slide // 10

    @property
    def apart(self) -> slice:
        """Selects windows without common tuples, whose errors are independent."""
        return slice(None, None, self.size // self.slide)

    @property
    def tuples_per_window(self) -> float:
        return fmean(len(self.within(end - self.size, end)) for end in self.ends.tolist())

    def within(self, start: int, end: int) -> pa.Table:
        """The tuples from `start` to before `end`."""
        first, last = np.searchsorted(self.times, [start, end])
        return self.tuples.slice(first, last - first)

    def over(self, size: int, slide: int) -> DataSet:
        """The same tuples in other windows."""
        return replace(self, size=size, slide=slide)


def _table(times: Array, values: Array, keys: Array | pa.Array | None = None) -> pa.Table:
    columns = {"time": pa.array(times.astype(np.int64)).cast(TIME), "value": pa.array(values)}
    return pa.table(columns if keys is None else {**columns, "key": keys})


def packets(name: str, count: int) -> DataSet:
    """DEC: the sizes of packets, in windows of 45 seconds by 15. `name` is "DEC", "Bellcore" or "even".

    The first two are traces. Even packets are always generated: every window has exactly as many.
    """
    rng = np.random.default_rng(list(name.encode()))  # another seed per name, so that generated sets differ
    size, slide = 45 * SECOND, 15 * SECOND
    made = name not in ARRIVALS or not (FOLDER / ARRIVALS[name]).exists()
    if made:
        times = np.arange(count) * size // PACKETS_IN_WINDOW
    else:
        times = pq.read_table(FOLDER / ARRIVALS[name])["ts_us"].to_numpy()
        rate = len(times) / (times[-1] - times[0])
        times = ((times - times[0]) * (rate * size / PACKETS_IN_WINDOW)).astype(np.int64)[:count]
    return DataSet(f"{name} packets", _table(BEGIN + times, _sizes(len(times), rng)), size, slide, made)


def _sizes(count: int, rng: np.random.Generator) -> Int64Array:
    """Sizes drawn from neighbouring real packets, so that windows differ as in real traffic."""
    path = FOLDER / "bc_paug89_1m" / "BC-pAug89-first10k_time_size.TL.gz"
    if path.exists():
        with gzip.open(path, "rt") as lines:
            real = np.array([int(line.split()[1]) for line in lines])
    else:
        real = _made_sizes(10_000, np.random.default_rng(0))
    mixes = rng.integers(0, len(real) - NEIGHBOURS, -(-count // MIX))
    return np.asarray(real[np.repeat(mixes, MIX)[:count] + rng.integers(0, NEIGHBOURS, count)])


def _made_sizes(count: int, rng: np.random.Generator) -> Int64Array:
    """Ethernet frames of 1989: small ones, and pages of a file server at a varying rate."""
    large = 0.28 + 0.12 * np.sin(np.arange(count) / 700)
    small = rng.choice([66, 74, 142, 150, 162, 174], count, p=[0.1, 0.1, 0.1, 0.1, 0.33, 0.27])
    other = rng.choice([1090, 1518], count, p=[0.86, 0.14])
    return np.where(rng.random(count) < large, other, small)


def tasks(count: int) -> DataSet:
    """GCM: the CPU time of tasks by their scheduling class, in windows of an hour by half an hour."""
    path = FOLDER / "google_cluster_16k" / "google-cluster-data.txt.gz"
    if path.exists():
        with gzip.open(path, "rt") as lines:
            rows = [line.split() for line in lines]
        seconds = np.array([int(row[0]) for row in rows])
        keys, values = np.array([int(row[6]) for row in rows]), np.array([float(row[8]) for row in rows])
    else:
        rng = np.random.default_rng(2)
        seconds = np.sort(rng.integers(1, 648, 16_385))
        keys = rng.choice(list(CLASSES), len(seconds), p=list(CLASSES.values()))
        values = np.round(rng.lognormal(np.log(0.02 * (1 + keys)), 0.8), 3)
    within = len(keys) * 3600 * SECOND // TASKS_IN_HOUR
    tuples = _repeated(_table(seconds * SECOND, values, pa.array(keys)), within, count)
    return DataSet("GCM tasks", tuples, 60 * MINUTE, 30 * MINUTE, not path.exists(), groups=tuple(CLASSES))


def rides(name: str, count: int, workers: int = WORKERS) -> DataSet:
    """DEBS: the fare of taxi rides by route, in windows of 30 minutes by 15. `name` is "DEBS" or "NYC".

    The routes are those of one of `workers` workers.
    """
    real_rides = {"DEBS": _debs_rides, "NYC": _nyc_rides}[name]()
    if real_rides is None:
        rng = np.random.default_rng(list(name.encode()))
        # About half as many routes as rides. Most occur once or twice.
        routes, fares = _skewed(10_000, 10_000, rng), np.round(rng.lognormal(2.3, 0.6, 10_000), 1)
        tuples = _table(np.sort(rng.integers(0, 3240 * SECOND, 10_000)), fares, pa.array(routes))
    else:
        tuples = real_rides
    tuples = _repeated(tuples, len(tuples) * 30 * MINUTE // RIDES_IN_WINDOW, count)
    return DataSet(f"{name} rides", _of_one_worker(tuples, workers), 30 * MINUTE, 15 * MINUTE, made=real_rides is None)


def _debs_rides() -> pa.Table | None:
    """A route leads from one cell of 500 metres to another, as in the DEBS 2015 challenge."""
    path = FOLDER / "debs2015_10k" / "sorted_data_first10004.csv.gz"
    if not path.exists():
        return None
    rows = csv.read_csv(path, read_options=csv.ReadOptions(autogenerate_column_names=True))
    longitude, latitude = (np.stack([rows[f"f{i}"].to_numpy() for i in fields]) for fields in ((6, 8), (7, 9)))
    east = np.floor((longitude + 74.913585) / 0.005986).astype(np.int64)
    south = np.floor((41.474937 - latitude) / 0.004491556).astype(np.int64)
    in_area = ((east >= 0) & (east < 300) & (south >= 0) & (south < 300)).all(axis=0)
    cell = 300 * east + south
    keys = (cell[0] * 90_000 + cell[1])[in_area]
    times = np.asarray(rows["f3"].cast(pa.timestamp("us")).cast(pa.int64()))[in_area]
    return _table(times, rows["f11"].to_numpy()[in_area], pa.array(keys))


def _nyc_rides() -> pa.Table | None:
    path = FOLDER / "nyc_yellow_2022_100k" / "yellow_tripdata_2022-01_first100k.csv.gz"
    if not path.exists():
        return None
    rows = csv.read_csv(path)
    times = np.asarray(rows["tpep_pickup_datetime"].cast(pa.timestamp("us")).cast(pa.int64()))
    keys = rows["PULocationID"].to_numpy() * 1000 + rows["DOLocationID"].to_numpy()
    order = np.argsort(times, kind="stable")
    order = order[np.abs(times[order] - np.median(times)) < DAY]  # a few have times of other years
    return _table(times[order], rows["fare_amount"].to_numpy()[order], pa.array(keys[order]))


def flights(count: int) -> DataSet:
    """The delay of flights by route, in windows of 30 days by 10."""
    path = FOLDER / "flights_3m" / "flights-3m.parquet"
    if path.exists():
        rows = pq.read_table(path).slice(0, count)
        routes = pc.binary_join_element_wise(
            rows["origin"].cast(pa.string()), rows["destination"].cast(pa.string()), "-"
        )
        times = np.asarray(rows["date"].cast(pa.int64()))
        times = times - times[0] // DAY * DAY + BEGIN
        tuples = _table(times, rows["delay"].to_numpy(), routes.combine_chunks())
    else:
        rng = np.random.default_rng(4)
        times = np.sort(rng.integers(0, count * 181 * DAY // 3_000_000, count)) // MINUTE * MINUTE
        names = pa.array([f"{i // 58:03d}-{i % 58:03d}" for i in range(3_399)])
        routes = names.take(pa.array(_skewed(count, 3_399, rng)))
        tuples = _table(BEGIN + times, np.round(rng.gamma(0.5, 40, count) - 12).astype(np.int64), routes)
    return DataSet("flights", tuples, 30 * DAY, 10 * DAY, made=not path.exists())


def zipf(count: int) -> DataSet:
    """Generated rides in the size of CoD's DEBS data: 100,000 per window, on thousands of mostly rare routes.

    The fares of a route vary by about a fifth. Windows are 30 minutes by 10, as in Katsipoulakis et al. (2018), *CoD*.
    """
    rng = np.random.default_rng(6)
    keys = zipf_keys(count, rng)
    typical, spread = rng.lognormal(2.3, 0.6, ZIPF_GROUPS), np.sqrt(np.log(1 + ZIPF_VARIATION**2))
    fares = typical[keys] * rng.lognormal(-(spread**2) / 2, spread, count)
    times = np.arange(count) * 30 * MINUTE // ZIPF_IN_WINDOW
    return DataSet("Zipf rides", _table(BEGIN + times, fares, pa.array(keys)), 30 * MINUTE, 10 * MINUTE, made=True)


def zipf_keys(count: int, rng: np.random.Generator) -> Int64Array:
    """The routes of generated rides: route n is 1/n times as frequent as the first."""
    share = 1 / np.arange(1.0, ZIPF_GROUPS + 1)
    return rng.choice(ZIPF_GROUPS, count, p=share / share.sum())


def _skewed(count: int, groups: int, rng: np.random.Generator) -> Int64Array:
    """Groups as skewed as routes: the most frequent one has a few per mille."""
    share = 1 / (np.arange(groups) + groups / 25) ** 1.1
    return rng.choice(groups, count, p=share / share.sum())


def _repeated(tuples: pa.Table, within: int, count: int) -> pa.Table:
    """Repeat the tuples, scaled to `within` microseconds, until there are `count`."""
    times = np.asarray(tuples["time"].cast(pa.int64()))
    times = ((times - times[0]) * (within / (times[-1] - times[0] + 1))).astype(np.int64)
    rounds = -(-count // len(tuples))
    repeated_times = np.concatenate([BEGIN + i * within + times for i in range(rounds)])
    repeated = pa.concat_tables([tuples] * rounds).set_column(0, "time", pa.array(repeated_times).cast(TIME))
    return repeated.slice(0, count).combine_chunks()


def _of_one_worker(tuples: pa.Table, workers: int) -> pa.Table:
    """The tuples of one worker's routes."""
    shard = shard_of([tuples["key"].combine_chunks()], len(tuples), workers)
    return tuples.filter(pa.array(shard == 0)).combine_chunks()
