"""Local files of streams: their folder, their owner, and when they are removed."""

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

STREAM = "sql.streaming.queryId"
"""The local property with the id of the stream, `StreamingQuery.id`, in every task."""

_owners: WeakKeyDictionary[SparkSession, str] = WeakKeyDictionary()


def host_folder(spark: SparkSession, identity: str) -> HostFolder:
    """The folder of a stream. Its files are removed when the driver ends, or when the session's next stream runs."""
    # A session only knows its own streams, and which of them have ended.
    owner = _owners.setdefault(spark, uuid.uuid4().hex)
    running = frozenset(str(stream.id) for stream in spark.streams.active)
    host = HostFolder.checked(spark.conf.get(SETTING, None), Streams(owner, running, time.time()))
    atexit.register(host.forget, identity)
    return host


def note_this_stream(plan: Plan, identity: str) -> None:
    """Record the stream that this task belongs to."""
    context = TaskContext.get()
    stream = None if context is None else context.getLocalProperty(STREAM)
    if stream is not None and isinstance(plan.host, HostFolder):
        _note(plan.host, identity, stream)


@cache
def _note(host: HostFolder, identity: str, stream: str) -> None:
    note_stream(host, identity, stream)
