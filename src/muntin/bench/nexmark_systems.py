"""Nexmark's queries with windows in Spark's own words, and what of the answers is compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from muntin.bench import nexmark_queries as ours

DELAY = "1 second"
SIZE = "10 seconds"
START, END = "unix_micros(window.start)", "unix_micros(window.end)"


@dataclass(frozen=True)
class Query:
    """A query over one or two streams of events, and what Spark does instead."""

    name: str
    title: str
    inputs: tuple[str, ...]
    muntin: Callable[..., DataFrame]
    spark: Callable[..., DataFrame]
    answer: tuple[str, ...]
    """The expressions over the results that are compared."""
    streams: bool = True
    """Whether Spark can run it on streams."""


def _rows(frame: DataFrame) -> DataFrame:
    """Streams need a watermark."""
    return frame.withWatermark("at", DELAY) if frame.isStreaming else frame


def _hot_items(bids: DataFrame) -> DataFrame:
    """The counts of all auctions, and the largest of each window: two aggregations in a chain."""
    counts = _rows(bids).groupBy(F.window("at", SIZE, "2 seconds"), "auction").agg(F.count("*").alias("bids"))
    best = F.max(F.struct("bids", (-F.col("auction")).alias("smallest"), "window")).alias("best")
    largest = counts.groupBy(F.window(F.window_time("window"), "2 seconds").alias("slide")).agg(best)
    return largest.select("best.window", (-F.col("best.smallest")).alias("auction"), "best.bids")


def _selling_price(auctions: DataFrame, bids: DataFrame) -> DataFrame:
    """From the auctions and bids: who won, and the mean of ten rows. On tables alone."""
    valid = (F.col("auction") == F.col("id")) & F.col("bid_at").between(F.col("at"), F.col("expires"))
    won = bids.withColumnRenamed("at", "bid_at").join(auctions, valid).groupBy("auction", "seller", "expires")
    in_order = Window.partitionBy("seller").orderBy("expires", "auction")
    last_ten = in_order.rowsBetween(-9, 0)
    number: Column = F.row_number().over(in_order) - 10
    return (
        won.agg(F.max("price").alias("price"))
        .select("seller", number.alias("window_id"), F.avg("price").over(last_ten).alias("mean_price"))
        .where("window_id >= 0")
    )


def _highest_bid(bids: DataFrame) -> DataFrame:
    best = F.max(F.struct("price", (-F.unix_micros("at")).alias("earliest"), "auction", "bidder")).alias("best")
    return _rows(bids).groupBy(F.window("at", SIZE)).agg(best).select("window", "best.*")


def _new_sellers(persons: DataFrame, auctions: DataFrame) -> DataFrame:
    new = _rows(persons).select(F.window("at", SIZE).alias("window"), F.col("id").alias("seller"), "name")
    opened = _rows(auctions).select(F.window("at", SIZE).alias("window"), "seller")
    pairs = new.join(opened, ["window", "seller"])
    return pairs.groupBy("window", "seller").agg(F.max("name").alias("name"), F.count("*").alias("auctions"))


def _bidding_sessions(bids: DataFrame) -> DataFrame:
    sessions = _rows(bids).groupBy(F.session_window("at", SIZE).alias("window"), "bidder")
    return sessions.agg(F.count("*").alias("bids"))


def _bids_of_bidders(bids: DataFrame) -> DataFrame:
    return _rows(bids).groupBy(F.window("at", SIZE), "bidder").agg(F.count("*").alias("bids"))


QUERIES = (
    Query("Q5", "hot items, 10 s by 2 s", ("bids",), ours.hot_items, _hot_items, (START, "auction", "bids")),
    Query(
        "Q6",
        "mean price of a seller's last ten auctions",
        ("sold",),
        ours.selling_price,
        _selling_price,
        ("seller", "window_id", "round(mean_price, 3)"),
        streams=False,
    ),
    Query(
        "Q7",
        "highest bid, 10 s",
        ("bids",),
        ours.highest_bid,
        _highest_bid,
        (START, "price", "auction", "bidder"),
    ),
    Query(
        "Q8",
        "new sellers, join in 10 s",
        ("persons", "auctions"),
        ours.new_sellers,
        _new_sellers,
        (START, "seller", "name", "auctions"),
    ),
    Query(
        "Q11",
        "sessions of bidders, gap 10 s",
        ("bids",),
        ours.bidding_sessions,
        _bidding_sessions,
        (START, END, "bidder", "bids"),
    ),
    Query(
        "Q12",
        "bids of bidders, 10 s",
        ("bids",),
        ours.bids_of_bidders,
        _bids_of_bidders,
        (START, "bidder", "bids"),
    ),
)


def differences(answer: Sequence[str], first: DataFrame, second: DataFrame) -> int:
    """How many results only one of the two has."""
    rows = [Counter(map(tuple, frame.selectExpr(*answer).collect())) for frame in (first, second)]
    return ((rows[0] - rows[1]) + (rows[1] - rows[0])).total()
