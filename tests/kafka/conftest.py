"""A broker of Apache Kafka, and a Spark session with the connector to it: where `make kafka` has fetched them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from examples import pipeline_kafka as pipeline
from pyspark.sql import SparkSession
from scripts.kafka_broker import broker
from scripts.kafka_jars import Jars, MissingError, found

import muntin

NUMBERS = count()


@pytest.fixture(scope="session")
def jars() -> Jars:
    try:
        return found()
    except MissingError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def address(jars: Jars) -> Iterator[str]:
    with broker(jars.broker) as listens:
        yield listens


@pytest.fixture(scope="session")
def spark(jars: Jars, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    if SparkSession.getActiveSession() is not None:
        pytest.skip("a Spark session without the connector runs in this process: `make kafka` runs this test alone")
    os.environ.setdefault("SPARK_LOCAL_DIRS", str(tmp_path_factory.mktemp("spark")))
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {','.join(map(str, jars.spark))} pyspark-shell"
    session = muntin.session("muntin-kafka-tests")
    session.sparkContext.setLogLevel("OFF")
    session.conf.set("spark.sql.session.timeZone", "America/New_York")  # nothing may depend on the zone
    yield session
    session.stop()
    del os.environ["PYSPARK_SUBMIT_ARGS"]


@pytest.fixture
def topics(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example with topics and a folder of this test alone."""
    number = next(NUMBERS)
    for name, value in {
        "BROKER": address,
        "TOPIC": f"rides-{number}",
        "RESULTS": f"fares-{number}",
        "FOLDER": str(tmp_path),
    }.items():
        monkeypatch.setattr(pipeline, name, value)
