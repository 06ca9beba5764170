"""Watermarks that an input brings with it: Spark takes one between a source and a stateful operator, and no second."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from muntin.durations import describe
from muntin.errors import MuntinError

if TYPE_CHECKING:
    from muntin.query.backend import Source

_DELAY = "spark.watermarkDelayMs"
"""What Spark notes in the metadata of a column with a watermark."""
_ANALYZED = re.compile(r"^== Analyzed Logical Plan ==$(.*?)^== ", re.MULTILINE | re.DOTALL)
_WATERMARK = re.compile(r"^[ :|+-]*~?EventTimeWatermark (?:[0-9a-f-]{36}, )?(.+?)#\d+", re.MULTILINE)


def own_watermarks(frame: DataFrame) -> dict[str, int]:
    """The columns of a stream that a watermark is on, each with its delay in microseconds.

    The metadata alone do not tell: a sink writes them down with the schema, so that a stream that is read back has
    them, and no watermark.
    """
    if not frame.isStreaming:
        return {}
    noted = {field.name: int(field.metadata[_DELAY]) * 1000 for field in frame.schema if _DELAY in field.metadata}
    return noted if noted and planned_watermarks(frame) else {}


def planned_watermarks(frame: DataFrame) -> list[str]:
    """The columns that the plan of a stream has watermarks on, by the names that they had there."""
    try:
        plan = frame.sparkSession.sql("EXPLAIN EXTENDED SELECT * FROM {frame}", frame=frame).collect()[0][0]
    except PySparkException:
        return []  # what is wrong with the plan, Spark tells when the query starts
    analyzed = _ANALYZED.search(plan)
    return [] if analyzed is None else _WATERMARK.findall(analyzed.group(1))


def check_watermark(source: Source, time: str, delay: int | None, which: str = "data") -> None:
    """That an input with a watermark of its own needs no other. `delay` is what the query counts on."""
    own = source.watermarks.get(time)
    if own is not None:
        # Spark counts whole milliseconds.
        if delay is not None and delay // 1000 != own // 1000:
            raise MuntinError(
                f"watermark is {describe(delay)}, but the time column {time!r} of {which} has one of {describe(own)} "
                "already, by withWatermark; leave watermark= out to use that, or withWatermark to use this."
            )
        return
    if source.watermarks:
        others = " and ".join(map(repr, source.watermarks))
        raise MuntinError(
            f"{which} has a watermark on {others} already, by withWatermark, and time is {time!r}: Spark takes no "
            f"second one. Call withWatermark on {time!r} instead, or leave it to watermark=, or name the other as time."
        )
    hidden = planned_watermarks(source.frame)
    if hidden:
        raise MuntinError(
            f"{which} has a watermark already, by withWatermark on {' and '.join(map(repr, dict.fromkeys(hidden)))}, "
            f"and the time column {time!r} was computed from it, or has nothing to do with it: Spark takes no second "
            f"one. Leave withWatermark out, or call it on {time!r} where that is computed. If {which} comes out of "
            "another query over windows, write that to a sink, and read it from there."
        )
