"""The operator: the stream of quotes, the windows, the model, and the price at the horizon."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from examples.trading import model
from examples.trading.question import Question
from examples.trading.sink import Sink
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

import muntin
from muntin import windows as W

# Pickle the model itself, since Spark's workers may not have the examples on their path.
cloudpickle.register_pickle_by_value(model)  # type: ignore[no-untyped-call]

QUOTES = "time timestamp, symbol string, bid double, bid_size long, ask double, ask_size long"


def predictions(quotes: DataFrame, question: Question) -> DataFrame:
    """One row per window and stock. Times are microseconds, which every database can store."""
    fitted = fit_windows(quotes, question).to_df()
    due = F.unix_micros("window.end") + question.ahead
    x = (due - F.col("centre")) / F.col("half_span")
    return fitted.select(
        "symbol",
        F.unix_micros("window.start").alias("window_start"),
        F.unix_micros("window.end").alias("window_end"),
        "quotes",
        "first_price",
        "highest",
        "lowest",
        "last_price",
        "status",
        "residual",
        due.alias("due"),
        # Horner's rule. A window without a curve has no coefficients, so the prediction is null.
        F.aggregate(F.reverse("coefficients"), F.lit(0.0), lambda price, coefficient: price * x + coefficient).alias(
            "prediction"
        ),
    )


def fit_windows(quotes: DataFrame, question: Question) -> muntin.Query:
    return (
        muntin.over(
            quotes,
            W.sliding(question.window, question.slide),
            time="time",
            watermark=question.watermark,
            by="symbol",
        )
        .apply(
            model.Polynomial(question.degree),
            model.SCHEMA,
            columns=model.COLUMNS,
        )
        .parallel(
            question.model,
            question.workers,
            keys=question.stocks,
            skewed=True,
        )
    )


def stream(spark: SparkSession, folder: Path, files_a_batch: int) -> DataFrame:
    return spark.readStream.schema(QUOTES).option("maxFilesPerTrigger", files_a_batch).parquet(str(folder))


def start(results: DataFrame, sink: Sink, checkpoint: Path) -> StreamingQuery:
    """Start to write the results to the database, batch by batch, until the query is stopped."""
    return (
        results.writeStream.outputMode("append")
        .foreachBatch(into(sink))
        .option("checkpointLocation", str(checkpoint))
        .start()
    )


def into(sink: Sink) -> Callable[[DataFrame, int], None]:
    """The function for `foreachBatch`. A batch has few results, so the driver writes them in one transaction."""

    def write(results: DataFrame, batch: int) -> None:
        sink.write(batch, rows(results.toArrow()))

    return write


def rows(results: pa.Table) -> list[dict[str, Any]]:
    dicts: list[dict[str, Any]] = results.to_pylist()
    return dicts
