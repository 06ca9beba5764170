"""Queries on devices: PyTorch on the processor in Spark's workers, and devices that the workers do not have."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import muntin
from muntin import aggregates as A
from muntin import windows as W
from muntin.errors import MuntinError
from tests.devices.libraries import needs_torch
from tests.spark.streams import Feed, assert_same, keyed, results, run

KEYS, PANES, SIZE, DELAY = 400, 60, 40, 10
BEGIN = datetime(2024, 1, 1, tzinfo=timezone.utc)
ODD = [None, math.nan, -0.0, math.inf, 1.5, -3.25]


def batch(first: int, last: int, late: int = 0) -> pa.Table:
    """A row per key and second, and some late ones."""
    second, key = np.divmod(np.arange(first * KEYS, last * KEYS), KEYS)
    second, key = np.append(second, np.arange(first - late, first)), np.append(key, np.arange(late))
    order = np.random.default_rng(first).permutation(len(second))
    second, key = second[order], key[order]
    return pa.table(
        {
            "t": pa.array([BEGIN + timedelta(seconds=each) for each in second.tolist()], pa.timestamp("us", tz="UTC")),
            "k": key,
            "n": pa.array(second * 7 - key * 3, mask=key % 5 == 4),
            "x": [ODD[each] for each in ((second + key) % len(ODD)).tolist()],
            "w": [f"w{each}" for each in ((second * key) % 11).tolist()],
        }
    )


@needs_torch
def test_a_stream_on_pytorch_is_sparks(spark: SparkSession, here: Path) -> None:
    """Panes in the tasks, and windows from trees that live: by the third batch, these are on the device."""
    feed = Feed(spark, here / "in", "t timestamp, k long, n long, x double, w string")
    feed.add(batch(0, PANES), *(batch(PANES + i, PANES + i + 1, late=3) for i in range(4)))
    query = (
        muntin.over(feed.stream(), W.sliding(f"{SIZE} s", "1 s"), time="t", by="k", watermark=f"{DELAY} s")
        .agg(rows=A.count(), n=A.sum("n"), x=A.mean("x"), v=A.var_pop("n"), low=A.min("x"), high=A.max("n"))
        .agg(word=A.min("w"))
        .device("cpu", library="torch")
    )
    frame = query.to_df()
    run(frame, here)
    found = keyed(results(spark, frame.drop("window_time"), here), "k")
    until = BEGIN + timedelta(seconds=PANES + 3 - DELAY)
    spark_rows = (
        feed.table()
        .groupBy(F.window("t", f"{SIZE} seconds", "1 second"), "k")
        .agg(
            F.count("*").alias("rows"),
            F.sum("n").alias("n"),
            F.mean("x").alias("x"),
            F.var_pop("n").alias("v"),
            F.min("x").alias("low"),
            F.max("n").alias("high"),
            F.min("w").alias("word"),
        )
        .where(F.col("window.end") <= F.lit(until))
        .collect()
    )
    assert len(found) > KEYS * SIZE
    assert_same(found, keyed(spark_rows, "k"))


def test_a_device_that_the_workers_do_not_have(spark: SparkSession) -> None:
    """The check is a job in the workers, before the query starts."""
    table = spark.range(3).selectExpr("timestamp_micros(id) t", "id n")
    query = muntin.over(table, W.tumbling("1 second"), time="t").agg(n=A.sum("n")).device("cuda", library="cupy")
    assert repr(query).endswith('.device("cuda", library="cupy")')
    expected = "cannot be used|does not exist" if find_spec("cupy") else "needs cupy, which this Python does not have"
    with pytest.raises(MuntinError, match=f"Device cuda .CuPy. {expected}.*This is so in Spark's Python workers"):
        query.to_df()
    assert not query.device("cpu").options


@needs_torch
def test_a_table_on_pytorch(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    table = spark.range(1000).selectExpr("timestamp_micros(id * 1000 - 200000) t", "id % 7 k", "id n")
    query = muntin.over(table, W.tumbling("100 ms"), time="t", by="k").agg(n=A.sum("n"), m=A.median("n"))
    query = query.device("cpu", library="torch")
    expected = table.groupBy(F.window("t", "100 milliseconds"), "k").agg(
        F.sum("n").alias("n"), F.median("n").alias("m")
    )
    assert_same(keyed(query.to_df().drop("window_time").collect(), "k"), keyed(expected.collect(), "k"))
    query.explain()
    shown = capsys.readouterr().out
    assert "Panes are made in Python: .device() makes them." in shown
    assert "Device: cpu (PyTorch) reduces rows to panes, for 'n'." in shown
