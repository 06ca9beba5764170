"""From a query to a DataFrame: pane stage, shuffle, window stage, metrics, results."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import timedelta
from functools import partial, reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, GroupedData
from pyspark.sql import functions as F

from muntin.engine.features import Collect, Finish, Spread
from muntin.engine.map_stage import AHEAD
from muntin.engine.native_panes import NativePanes
from muntin.engine.plan import Plan
from muntin.files.reading import Wanted
from muntin.query import Query
from muntin.query.panes import native_panes
from muntin.spark import local_files, session
from muntin.spark.columns import map_in_arrow, quoted
from muntin.spark.kept_rows import kept_rows
from muntin.spark.metrics import observed
from muntin.spark.native_panes import grouped_panes
from muntin.spark.pane_stage import PACKED, packed_panes, skipped_files
from muntin.spark.roles import result_type
from muntin.spark.scan_source import through
from muntin.spark.shards import shard_ids, shards_for
from muntin.spark.source import Beside
from muntin.spark.steps import PAYLOAD, collected, computed, packed, spread
from muntin.spark.table_stage import shard_of_panes, shard_of_table
from muntin.spark.watermark import LATEST_TIME, check_name, check_watermark
from muntin.spark.window_stage import STAGED, ShardProcessor, unpacked
from muntin.spark.worker_check import check_device, check_workers
from muntin.windows import CountWindow

_WATERMARK = "spark.watermarkDelayMs"
"""The metadata by which Spark knows the event time of a stream."""


def to_df(query: Query) -> DataFrame:
    """The results of a query, with their event time."""
    return with_event_time(build(query), query)


def with_event_time(results: DataFrame, query: Query) -> DataFrame:
    """Results with the column `window_time`: the last instant of their window, as Spark's `window_time()`.

    A window is emitted when the watermark passes its end, so later results have later times: on a stream, the column
    has the watermark of the input. Maps over Arrow drop the metadata that say so.
    """
    end = F.col("window").getField("end") if "window" in results.columns else F.col("as_of")
    last = end - F.expr("INTERVAL '0.000001' SECOND")
    at_tuples = [window.title for window in query.windows if window.ends_at_tuple]
    if len(at_tuples) == len(query.windows):
        last = end
    elif at_tuples:
        last = F.when(F.col("window_name").isin(at_tuples), end).otherwise(last)
    # Incomplete windows are emitted when their key has been quiet for long: the watermark has passed them.
    waits = any(isinstance(window, CountWindow) and window.max_wait is not None for window in query.windows)
    # With updates, a window has several rows, before and after the watermark has passed it.
    if not query.source.streaming or waits or query.option("updates") is not None:
        return results.select("*", last.alias("window_time"))
    return results.select("*", last.alias("window_time", metadata={_WATERMARK: (query.watermark or 0) // 1000}))


def build(query: Query, finish: Finish | None = None) -> DataFrame:
    """The results of a query; `finish` turns those of a shard into others before they leave it."""
    results = _built(query, finish)
    if not query.key_names:
        return results
    return results.select(*(quoted(results, name).alias(query.key_names.get(name, name)) for name in results.columns))


def _built(query: Query, finish: Finish | None) -> DataFrame:
    """The results, with keys under their names in the stages."""
    spark = query.source.frame.sparkSession
    if query.source.streaming:
        session.check_configured(spark)
        if not query.source.beside:
            check_watermark(query.source, query.time, query.watermark, column=query.watermark_column)
        for frame in (query.source.frame, *(beside.frame for beside in query.source.beside)):
            check_name(frame, query.name)
    check_workers(spark, query.source.streaming)
    identity = uuid.uuid4().hex
    query = query.resolved(partial(session.most_workers, spark))
    default = session.partitions(spark)
    requested = [option.partitions(query.source.streaming, default) for option in query.options]
    partitions, shards = next((numbers for numbers in requested if numbers is not None), (default, default))
    plan = query.plan(shard_ids(partitions, shards))
    if query.source.streaming:
        plan = _with_shards_by_work(query, plan, all(numbers is None for numbers in requested))
    check_device(spark, plan.device)
    if query.source.streaming:
        plan = replace(plan, host=local_files.host_folder(spark, identity))
        if query.option("idle") is not None:
            from muntin.spark.ticks import knowing_inputs

            plan = knowing_inputs(query, plan)
    if finish is None:
        finish = query.finish(plan)
    schema = plan.result_schema if finish is None else finish.schema
    if query.source.streaming:
        staged = _packed_panes(query, plan, identity).transformWithStateInPandas(
            ShardProcessor(plan, identity, finish), outputStructType=STAGED, outputMode="Append", timeMode="EventTime"
        )
        results = observed(staged, identity, plan.reported, query.name).where(F.col("payload").isNotNull())
        return _behind_shards(plan, identity, results, schema)
    emitted = STAGED if plan.steps else result_type(plan, schema)
    native = native_panes(query, plan)
    if isinstance(native, NativePanes):
        panes = grouped_panes(plan, native, _rows(query, plan))
        results = panes.mapInArrow(shard_of_panes(plan, native, identity, finish), emitted)
    else:
        spread_over = partitions if any(numbers is not None for numbers in requested) else None
        packed_rows = _packed_panes(query, plan, identity, spread_over)
        results = packed_rows.applyInArrow(shard_of_table(plan, identity, finish), emitted)
    return _behind_shards(plan, identity, results, schema) if plan.steps else results


def _with_shards_by_work(query: Query, plan: Plan, by_default: bool) -> Plan:
    """The plan of a stream with as many shards as its work needs, if nobody has set a number."""
    spark = query.source.frame.sparkSession
    if not session.shards_by_work(spark):
        return plan
    shards = session.set_shards(spark, shards_for(plan, session.partitions(spark)))
    if not by_default or not plan.only_merges_panes:
        return plan
    return replace(plan, shards=tuple(shard_ids(shards)), follows_checkpoint=True)


def _rows(query: Query, plan: Plan) -> DataFrame:
    """The rows of a table, with what Spark computes."""
    scan = query.source.scan
    return _input(query, plan, query.source.frame if scan is None else scan.to_df())


def _packed_panes(query: Query, plan: Plan, identity: str, partitions: int | None = None) -> GroupedData:
    """Packed panes by shard; those of a table in this many partitions, if it matters."""
    # Each input has its own pane stage and its own watermark. A union of the rows would have a single one, and the rows
    # of the slower input would be late. Spark's watermark is then that of the slowest input.
    first = Beside(query.source.frame, query.watermark, query.has_own_watermark)
    inputs = (first, *query.source.beside)
    packed_inputs = [_packed(query, plan, source, identity, number) for number, source in enumerate(inputs)]
    if query.option("idle") is not None and query.source.streaming:
        from muntin.spark.ticks import ticks  # queries without it do not import the feature

        packed_inputs.append(ticks(query, plan))
    packed_rows = reduce(lambda first, second: first.union(second), packed_inputs)
    if partitions is not None and not query.source.streaming:
        # Spark would coalesce small partitions of a table, but their size says nothing about the work.
        packed_rows = packed_rows.repartition(partitions, "shard")
    return packed_rows.drop(LATEST_TIME).groupBy("shard")


def _behind_shards(plan: Plan, identity: str, results: DataFrame, schema: pa.Schema) -> DataFrame:
    """The steps from the packed results of the shards to a plain DataFrame."""
    spreads = [step for step in plan.steps if isinstance(step, Spread)]
    collects = [step for step in plan.steps if isinstance(step, Collect)]
    results = spread(results, spreads[0].tasks) if spreads else results.select("payload")
    compute = computed(plan, identity)
    if not collects:
        return results.mapInArrow(compute if spreads else unpacked, result_type(plan, schema))
    # All shards close the same windows in the same batch, so collecting their results needs no state.
    collected_rows = (results.mapInArrow(packed(compute), PAYLOAD) if spreads else results).repartition(1)
    return collected_rows.mapInArrow(collected(collects), result_type(plan, collects[-1].schema))


def _packed(query: Query, plan: Plan, source: Beside, identity: str, number: int) -> DataFrame:
    packed_rows = _pane_stage(query, plan, source.frame, identity, number)
    if not query.source.streaming or source.own_watermark:
        return packed_rows
    # The watermark follows the latest time that each task has seen, or the latest watermark that its rows carry: that
    # is a few rows instead of all rows of the stream. The column is dropped afterwards, so that Spark does not drop
    # packed rows as late.
    return packed_rows.withWatermark(LATEST_TIME, f"{source.delay} microseconds")


def _pane_stage(query: Query, plan: Plan, frame: DataFrame, identity: str, number: int) -> DataFrame:
    """The packed panes of an input. Those of files are made where the files are read, if Spark computes nothing."""
    scan = query.source.scan
    if scan is not None and not query.computed_by_spark:
        stage, report = packed_panes(plan, identity, query.kept_at_source), partial(skipped_files, plan)
        return through(scan, Wanted(_names(query, plan, frame), query.filters.conditions), stage, PACKED, report)
    rows = frame if scan is None else scan.to_df()
    return map_in_arrow(_input(query, plan, rows), packed_panes(plan, identity, number=number), PACKED)


def _names(query: Query, plan: Plan, frame: DataFrame) -> list[str]:
    """The columns of the data that the stages read."""
    if plan.late_row is not None:
        return list(frame.columns)
    read = dict.fromkeys([*plan.types, *([] if plan.marks is None else [plan.marks])])
    return [name for name in read if name in query.source.types]


def _input(query: Query, plan: Plan, frame: DataFrame) -> DataFrame:
    """Only the columns that the stages read, with expressions and filters computed by Spark."""
    names = _names(query, plan, frame)
    if query.kept_at_source is not None:
        frame = kept_rows(frame, names, query.kept_at_source)
    columns = [quoted(frame, name) for name in names]
    computed = {name: column for name, column in query.computed.columns.items() if name in plan.types}
    computed |= query.filters.columns

    def column(name: str) -> Column:
        return query.computed.columns[name] if name in query.computed.columns else quoted(frame, name)

    if plan.marks is not None and plan.marks in query.computed.columns:
        computed[plan.marks] = column(plan.marks)
    if query.max_ahead is not None:
        # In a stream, Spark's clock is the time of the batch, which is in the checkpoint: a replayed batch has the same
        # rows.
        clock = F.localtimestamp() if plan.types[query.time].tz is None else F.current_timestamp()
        limit = clock + F.lit(timedelta(microseconds=query.max_ahead))
        computed[AHEAD] = column(query.time) > limit
        if query.marks is not None and query.watermark_column is not None:
            mark = column(query.watermark_column)
            computed[query.marks] = F.when(mark <= limit, mark)
    return frame.select(*columns, *(column.alias(name) for name, column in computed.items()))
