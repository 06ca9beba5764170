"""Queries, and steps that go the same way without Spark and on it."""

from __future__ import annotations

from typing import Any

import muntin
from muntin import aggregates as A
from muntin import windows as W
from muntin.testing import Step, Stream

SCHEMA = "ts timestamp, k string, v long"


def late(data: Any) -> muntin.Query:
    windows = W.sliding("20 minutes", "10 minutes"), W.count(2), W.session("5 minutes")
    query = muntin.over(data, *windows, time="ts", watermark="10 minutes", by="K")
    return query.agg(n=A.count(), middle=A.median("v"), large=A.count(where="v > 5")).late("emit")


def changing(data: Any) -> muntin.Query:
    query = muntin.over(data, W.session("5 minutes"), time="ts", watermark="10 minutes", by="k")
    return query.agg(n=A.count(), most=A.max("v")).emit("on_change").late("update", within="1 hour")


def ranked(data: Any) -> muntin.Query:
    query = muntin.over(data, W.tumbling("10 minutes"), time="ts", watermark="10 minutes", by="k")
    return query.agg(n=A.count()).top(1, by="n").parallel("agnostic", workers=2)


def steps(stream: Stream) -> list[Step]:
    stream.batch([("2024-05-01 12:01", "a", 1), ("2024-05-01 12:04", None, 9), (None, "a", 1)])
    stream.batch([("2024-05-01 12:25", "a", 7), ("2024-05-01 12:08", "a", 6)])
    stream.restart()
    stream.batch([("2024-05-01 11:40", "a", 1), ("2024-05-01 12:14", "b", 2), ("2024-05-01 12:16", "b", 3)])
    stream.batch([])
    stream.watermark("2024-05-01 12:38:00.123456")
    stream.watermark("2024-05-01 12:10")
    stream.batch([("2024-05-01 12:40", "b", 2)])
    stream.watermark("2024-05-01 14:30")
    return stream.steps
