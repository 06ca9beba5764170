"""A Spark session for all tests that need one, and streams made of chosen batches."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import muntin


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    # Java's own temporary files and the warehouse stay out of the project's folder.
    os.environ.setdefault("SPARK_LOCAL_DIRS", str(tmp_path_factory.mktemp("spark")))
    session = muntin.session("muntin-tests")
    session.sparkContext.setLogLevel("OFF")
    session.conf.set("spark.sql.session.timeZone", "America/New_York")  # nothing may depend on the zone
    yield session
    session.stop()


@pytest.fixture
def connect_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A local Spark Connect server has one port, always the same: one at a time, over all processes of a run."""
    with (tmp_path_factory.getbasetemp().parent / "connect.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return tmp_path


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/tests/spark/" in str(item.path):
            item.add_marker(pytest.mark.spark)
