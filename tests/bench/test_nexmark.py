"""Nexmark: the events have its shapes, the queries are those of the example, and their answers are Spark's."""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from muntin.bench import flink, nexmark, nexmark_flink, nexmark_queries
from muntin.bench.bars import draw
from muntin.bench.nexmark_data import ACTIVE, EPOCH, FIRST_ID, LEAD, Events, batches, generate, sold
from muntin.bench.nexmark_flink import NEXMARK
from muntin.bench.nexmark_systems import QUERIES, Query
from muntin.errors import MuntinError

EXAMPLE = Path(__file__).parents[2] / "examples" / "nexmark.py"


def test_the_events_have_the_shapes_of_nexmark() -> None:
    first, second = batches(2, 100_000)
    for events in (first, second):
        assert (len(events.persons), len(events.auctions), len(events.bids)) == (2_000, 6_000, 92_000)
        assert events.count == 100_000
    assert generate(100_000, 100_000) == second
    ids = pa.concat_tables([first.persons, second.persons])["id"].to_numpy()
    assert np.array_equal(ids, FIRST_ID + np.arange(4_000))
    ids = pa.concat_tables([first.auctions, second.auctions])["id"].to_numpy()
    assert np.array_equal(ids, FIRST_ID + np.arange(12_000))
    times = np.concatenate([table["at"].cast(pa.int64()).to_numpy() for table in _tables(first)])
    assert np.array_equal(np.sort(times), EPOCH + np.arange(100_000) * 100)


def test_half_of_the_bids_are_on_the_hot_auction_and_others_on_the_latest() -> None:
    bids = generate(50_000, 50_000).bids
    auction, bidder = (bids[name].to_numpy() - FIRST_ID for name in ("auction", "bidder"))
    number = (bids["at"].cast(pa.int64()).to_numpy() - EPOCH) // 100
    last = number // 50 * 3 + 2
    hot = auction == last // 100 * 100
    assert 0.49 < hot.mean() < 0.52
    assert np.all((last[~hot] - auction[~hot] <= 100) & (auction[~hot] - last[~hot] <= LEAD))
    hot = bidder == number // 50 // 100 * 100 + 1
    assert 0.74 < hot.mean() < 0.77
    assert np.all((number[~hot] // 50 - bidder[~hot] < ACTIVE) & (bidder[~hot] - number[~hot] // 50 <= LEAD))


def test_an_auction_is_sold_for_its_highest_bid_before_it_expires() -> None:
    events = generate(0, 5_000)
    opened = {row["id"]: row for row in events.auctions.to_pylist()}
    expected: dict[int, int] = {}
    for bid in events.bids.to_pylist():
        auction = opened.get(bid["auction"])
        if auction and auction["at"] <= bid["at"] <= auction["expires"]:
            expected[bid["auction"]] = max(expected.get(bid["auction"], 0), bid["price"])
    winners = sold(events.auctions, events.bids).to_pylist()
    assert {row["auction"]: row["price"] for row in winners} == expected
    assert [row["at"] for row in winners] == sorted(opened[auction]["expires"] for auction in expected)
    assert all(row["seller"] == opened[row["auction"]]["seller"] for row in winners)


def test_the_queries_are_those_of_the_example() -> None:
    example = EXAMPLE.read_text(encoding="utf-8")
    for query in QUERIES:
        assert query.muntin.__module__ == nexmark_queries.__name__
        assert inspect.getsource(query.muntin) in example
        assert query.name in NEXMARK.queries


def test_records_name_the_rival(tmp_path: Path) -> None:
    rates = {query.name: {nexmark.FRAME: 2e6} for query in QUERIES}
    rates["Q5"] |= {nexmark.SCAN: 4e6, nexmark.SPARK: 1e6, nexmark_flink.FLINK: 8e6}
    found = nexmark.records(rates, {"Q5": 0, "Q7": 3})
    ratios = {(record.name[:2], record.baseline_name, record.ratio) for record in found}
    assert {("Q5", "Spark", 4.0), ("Q5", "Spark", 2.0), ("Q6", "", None)} <= ratios
    assert [record.meets for record in found[-2:]] == [True, False]
    flinks = nexmark_flink.records(rates, 1)
    assert ("Flink SQL", 0.5) in {(record.baseline_name, record.ratio) for record in flinks}
    assert flinks[-1].meets is False
    draw(rates, "rates", tmp_path / "chart.png")
    assert (tmp_path / "chart.png").stat().st_size > 0


def test_a_python_without_flink_is_an_error_that_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(flink.PYTHON, raising=False)
    assert not flink.is_there()
    with pytest.raises(MuntinError, match=flink.PYTHON):
        nexmark_flink.run(tmp_path)
    for python, message in ((sys.executable, "pyflink"), (str(tmp_path / "none"), "is no file")):
        monkeypatch.setenv(flink.PYTHON, python)
        assert flink.is_there()
        with pytest.raises(MuntinError, match=f"{flink.PYTHON}.*(\n|.)*{message}"):
            flink.seconds(NEXMARK, tmp_path)


@pytest.mark.spark
@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_answers_are_those_of_spark(spark: SparkSession, query: Query) -> None:
    assert nexmark.compared(spark, spark, query, 20_000) == 0


@pytest.mark.extended
def test_a_quick_run_on_spark(tmp_path: Path) -> None:
    assert nexmark.run(tmp_path, quick=True) == 0
    records = json.loads((tmp_path / "nexmark.json").read_text())
    assert sum(record["rows_per_s"] is not None for record in records) >= 11
    assert [record["ratio"] for record in records if "differ" in record["name"]] == [0.0] * len(QUERIES)


def _tables(events: Events) -> list[pa.Table]:
    return [events.persons, events.auctions, events.bids]
