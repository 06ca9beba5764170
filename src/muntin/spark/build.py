"""From a query to a DataFrame: pane stage, shuffle, window stage, metrics, results."""

from __future__ import annotations

import atexit
import uuid

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from muntin.panes.copies import forget
from muntin.plan import Plan
from muntin.query import Query
from muntin.ranking.merged import ranked_schema
from muntin.spark import session
from muntin.spark.metrics import observed
from muntin.spark.pane_stage import PACKED, packed_panes
from muntin.spark.ranked import ranked
from muntin.spark.roles import result_type
from muntin.spark.shards import shard_ids
from muntin.spark.window_stage import STAGED, ShardProcessor, shard_of_table, unpacked


def build(query: Query) -> DataFrame:
    spark = query.source.frame.sparkSession
    if query.source.streaming:
        session.check_configured(spark)
    identity = uuid.uuid4().hex
    plan = query.plan(shard_ids(session.partitions(spark)))
    packed_rows = _input(query, plan).mapInArrow(packed_panes(plan, identity), PACKED)
    if query.source.streaming:
        # The watermark follows the latest time of each task: a few rows to look at, instead of every row of the
        # stream. Without the column, Spark does not judge the packed rows themselves by it.
        packed_rows = packed_rows.withWatermark("latest_time", f"{query.watermark} microseconds")
    panes = packed_rows.drop("latest_time").groupBy("shard")
    if query.source.streaming:
        atexit.register(forget, identity)
        staged = panes.transformWithStateInPandas(
            ShardProcessor(plan, identity),
            outputStructType=STAGED,
            outputMode="Append",
            timeMode="EventTime",
        )
    else:
        staged = panes.applyInArrow(shard_of_table(plan), STAGED)
    results = observed(staged, identity).where(F.col("payload").isNotNull()).select("payload")
    if plan.top is not None:
        # All shards close the same windows in the same batch, so their groups need only meet, and no state is needed.
        return results.repartition(1).mapInArrow(ranked(plan), result_type(plan, ranked_schema(plan)))
    return results.mapInArrow(unpacked(plan.result_schema), result_type(plan, plan.result_schema))


def _input(query: Query, plan: Plan) -> DataFrame:
    """Only the columns that the stages read, with the filters computed by Spark."""
    frame = query.source.frame
    names = list(frame.columns) if plan.late_row is not None else [n for n in plan.types if n in query.source.types]
    columns = [frame["`" + name.replace("`", "``") + "`"] for name in names]
    return frame.select(*columns, *(condition.alias(name) for name, condition in query.filters.columns.items()))
