"""Linear Road: its reports have the shape of the real ones, and both forms of the query count the same stops."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from muntin.arrays import Array
from muntin.bench import linear_road as lr
from muntin.bench.linear_road import Road, reports
from tests.spark.streams import Feed, results, run

RECORDS = Path(__file__).parents[3] / "shared" / "data" / "linear_road_24k" / "lr_position_reports_t0-423.csv.gz"
COMPLETE = 329
"""Seconds from which all real records are there."""
Columns = dict[str, Array]


def columns(table: pa.Table) -> Columns:
    """By vehicle and time; the time in seconds."""
    found = {name: table[name].to_numpy() for name in table.column_names if name != "time"}
    found["time"] = (table["time"].cast(pa.int64()).to_numpy() - lr.EPOCH) // lr.SECOND
    order = np.lexsort((found["time"], found["vehicle"]))
    return {name: column[order] for name, column in found.items()}


def all_of(road: Road) -> pa.Table:
    return pa.concat_tables(reports(road))


@pytest.fixture(scope="module")
def hour() -> Columns:
    return columns(all_of(Road(xways=3, seconds=3600, seed=5)))


@pytest.fixture(scope="module")
def real() -> Columns:
    if not RECORDS.exists():
        pytest.skip("the data set is not here")
    table = csv.read_csv(RECORDS)
    found = {name: table[name].to_numpy() for name in table.column_names}
    found["vehicle"] = found.pop("vid")
    kept = (found["type"] == 0) & (found["time"] < COMPLETE)
    order = np.lexsort((found["time"][kept], found["vehicle"][kept]))
    return {name: column[kept][order] for name, column in found.items()}


@pytest.fixture(scope="module")
def made() -> Columns:
    """What stands beside the real records."""
    found = columns(all_of(Road(seconds=330, seed=1)))
    return {name: column[found["time"] < COMPLETE] for name, column in found.items()}


def same_vehicle(data: Columns) -> Array:
    """Whether a report is of the vehicle of the one before it; without the first."""
    return np.asarray(np.diff(data["vehicle"]) == 0)


def trips(data: Columns) -> Array:
    """How many reports each vehicle has."""
    return np.asarray(np.unique(data["vehicle"], return_counts=True)[1])


def joined(data: Columns) -> Array:
    """When each vehicle made its first report."""
    return np.asarray(data["time"][np.append(True, ~same_vehicle(data))])


def test_vehicles_report_every_thirty_seconds(hour: Columns) -> None:
    assert set(np.diff(hour["time"])[same_vehicle(hour)].tolist()) == {lr.INTERVAL}
    assert hour["time"].min() >= 0
    assert hour["time"].max() < 3600
    # A few to tens of minutes; those who had joined before the last 37 minutes have all ended.
    whole = trips(hour)[joined(hour) < 3600 - lr.LONGEST * lr.INTERVAL]
    assert whole.max() <= lr.LONGEST
    assert 30 < whole.mean() < 45


def test_places_and_speeds(hour: Columns) -> None:
    assert (hour["seg"] == hour["pos"] // lr.SEGMENT).all()
    assert hour["pos"].min() >= 0
    assert hour["seg"].max() < lr.SEGMENTS
    assert hour["speed"].min() == 0
    assert hour["speed"].max() <= lr.TOP_SPEED
    assert set(np.unique(hour["xway"]).tolist()) == {0, 1, 2}
    assert set(np.unique(hour["lane"]).tolist()) == {0, 1, 2, 3, 4}
    # A vehicle moves as far as its speed says, east or west.
    ahead = np.diff(hour["pos"]) * (1 - 2 * hour["dir"][1:])
    assert (ahead == lr.FEET * hour["speed"][1:])[same_vehicle(hour)].all()
    for fixed in ("xway", "dir"):
        assert (np.diff(hour[fixed]) == 0)[same_vehicle(hour)].all()


def test_rate_grows(hour: Columns) -> None:
    per_ten_minutes = np.bincount(hour["time"] // 600)
    assert (np.diff(per_ten_minutes) > 0).all()
    joins = np.bincount(joined(hour) // 1200)
    assert (np.diff(joins) > 0).all()


def test_vehicles_stop_and_go_on(hour: Columns) -> None:
    zero, same = hour["speed"] == 0, same_vehicle(hour)
    stops = zero[1:] & ~zero[:-1] & same
    goes_on = ~zero[1:] & zero[:-1] & same
    stays = zero[1:] & zero[:-1] & same
    assert 0.01 < stops.sum() / len(trips(hour)) < 0.1
    assert goes_on.sum() > 0.5 * stops.sum()
    assert stays.sum() > stops.sum()
    stopped = hour["vehicle"][1:][stops]
    assert len(np.unique(stopped)) < len(stopped)  # some more than once


def test_reports_come_in_the_order_of_time() -> None:
    road = Road(xways=2, seconds=615, seed=9)
    tables = list(reports(road, stretch=120))
    assert all(table.schema == lr.ARROW_SCHEMA for table in tables)
    times = [(table["time"].cast(pa.int64()).to_numpy() - lr.EPOCH) // lr.SECOND for table in tables]
    assert (np.diff(np.concatenate(times)) >= 0).all()
    assert [(part.min() // 120, part.max() // 120) for part in times] == [(i, i) for i in range(6)]
    assert times[-1].max() < 615


def test_the_seed_decides_and_the_stretch_does_not() -> None:
    road = Road(seconds=300, seed=4)
    assert all_of(road).equals(all_of(road))
    assert pa.concat_tables(reports(road, stretch=30)).equals(pa.concat_tables(reports(road, stretch=300)))
    assert not all_of(road).equals(all_of(Road(seconds=300, seed=5)))
    with pytest.raises(ValueError, match="multiple of 30"):
        next(reports(road, stretch=45))


def test_reports_as_many_as_published() -> None:
    """Gulisano (2024): about 44 million in three hours. The generator is judged by the same arithmetic."""
    assert lr.PUBLISHED.expected_reports == pytest.approx(44e6, rel=0.002)
    for road in (Road(seconds=1815, joins=(20.0, 80.0), seed=7), Road(xways=2, seconds=5400, joins=(3.0, 9.0))):
        count = sum(map(len, reports(road, stretch=300)))
        assert count == pytest.approx(road.expected_reports, rel=0.03)


@pytest.mark.extended
def test_all_44_million_reports() -> None:
    vehicles, count, last = 0, 0, 0
    for table in reports(lr.PUBLISHED, stretch=600):
        count += len(table)
        vehicles = max(vehicles, pc.max(table["vehicle"]).as_py() + 1)
        last = pc.max(table["time"].cast(pa.int64())).as_py()
    assert round(count / 1e6) == 44
    assert count == pytest.approx(lr.PUBLISHED.expected_reports, rel=0.005)
    assert count / vehicles == pytest.approx((lr.LONGEST + 1) / 2, rel=0.15)
    assert last == lr.EPOCH + (lr.SPAN - 1) * lr.SECOND


def test_as_many_reports_as_in_the_records(real: Columns, made: Columns) -> None:
    assert set(np.diff(real["time"])[same_vehicle(real)].tolist()) == {lr.INTERVAL}
    assert len(made["time"]) == pytest.approx(len(real["time"]), rel=0.15)
    assert len(trips(made)) == pytest.approx(len(trips(real)), rel=0.15)
    ours, theirs = (np.bincount(data["time"] // 60, minlength=6)[:5] / 60 for data in (made, real))
    assert (np.abs(ours - theirs) < 0.15 * theirs + 3).all()  # the rate of each minute, as it grows
    ended = [(joined(data) + trips(data) * lr.INTERVAL < COMPLETE).mean() for data in (made, real)]
    assert abs(ended[0] - ended[1]) < 0.03


def test_speeds_as_in_the_records(real: Columns, made: Columns) -> None:
    assert (real["speed"].min(), real["speed"].max()) == (made["speed"].min(), made["speed"].max()) == (0, lr.TOP_SPEED)
    assert made["speed"].mean() == pytest.approx(real["speed"].mean(), abs=2)
    at = [0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99]
    assert np.quantile(made["speed"], at) == pytest.approx(np.quantile(real["speed"], at), abs=4)
    ours, theirs = (np.bincount(data["lane"]) / len(data["lane"]) for data in (made, real))
    assert ours == pytest.approx(theirs, abs=0.03)
    for lane in range(4):
        means = [data["speed"][data["lane"] == lane].mean() for data in (made, real)]
        assert means[0] == pytest.approx(means[1], abs=3)
    assert all(0 < (data["speed"] == 0).mean() < 0.005 for data in (made, real))
    steady = [(np.diff(data["speed"]) == 0)[same_vehicle(data)].mean() for data in (made, real)]
    assert steady[0] == pytest.approx(steady[1], abs=0.06)  # speeds that have not changed since the report before


def test_places_as_in_the_records(real: Columns, made: Columns) -> None:
    assert (real["seg"] == real["pos"] // lr.SEGMENT).all()
    assert abs((made["dir"] == 0).mean() - (real["dir"] == 0).mean()) < 0.03
    assert set(made["xway"].tolist()) == set(real["xway"].tolist()) == {0}
    ours, theirs = (np.bincount(data["dir"] * lr.SEGMENTS + data["seg"]) / len(data["seg"]) for data in (made, real))
    assert max(ours.max(), theirs.max()) < 0.015  # no segment of a direction has much of it
    halves = [(data["seg"] < 50)[data["dir"] == 0].mean() for data in (made, real)]
    assert halves[0] == pytest.approx(halves[1], abs=0.1)  # they enter early, so as to have a way before them
    ahead = np.diff(real["pos"]) * (1 - 2 * real["dir"][1:])
    apart = (ahead - lr.FEET * real["speed"][1:])[same_vehicle(real)]
    assert np.median(np.abs(apart)) < lr.FEET  # the records, too, move as far as their speed says


SIZE, ADVANCE = 1200, 300
"""Seconds; few enough windows for plain Python."""
Counts = dict[tuple[int, int], int]
"""Stops by the end of the window, in seconds, and vehicle."""


def naive_stops(table: pa.Table) -> Counts:
    found: Counts = {}
    data = columns(table)
    rows = zip(*(data[name].tolist() for name in ("vehicle", "time", "speed")), strict=True)
    for vehicle, group in groupby(rows, key=lambda row: row[0]):
        trip = list(group)
        for end in range(ADVANCE, 10 * SIZE, ADVANCE):
            speeds = [speed for _, time, speed in trip if end - SIZE <= time < end]
            if speeds:
                found[end, vehicle] = sum(zero for zero, _ in groupby(speed == 0 for speed in speeds))
    return found


def counted(rows: list[Row]) -> Counts:
    found = {(int(row.window.end.timestamp()) - lr.EPOCH // lr.SECOND, row.vehicle): row.stops for row in rows}
    assert len(found) == len(rows)
    return found


def both(frame: DataFrame) -> Iterator[DataFrame]:
    for query in (lr.stops_of_windows, lr.stops_by_panes):
        yield query(frame, size=f"{SIZE} seconds", advance=f"{ADVANCE} seconds").to_df()


@pytest.fixture(scope="module")
def stopping() -> pa.Table:
    """Half an hour of vehicles that stop often."""
    return all_of(Road(seconds=1800, joins=(0.03, 0.03), stopping=0.1, staying=0.6, seed=2))


@pytest.mark.spark
def test_both_queries_count_the_stops_of_a_table(spark: SparkSession, tmp_path: Path, stopping: pa.Table) -> None:
    expected = naive_stops(stopping)
    assert max(expected.values()) > 2
    feed = Feed(spark, tmp_path / "in", lr.SCHEMA)
    feed.add(stopping)
    for frame in both(feed.table()):
        assert counted(frame.collect()) == expected


@pytest.mark.extended
@pytest.mark.spark
def test_both_queries_count_the_stops_of_a_stream(spark: SparkSession, tmp_path: Path, stopping: pa.Table) -> None:
    """Windows that the stream has closed; the time of the last report, less the watermark, decides which."""
    feed = Feed(spark, tmp_path / "in", lr.SCHEMA)
    feed.add(*reports(Road(seconds=1800, joins=(0.03, 0.03), stopping=0.1, staying=0.6, seed=2), stretch=600))
    closed = int(columns(stopping)["time"].max()) - 60
    expected = {key: stops for key, stops in naive_stops(stopping).items() if key[0] <= closed}
    for number, frame in enumerate(both(feed.stream())):
        place = tmp_path / str(number)
        run(frame, place)
        assert counted(results(spark, frame, place)) == expected
