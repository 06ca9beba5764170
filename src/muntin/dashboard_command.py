"""`muntin dashboard --checkpoint PATH`: a live page of a stream that runs in another process, or has ended."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from muntin.errors import MuntinError
from muntin.spark.checkpoint import checkpoint_path, local_folder
from muntin.spark.dashboard.server import Dashboard, checked_port
from muntin.spark.dashboard.stored import OfCheckpoint
from muntin.spark.dashboard.windows import Closed
from muntin.spark.session import local


def page_of(given: str, results: str | None, form: str, value: str | None, operator: int, port: int) -> Dashboard:
    """A page that runs until it is stopped."""
    path = checkpoint_path(given)
    folder = local_folder(path)
    if folder is None:
        raise MuntinError(
            f"checkpoint {path!r} is not on this machine; call muntin.dashboard(...) where the stream runs."
        )
    if value is not None and results is None:
        raise MuntinError(f"value={value!r} is the name of a column of results; give it with --results.")
    if operator < 0:
        raise MuntinError(f"operator must be a whole number from 0, got {operator}.")
    port = checked_port(port)
    spark = SparkSession.getActiveSession() or _session()
    closed = None if results is None else Closed(_reader(spark, results, form), value)
    return Dashboard(OfCheckpoint(spark, path, folder, operator), closed, port)


def serve(given: str, results: str | None, form: str, value: str | None, operator: int, port: int) -> int:
    """Show the page until the process is interrupted."""
    ends = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ends.set())
    with page_of(given, results, form, value, operator, port) as page:
        print(f"{page.url}  (Ctrl+C ends it)", flush=True)
        ends.wait()
    return 0


def _session() -> SparkSession:
    spark = local("muntin-dashboard")
    spark.sparkContext.setLogLevel("OFF")
    return spark


def _reader(spark: SparkSession, results: str, form: str) -> Callable[[], Any]:
    return lambda: spark.read.format(form).load(results)
