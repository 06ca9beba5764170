"""What streams keep on the hosts where they run: where that is, whose it is, and when it goes."""

from __future__ import annotations

import atexit
import time
import uuid
from functools import cache
from weakref import WeakKeyDictionary

from pyspark import TaskContext
from pyspark.sql import SparkSession

from muntin.engine.plan import Plan
from muntin.spark.host.folder import SETTING, HostFolder, note_stream
from muntin.spark.host.sweep import Streams

_STREAM = "sql.streaming.queryId"
"""What Spark tells every task of a stream: the id that `StreamingQuery.id` has."""

_owners: WeakKeyDictionary[SparkSession, str] = WeakKeyDictionary()


def host_folder(spark: SparkSession, identity: str) -> HostFolder:
    """Where the session wants the files of a stream. They go with the driver, or when the session's next one runs."""
    # Each session has streams of its own, so it can only tell which of these have ended.
    owner = _owners.setdefault(spark, uuid.uuid4().hex)
    running = frozenset(str(stream.id) for stream in spark.streams.active)
    host = HostFolder.checked(spark.conf.get(SETTING, None), Streams(owner, running, time.time()))
    atexit.register(host.forget, identity)
    return host


def note_this_stream(plan: Plan, identity: str) -> None:
    """In a task: say which stream this is."""
    context = TaskContext.get()
    stream = None if context is None else context.getLocalProperty(_STREAM)
    if stream is not None and isinstance(plan.host, HostFolder):
        _note(plan.host, identity, stream)


@cache
def _note(host: HostFolder, identity: str, stream: str) -> None:
    note_stream(host, identity, stream)
