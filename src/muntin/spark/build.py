"""From a query to a DataFrame: pane stage, shuffle, window stage, metrics, results."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import timedelta
from functools import partial, reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from muntin.engine.map_stage import AHEAD
from muntin.features.ranking.merged import ranked_schema
from muntin.features.workers.policy import Workers
from muntin.plan import Plan
from muntin.query import Query
from muntin.spark import local_files, session
from muntin.spark.columns import map_in_arrow, quoted
from muntin.spark.metrics import observed
from muntin.spark.pane_stage import PACKED, packed_panes
from muntin.spark.ranked import ranked
from muntin.spark.roles import result_type
from muntin.spark.shards import shard_ids
from muntin.spark.source import Beside
from muntin.spark.watermark import check_watermark
from muntin.spark.window_stage import STAGED, Finish, ShardProcessor, shard_of_table, unpacked
from muntin.spark.worker_check import check_workers
from muntin.spark.workers import PAYLOAD, computed, ordered, packed, spread


def build(query: Query, finish: Finish | None = None) -> DataFrame:
    """The results of a query; `finish`, if it is given, makes others of those of a shard before they leave it."""
    results = _built(query, finish)
    if not query.key_names:
        return results
    return results.select(*(quoted(results, name).alias(query.key_names.get(name, name)) for name in results.columns))


def _built(query: Query, finish: Finish | None) -> DataFrame:
    """The results, with keys under the names that the stages know."""
    spark = query.source.frame.sparkSession
    if query.source.streaming:
        session.check_configured(spark)
        if not query.source.beside:
            check_watermark(query.source, query.time, query.watermark)
    check_workers(spark, query.source.streaming)
    identity = uuid.uuid4().hex
    workers = query.workers(partial(session.most_workers, spark))
    partitions, shards = _partitions(query, workers, session.partitions(spark))
    plan = query.plan(shard_ids(partitions, shards), workers)
    if query.source.streaming:
        plan = replace(plan, host=local_files.host_folder(spark, identity))
    # Each input has its own pane stage and its own watermark: a union of the rows would have one, and the input that
    # is behind would be late. Spark's watermark is then that of the input that is the furthest behind.
    first = Beside(query.source.frame, query.watermark, query.time in query.source.watermarks)
    each_packed = [_packed(query, plan, each, identity) for each in (first, *query.source.beside)]
    packed_rows = reduce(lambda first, second: first.union(second), each_packed)
    if workers.count is not None and not query.source.streaming:
        # Spark would join small partitions of a table to one task. How small they are says nothing of the work.
        packed_rows = packed_rows.repartition(partitions, "shard")
    panes = packed_rows.drop("latest_time").groupBy("shard")
    if query.source.streaming:
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


def _packed(query: Query, plan: Plan, of: Beside, identity: str) -> DataFrame:
    packed_rows = map_in_arrow(_input(query, plan, of.frame), packed_panes(plan, identity), PACKED)
    if not query.source.streaming or of.own_watermark:
        return packed_rows
    # The watermark follows the latest time of each task: a few rows to look at, instead of every row of the
    # stream. Without the column, Spark does not judge the packed rows themselves by it.
    return packed_rows.withWatermark("latest_time", f"{of.delay} microseconds")


def _input(query: Query, plan: Plan, frame: DataFrame) -> DataFrame:
    """Only the columns that the stages read, with expressions and filters computed by Spark."""
    names = list(frame.columns) if plan.late_row is not None else [n for n in plan.types if n in query.source.types]
    columns = [quoted(frame, name) for name in names]
    computed = {name: each for name, each in query.computed.columns.items() if name in plan.types}
    computed |= query.filters.columns
    if query.max_ahead is not None:
        # In a stream, Spark's clock is the time of the batch, which the checkpoint knows: a replayed batch gets the
        # same rows.
        clock = F.localtimestamp() if plan.types[query.time].tz is None else F.current_timestamp()
        time = computed[query.time] if query.time in computed else quoted(frame, query.time)
        computed[AHEAD] = time > clock + F.lit(timedelta(microseconds=query.max_ahead))
    return frame.select(*columns, *(column.alias(name) for name, column in computed.items()))
