"""Nexmark's queries with windows in Flink SQL, as Flink's own benchmark has them, over the same files."""

from __future__ import annotations

from muntin.bench.flink import Job

AT = "`at` TIMESTAMP(6), t AS CAST(`at` AS TIMESTAMP(3)), WATERMARK FOR t AS t - INTERVAL '1' DAY"
"""Watermarks are of milliseconds in Flink. They wait for the whole stream: Flink reads the files of a folder in any
order, so that with a shorter delay, rows would come too late.
"""
NEXMARK = Job(
    columns={
        "persons": f"id BIGINT, name STRING, city STRING, {AT}",
        "auctions": f"id BIGINT, seller BIGINT, {AT}",
        "bids": f"auction BIGINT, bidder BIGINT, price BIGINT, {AT}",
        "sold": f"auction BIGINT, seller BIGINT, price BIGINT, {AT}",
    },
    queries={
        "Q5": """
            SELECT window_start, auction, bids FROM (
                SELECT *, ROW_NUMBER() OVER (
                    PARTITION BY window_start, window_end ORDER BY bids DESC, auction
                ) AS place FROM (
                    SELECT window_start, window_end, auction, COUNT(*) AS bids
                    FROM TABLE(HOP(TABLE bids, DESCRIPTOR(t), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
                    GROUP BY window_start, window_end, auction
                )
            ) WHERE place <= 1""",
        "Q6": """
            SELECT seller, AVG(price) OVER (
                PARTITION BY seller ORDER BY t ROWS BETWEEN 9 PRECEDING AND CURRENT ROW
            ) AS mean_price FROM sold""",
        "Q7": """
            SELECT window_start, price, auction, bidder FROM (
                SELECT *, ROW_NUMBER() OVER (
                    PARTITION BY window_start, window_end ORDER BY price DESC, `at`
                ) AS place FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(t), INTERVAL '10' SECOND))
            ) WHERE place <= 1""",
        "Q8": """
            SELECT P.window_start, P.id, P.name, A.auctions FROM (
                SELECT window_start, window_end, id, MAX(name) AS name
                FROM TABLE(TUMBLE(TABLE persons, DESCRIPTOR(t), INTERVAL '10' SECOND))
                GROUP BY window_start, window_end, id
            ) P JOIN (
                SELECT window_start, window_end, seller, COUNT(*) AS auctions
                FROM TABLE(TUMBLE(TABLE auctions, DESCRIPTOR(t), INTERVAL '10' SECOND))
                GROUP BY window_start, window_end, seller
            ) A ON P.id = A.seller AND P.window_start = A.window_start AND P.window_end = A.window_end""",
        "Q11": """
            SELECT window_start, window_end, bidder, COUNT(*) AS bids
            FROM TABLE(SESSION(TABLE bids PARTITION BY bidder, DESCRIPTOR(t), INTERVAL '10' SECOND))
            GROUP BY window_start, window_end, bidder""",
        "Q12": """
            SELECT window_start, bidder, COUNT(*) AS bids
            FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(t), INTERVAL '10' SECOND))
            GROUP BY window_start, window_end, bidder""",
    },
)
