"""Nexmark, the benchmark of an auction house: all of its queries with windows, over twenty seconds of made events."""

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import muntin
from muntin import aggregates as A
from muntin import windows as W
from muntin.bench.nexmark_data import generate, sold


def hot_items(bids: Any, watermark: str | None = None) -> DataFrame:
    """Query 5: which auction had the most bids in the last ten seconds? Every two seconds."""
    window = W.sliding("10 seconds", "2 seconds")
    counts = muntin.over(bids, window, time="at", watermark=watermark, by="auction").agg(bids=A.count())
    return counts.top(1, by="bids").to_df()


def selling_price(sold: Any, watermark: str | None = None) -> DataFrame:
    """Query 6: for how much did a seller sell the last ten auctions, on average?"""
    last_ten = muntin.over(sold, W.count(10, 1), time="at", watermark=watermark, by="seller")
    return last_ten.agg(mean_price=A.mean("price")).to_df()


def highest_bid(bids: Any, watermark: str | None = None) -> DataFrame:
    """Query 7: what was the highest bid of each ten seconds, and whose?"""
    return (
        muntin.over(bids, W.tumbling("10 seconds"), time="at", watermark=watermark)
        .agg(price=A.max("price"), auction=A.argmax("auction", "price"), bidder=A.argmax("bidder", "price"))
        .to_df()
    )


def new_sellers(persons: DataFrame, auctions: DataFrame, watermark: str | None = None) -> DataFrame:
    """Query 8: who opened auctions in the same ten seconds in which they registered?"""
    new = persons.select(F.col("id").alias("seller"), "name", "at")
    opened = muntin.join(new, auctions, W.tumbling("10 seconds"), on="seller", time="at", watermark=watermark)
    return opened.agg(name=A.max("name"), auctions=A.count()).to_df()  # a person has one name


def bidding_sessions(bids: Any, watermark: str | None = None) -> DataFrame:
    """Query 11: how many bids did someone make in a row, without a pause of ten seconds?"""
    sessions = muntin.over(bids, W.session("10 seconds"), time="at", watermark=watermark, by="bidder")
    return sessions.agg(bids=A.count()).to_df()


def bids_of_bidders(bids: Any, watermark: str | None = None) -> DataFrame:
    """Query 12: how many bids did someone make in ten seconds? In event time, where Nexmark has processing time."""
    windows = muntin.over(bids, W.tumbling("10 seconds"), time="at", watermark=watermark, by="bidder")
    return windows.agg(bids=A.count()).to_df()


def main(spark: SparkSession) -> None:
    events = generate(0, 200_000)
    persons, auctions, bids = (spark.createDataFrame(table) for table in (events.persons, events.auctions, events.bids))
    start = F.date_format("window.start", "mm:ss").alias("start")
    print("Query 5, the auction with the most bids:")
    hot_items(bids).orderBy("window_id").select(start, "auction", "bids").show(3)
    print("Query 6, the mean price of a seller's last ten auctions:")
    prices = selling_price(spark.createDataFrame(sold(events.auctions, events.bids)))
    prices.orderBy("seller", "window_id").select("seller", "window_id", "mean_price").show(3)
    print("Query 7, the highest bid:")
    highest_bid(bids).orderBy("window_id").select(start, "price", "auction", "bidder").show(3)
    print("Query 8, new persons who sell:")
    new_sellers(persons, auctions).orderBy("window_id", "seller").select(start, "seller", "name", "auctions").show(3)
    print("Query 11, sessions of bidders:")
    bidding_sessions(bids).orderBy("bidder", "window.start").select("bidder", "window", "bids").show(3, truncate=False)
    print("Query 12, bids of a bidder:")
    bids_of_bidders(bids).orderBy("window_id", "bidder").select(start, "bidder", "bids").show(3)


if __name__ == "__main__":
    session = muntin.session()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    main(session)
