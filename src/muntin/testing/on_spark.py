"""The same stream on Spark: every step is a file of rows, and a row beside the data moves the watermark."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from muntin.errors import MuntinError
from muntin.query import Query
from muntin.spark.metrics import all_metrics, observations
from muntin.spark.types import schema_to_spark
from muntin.testing.rows import Rows
from muntin.testing.step import Row, Step, in_utc, split

MARK = "__muntin_moves_watermark"
"""A column of the files: its rows move the watermark, and the query does not see them."""


class OnSpark:
    """A running query, with its files in a temporary folder."""

    def __init__(self, schema: pa.Schema, spark: SparkSession) -> None:
        self._schema = schema
        self._spark = spark
        self._folder = Path(tempfile.mkdtemp(prefix="muntin-testing-"))
        (self._folder / "rows").mkdir()
        self._files = 0
        self._handle: Any = None
        self._rows: dict[int, list[Row]] = {}
        """The results of every batch, by its number: a batch that is repeated has the same."""
        self._seen = -1

    @property
    def query(self) -> Query:
        return self._query

    def start(self, build: Callable[[Any], Query], **trigger: bool) -> None:
        # Without Spark, the query says which column the watermark is of.
        try:
            known: Query | None = build(Rows({field.name: field.type for field in self._schema}))
        except MuntinError:
            known = None
        data = self._stream()
        self._moves = known is not None and known.max_ahead is None and known.watermark is not None
        if known is not None and self._moves:
            self._followed, self._delay = known.followed, known.watermark or 0
            data = data.withWatermark(known.followed, f"{self._delay} microseconds")
            # The condition reads the column, so Spark does not compute it before the watermark.
            data = data.where(~F.col(MARK) | F.col(known.followed).isNull())
        self._query = build(data.drop(MARK))
        writer = self._query.to_df().writeStream.outputMode("append").foreachBatch(self._collect)
        writer = writer.option("checkpointLocation", str(self._folder / "checkpoint"))
        self._handle = (writer.trigger(**trigger) if trigger else writer).start()
        self._build = build

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def restart(self, build: Callable[[Any], Query]) -> None:
        self._handle.stop()
        self.start(build)

    def batch(self, rows: pa.Table) -> Step:
        return self._add(rows.append_column(MARK, pa.array([False] * rows.num_rows)))

    def move(self, watermark: datetime) -> Step:
        if not self._moves:
            raise MuntinError(
                "watermark() moves the watermark of a column of the rows; this query has an expression as time, "
                "max_ahead=, or no watermark. Send a row with a later time."
            )
        time = watermark + timedelta(microseconds=self._delay)
        values = [time if field.name == self._followed else None for field in self._schema]
        row = pa.table(
            [pa.array([value], field.type) for value, field in zip(values, self._schema, strict=True)], self._schema
        )
        return self._add(row.append_column(MARK, pa.array([True])))

    def idle(self, length: int) -> Step:
        begin = datetime.now(timezone.utc) + timedelta(microseconds=length)
        while self._handle.isActive and not any(_time(report["timestamp"]) >= begin for report in self._reports()):
            time.sleep(0.1)
        return self._step()

    def drain(self) -> Step:
        self._handle.stop()
        self.start(self._build, availableNow=True)
        self._handle.awaitTermination()
        step = self._step()
        self.start(self._build)
        return step

    def _stream(self) -> DataFrame:
        columns = schema_to_spark(self._schema.append(pa.field(MARK, pa.bool_())))
        return (
            self._spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).parquet(str(self._folder / "rows"))
        )

    def _collect(self, batch: DataFrame, number: int) -> None:
        self._rows[number] = in_utc(batch.toArrow()).to_pylist()

    def _add(self, rows: pa.Table) -> Step:
        path = self._folder / "rows" / f"{self._files:06d}.parquet"
        pq.write_table(rows, path.with_suffix(".writing"))
        path.with_suffix(".writing").rename(path)
        self._files += 1
        self._handle.processAllAvailable()
        return self._step()

    def _reports(self) -> list[Any]:
        """The reports of the batches since the last step."""
        return [report for report in self._handle.recentProgress if report["batchId"] > self._seen]

    def _step(self) -> Step:
        reports = self._reports()
        numbers = sorted(number for number in self._rows if number > self._seen)
        self._seen = max([self._seen, *numbers])
        results, late = split([row for number in numbers for row in self._rows[number]], self._query.named_keys)
        metrics = _metrics(reports)
        watermark = self._watermark()
        if watermark is not None:
            watermark += timedelta(microseconds=metrics["idle_ahead"])
        return Step(results, late, watermark, metrics)

    def _watermark(self) -> datetime | None:
        text = (self._handle.lastProgress or {}).get("eventTime", {}).get("watermark")
        if text is None or text.startswith("1970-01-01T00:00:00.000"):
            return None
        return _time(text)


def _time(text: str) -> datetime:
    """A time in Spark's format."""
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)


def _metrics(reports: list[Any]) -> dict[str, int]:
    """The counts of some batches, and the sizes after the last."""
    found = [next(iter(values), {}) for values in ([*observations(report).values()] for report in reports)]
    found = [values for values in found if values.get("rows") is not None]
    metrics = {}
    for metric in all_metrics():
        values = [int(each.get(metric.name) or 0) for each in found]
        metrics[metric.name] = sum(values) if metric.counter else values[-1] if values else 0
    return metrics
