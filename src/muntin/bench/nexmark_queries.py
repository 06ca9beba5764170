"""Nexmark's queries with windows, in Muntin: the functions of examples/nexmark.py, which a test compares."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import muntin
from muntin import aggregates as A
from muntin import windows as W


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
