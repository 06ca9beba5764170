"""From a query to a DataFrame: pane stage, shuffle, window stage, metrics, results."""

from __future__ import annotations

import atexit
import uuid
from functools import partial, reduce

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
from muntin.spark.window_stage import STAGED, Finish, ShardProcessor, shard_of_table, unpacked
from muntin.spark.worker_check import check_workers
from muntin.spark.workers import PAYLOAD, computed, ordered, packed, spread
from muntin.workers.policy import Workers


def build(query: Query, finish: Finish | None = None) -> DataFrame:
    """The results of a query; `finish`, if it is given, makes others of those of a shard before they leave it."""
    spark = query.source.frame.sparkSession
    if query.source.streaming:
        session.check_configured(spark)
    check_workers(spark, query.source.streaming)
    identity = uuid.uuid4().hex
    workers = query.workers(partial(session.most_workers, spark))
    partitions, shards = _partitions(query, workers, session.partitions(spark))
    plan = query.plan(shard_ids(partitions, shards), workers)
    # Each input has its own pane stage and its own watermark: a union of the rows would have one, and the input that
    # is behind would be late. Spark's watermark is then that of the input that is the furthest behind.
    inputs = [(query.source.frame, query.watermark), *((each.frame, each.delay) for each in query.source.beside)]
    each_packed = [_packed(query, plan, frame, delay, identity) for frame, delay in inputs]
    packed_rows = reduce(lambda first, second: first.union(second), each_packed)
    if workers.count is not None and not query.source.streaming:
        # Spark would join small partitions of a table to one task. How small they are says nothing of the work.
        packed_rows = packed_rows.repartition(partitions, "shard")
    panes = packed_rows.drop("latest_time").groupBy("shard")
    if query.source.streaming:
        atexit.register(forget, identity)
        staged = panes.transformWithStateInPandas(
            ShardProcessor(plan, identity, finish),
            outputStructType=STAGED,
            outputMode="Append",
            timeMode="EventTime",
        )
    else:
        staged = panes.applyInArrow(shard_of_table(plan, finish), STAGED)
    results = observed(staged, identity).where(F.col("payload").isNotNull())
    of_jobs = plan.workers.model == "agnostic"
    results = spread(plan, results) if of_jobs else results.select("payload")
    if plan.top is None and not plan.workers.ordered:
        schema = plan.result_schema if finish is None else finish.schema
        told = computed(plan, identity) if of_jobs else unpacked(schema)
        return results.mapInArrow(told, result_type(plan, schema))
    # All shards close the same windows in the same batch, so their results need only meet, and no state is needed.
    together = (results.mapInArrow(packed(computed(plan, identity)), PAYLOAD) if of_jobs else results).repartition(1)
    if plan.top is not None:
        return together.mapInArrow(ranked(plan), result_type(plan, ranked_schema(plan)))
    return together.mapInArrow(ordered(plan), result_type(plan, plan.result_schema))


def _partitions(query: Query, workers: Workers, of_session: int) -> tuple[int, int]:
    """How many partitions packed panes go to, and for how many shards they are."""
    if workers.count is None:
        return of_session, of_session
    if not query.source.streaming:
        return workers.count, workers.count
    # A stream has the partitions of its state. Emitters are as many as shards ever are: it is the tasks behind them
    # that are counted.
    return of_session, of_session if workers.model == "agnostic" else workers.count


def _packed(query: Query, plan: Plan, frame: DataFrame, delay: int | None, identity: str) -> DataFrame:
    packed_rows = _input(query, plan, frame).mapInArrow(packed_panes(plan, identity), PACKED)
    if not query.source.streaming:
        return packed_rows
    # The watermark follows the latest time of each task: a few rows to look at, instead of every row of the
    # stream. Without the column, Spark does not judge the packed rows themselves by it.
    return packed_rows.withWatermark("latest_time", f"{delay} microseconds")


def _input(query: Query, plan: Plan, frame: DataFrame) -> DataFrame:
    """Only the columns that the stages read, with the filters computed by Spark."""
    names = list(frame.columns) if plan.late_row is not None else [n for n in plan.types if n in query.source.types]
    columns = [frame["`" + name.replace("`", "``") + "`"] for name in names]
    return frame.select(*columns, *(condition.alias(name) for name, condition in query.filters.columns.items()))
