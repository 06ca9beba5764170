"""Run by test_worker_check in a process of its own: sessions whose workers have another Python than the driver."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import muntin
from muntin import aggregates as A
from muntin import windows as W
from muntin.spark.worker_check import CHECK, CHECKED
from tests.spark.cluster import HERE

SHIM = Path(__file__).with_name("odd_worker.py")


def main(kind: str, place: Path) -> None:
    if kind == "connect":
        # The server reads the variable when it starts, and there is one server in a process.
        os.environ["PYSPARK_PYTHON"] = odd_python("muntin is missing", place)
        check_missing(SparkSession.builder.remote("local[1]").getOrCreate())
    else:
        check_missing(session(odd_python("muntin is missing", place)))
        check_another_version(session(odd_python("muntin is another", place)))
        check_another_python(session(odd_python("python is another", place)))
        check_no_protobuf(session(odd_python("protobuf is missing", place)))
        check_no_python(session(str(place / "nothing")))
        check_sound(session(sys.executable))
    print(f"{kind}: workers are checked")


def odd_python(fault: str, place: Path) -> str:
    python = place / fault.replace(" ", "-")
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{SHIM}" "{fault}" "$@"\n')
    python.chmod(0o755)
    return str(python)


def session(python: str) -> SparkSession:
    running = SparkSession.getActiveSession()
    if running is not None:
        running.stop()
    os.environ["PYSPARK_PYTHON"] = python
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.host", HERE).config("spark.driver.bindAddress", HERE).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def results(spark: SparkSession) -> DataFrame:
    rows = spark.sql("SELECT timestamp_seconds(id) AS t FROM range(60)")
    return muntin.over(rows, W.tumbling("10 seconds"), time="t").agg(n=A.count()).to_df()


def told(spark: SparkSession, *, table: bool = False) -> str:
    try:
        results(spark) if table else muntin.configure(spark)
    except muntin.MuntinError as error:
        assert spark.conf.get(CHECKED, "") == "", "only a check that passed is remembered"
        return str(error)
    raise AssertionError("no error")


def check_missing(spark: SparkSession) -> None:
    for table in (True, False):
        message = told(spark, table=table)
        assert "workers cannot run Muntin (" in message, message
        assert "ModuleNotFoundError: No module named 'muntin'" in message, message
        assert f"PYSPARK_PYTHON to {sys.executable} before" in message, message
    spark.conf.set(CHECK, "maybe")
    assert "spark.muntin.checkWorkers is 'maybe'" in told(spark)
    spark.conf.set(CHECK, "false")
    muntin.configure(spark)
    assert spark.conf.get(CHECKED, "") == ""


def check_another_version(spark: SparkSession) -> None:
    message = told(spark)
    assert "workers have Muntin 0.0.9 (" in message, message
    assert f"the driver has {muntin.__version__};" in message, message


def check_another_python(spark: SparkSession) -> None:
    major, minor = sys.version_info[:2]
    message = told(spark, table=True)
    expected = f"Spark's Python workers run Python {major}.{minor + 1}, and the driver runs Python {major}.{minor}. If"
    assert message.startswith(expected), message


def check_no_protobuf(spark: SparkSession) -> None:
    """Streams need it, tables do not; that tables passed does not mean that streams would."""
    assert results(spark).count() == 6
    passed = spark.conf.get(CHECKED)
    spark.conf.unset(CHECKED)
    assert "google.protobuf" in told(spark)
    spark.conf.set(CHECKED, passed or "")
    try:
        muntin.configure(spark)
    except muntin.MuntinError:
        return
    raise AssertionError("no error")


def check_no_python(spark: SparkSession) -> None:
    message = told(spark)
    assert message.startswith("Spark could not start its Python workers: "), message
    assert "/nothing" in message, message


def check_sound(spark: SparkSession) -> None:
    assert results(spark).count() == 6
    muntin.configure(spark)
    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup()
    muntin.configure(spark)
    results(spark)
    results(spark.newSession())
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup()) == len(jobs) + 1, "only the new session asks"


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
