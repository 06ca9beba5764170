"""Watermarks of inputs: Spark allows one between a source and a stateful operator, and no second one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from muntin.durations import describe
from muntin.errors import MuntinError
from muntin.expressions import shown
from muntin.query.watermarks import NO_WATERMARK, WINDOW_TIME
from muntin.spark.metrics import OBSERVATION

if TYPE_CHECKING:
    from muntin.query.backend import Source

_DELAY = "spark.watermarkDelayMs"
"""The metadata of a column with a watermark: its delay."""
_ANALYZED = re.compile(r"^== Analyzed Logical Plan ==$(.*?)^== ", re.MULTILINE | re.DOTALL)
_NODE = re.compile(r"^(?P<above>[ :|+-]*)~?[A-Z]", re.MULTILINE)
_WATERMARK = re.compile(r"^[ :|+-]*~?EventTimeWatermark (?:[0-9a-f-]{36}, )?(?P<column>.+?)#\d+", re.MULTILINE)
LATEST_TIME = "latest_time"
"""The column that the watermark of Muntin's own queries is on."""
_OPERATOR = re.compile(r"^[ :|+-]*~?(\w+)")
_WITHOUT_SHUFFLE = {
    *("Project", "Filter", "SubqueryAlias", "View", "EventTimeWatermark", "Union", "Generate", "ResolvedHint"),
    *("MapInArrow", "MapInPandas", "BatchEvalPython", "ArrowEvalPython", "Sample"),
    *("MapElements", "MapPartitions", "DeserializeToObject", "SerializeFromObject"),
    *("StreamingRelation", "StreamingRelationV2", "StreamingDataSourceV2Relation", "StreamingDataSourceV2ScanRelation"),
}


def own_watermarks(frame: DataFrame) -> dict[str, int]:
    """The columns of a stream with a watermark, with its delay in microseconds.

    The metadata are not enough: sinks write them with the schema, so a stream that is read back has the metadata and no
    watermark.
    """
    if not frame.isStreaming:
        return {}
    noted = {field.name: int(field.metadata[_DELAY]) * 1000 for field in frame.schema if _DELAY in field.metadata}
    return noted if noted and planned_watermarks(frame) else {}


def planned_watermarks(frame: DataFrame) -> list[str]:
    """The columns with a watermark in the plan of a stream, by their names at that place."""
    return [match["column"] for match in _WATERMARK.finditer(_analyzed(frame))]


def passes_rows_on(frame: DataFrame) -> bool:
    """Whether rows come from the sources of a stream without a shuffle: without data, no task runs then."""
    _, _, tree = _analyzed(frame).strip().partition("\n")  # the first line has the columns
    operators = [_OPERATOR.match(line) for line in tree.splitlines()]
    return bool(operators) and all(found is not None and found.group(1) in _WITHOUT_SHUFFLE for found in operators)


def _analyzed(frame: DataFrame) -> str:
    """The plan of a stream, as Spark prints it: a line for each node, indented by its depth."""
    try:
        plan = frame.sparkSession.sql("EXPLAIN EXTENDED SELECT * FROM {frame}", frame=frame).collect()[0][0]
    except PySparkException:
        return ""  # Spark reports an invalid plan when the query starts
    analyzed = _ANALYZED.search(plan)
    return "" if analyzed is None else analyzed.group(1)


def _check_none_below(frame: DataFrame, input_name: str) -> None:
    """Check that no watermark of an input is over another one: Spark would never move it, and close no window."""
    plan = _analyzed(frame)
    nodes = [(match.start(), len(match["above"])) for match in _NODE.finditer(plan)]
    over: list[tuple[int, str]] = []
    watermarks = {match.start(): match["column"] for match in _WATERMARK.finditer(plan)}
    for place, depth in nodes:
        over = [(above, column) for above, column in over if above < depth]
        if place not in watermarks:
            continue
        if over:
            raise MuntinError(
                f"{input_name} has a watermark on {over[-1][1]!r}, by withWatermark, over another one, "
                f"{_on(watermarks[place])}: Spark never moves the second one, so that no window would close. Leave it "
                "out."
            )
        over.append((depth, watermarks[place]))


def _on(column: str) -> str:
    return "that of another query over windows" if column == LATEST_TIME else f"on {column!r}"


def check_name(frame: DataFrame, name: str | None) -> None:
    """Check that no query before this one has its name."""
    if name is not None and f"CollectMetrics {OBSERVATION}:{name}, [" in _analyzed(frame):
        raise MuntinError(
            f"name is {name!r}, which is that of the query whose results are the data; give each its own name, by "
            "which their metrics are told apart."
        )


def check_watermark(
    source: Source, time: str, delay: int | None, input_name: str = "data", column: str | None = None
) -> None:
    """Check that an input has no watermark that conflicts with the query's, of `delay` microseconds.

    If rows carry watermarks, they are in `column`.
    """
    if column is not None:
        _check_marks(source, column, input_name)
        return
    own_delay = source.watermarks.get(time)
    if own_delay is not None:
        # Spark rounds to milliseconds.
        if delay is not None and delay // 1000 != own_delay // 1000:
            raise MuntinError(
                f"watermark is {describe(delay)}, but the time column {time!r} of {input_name} has one of "
                f"{describe(own_delay)} already, by withWatermark; leave out "
                "watermark= to use that, or withWatermark to use this."
            )
        _check_none_below(source.frame, input_name)
        return
    if source.watermarks:
        others = " and ".join(map(repr, source.watermarks))
        raise MuntinError(
            f"{input_name} has a watermark on {others} already, by withWatermark, and time is {time!r}: Spark allows "
            f"no second one. Call withWatermark on {time!r} instead, or leave it out and give watermark=, or give the "
            "other column as time."
        )
    hidden = planned_watermarks(source.frame)
    if hidden and time == WINDOW_TIME:
        raise MuntinError(f"{input_name} has a watermark already, and {NO_WATERMARK}")
    if hidden:
        columns = " and ".join(map(repr, dict.fromkeys(hidden)))
        raise MuntinError(
            f"{input_name} has a watermark already, by withWatermark on {columns}, "
            f"and the time column {time!r} was computed from it, or has nothing to do with it: Spark allows no second "
            f"one. Leave withWatermark out, or call it on {time!r} where that is computed. If {input_name} comes from "
            "another query over windows, give its column window_time as time, or window_time(window) of Spark's own."
        )


def _check_marks(source: Source, column: str, input_name: str) -> None:
    """Check that an input whose rows carry watermarks in `column` has no other watermark."""
    own_delay = source.watermarks.get(column)
    if own_delay == 0:
        _check_none_below(source.frame, input_name)
        return
    if own_delay is not None:
        raise MuntinError(
            f"watermark is the column {column!r}, but {input_name} has a watermark of {describe(own_delay)} on it "
            "already, by withWatermark, so that it is behind what the rows carry; call withWatermark with '0 seconds', "
            "or leave it out."
        )
    others = dict.fromkeys([*source.watermarks, *planned_watermarks(source.frame)])
    if others:
        raise MuntinError(
            f"watermark is {shown(column)!r}, but {input_name} has a watermark on {' and '.join(map(repr, others))} "
            "already, by withWatermark: Spark allows no second one. Leave out withWatermark, or watermark=."
        )
