"""Rides from a topic of Kafka, in windows, to a Delta table: docs/kafka.md runs it step by step.

    spark-submit --packages CONNECTOR examples/pipeline_kafka.py send 0     an hour of rides into the topic
    spark-submit --packages CONNECTOR examples/pipeline_kafka.py run        what is in the topic into the table
    spark-submit --packages CONNECTOR examples/pipeline_kafka.py follow     the same, until it is interrupted
    python examples/pipeline_kafka.py show                                  some windows of the table
    spark-submit --packages CONNECTOR examples/pipeline_kafka.py topic      into another topic, and what its reader sees

The broker is KAFKA in the environment, or 127.0.0.1:9092. Table and checkpoint go to kafka-results, or to FARES.
"""

import os
import random
import sys
from datetime import datetime, timedelta, timezone

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

import muntin
from muntin import aggregates as A
from muntin import windows as W

BROKER = os.environ.get("KAFKA", "127.0.0.1:9092")
FOLDER = os.environ.get("FARES", "kafka-results")
TOPIC, RESULTS = os.environ.get("RIDES", "rides"), "fares"
RIDE = "pickup timestamp, route string, fare double"
ANSWER = "window struct<start: timestamp, end: timestamp>, trips long, mean double, timing string, revision long"
NOON = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)


def hour_of_rides(hour: int) -> list[tuple[datetime, str, float]]:
    """Generated rides; some arrive up to eight minutes after later ones."""
    chance = random.Random(hour)
    arrivals = [NOON + timedelta(hours=hour, seconds=6 * number) for number in range(600)]
    return [
        (time - timedelta(seconds=chance.randrange(480)), chance.choice("ABC"), chance.randrange(5, 60) / 2)
        for time in arrivals
    ]


def send(spark: SparkSession, rides: list[tuple[datetime, str, float]]) -> None:
    """Records whose key is the route: rides of a route stay in one partition, in the order in which they were sent."""
    records = spark.createDataFrame(rides, RIDE).select(
        F.col("route").alias("key"), F.to_json(F.struct("pickup", "route", "fare")).alias("value")
    )
    records.write.format("kafka").option("kafka.bootstrap.servers", BROKER).option("topic", TOPIC).save()


def topic(spark: SparkSession) -> DataFrame:
    """The topic as a stream, from its beginning."""
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", BROKER).option("subscribe", TOPIC)
    return source.option("startingOffsets", "earliest").load()


def parsed(records: DataFrame) -> DataFrame:
    """Records as rides. What is no ride has no pickup: Muntin counts it as invalid, and drops it."""
    ride = F.from_json(F.col("value").cast("string"), RIDE)
    # What identifies a record of the topic, and when Kafka got it.
    return records.select(ride.alias("ride"), "partition", "offset", "timestamp").select(
        "ride.*", "partition", "offset", "timestamp"
    )


def fares(rides: DataFrame) -> muntin.Query:
    """Trips and mean fare of the last 15 minutes, every 5 minutes: also of windows that are still open."""
    return (
        muntin.over(rides, W.sliding("15 minutes", "5 minutes"), time="pickup", watermark="10 minutes", by="route")
        .agg(trips=A.count(), mean=A.mean("fare"))
        .emit("on_change")
    )


def to_delta(results: DataFrame, forever: bool) -> StreamingQuery:
    """A table with the latest revision of each window and route, whatever fails and is repeated."""
    writer = muntin.upsert(results, f"{FOLDER}/fares", format="delta")
    writer = writer.option("checkpointLocation", f"{FOLDER}/checkpoint")
    return (writer if forever else writer.trigger(availableNow=True)).start()


def to_topic(results: DataFrame) -> StreamingQuery:
    """Results as records, whose key says which window of which route they are of.

    Spark may write a record twice, when a batch is repeated after a failure. The two are equal.
    """
    records = results.select(
        F.to_json(F.struct("window_id", "route")).alias("key"),
        F.to_json(F.struct("window", "trips", "mean", "timing", "revision")).alias("value"),
    )
    sink = records.writeStream.format("kafka").option("kafka.bootstrap.servers", BROKER).option("topic", RESULTS)
    return sink.option("checkpointLocation", f"{FOLDER}/topic-checkpoint").trigger(availableNow=True).start()


def latest(spark: SparkSession) -> DataFrame:
    """What a reader of the results does: the latest revision of each window and route, so each of them once."""
    source = spark.read.format("kafka").option("kafka.bootstrap.servers", BROKER).option("subscribe", RESULTS)
    records = source.load().select(
        F.from_json(F.col("key").cast("string"), "window_id long, route string").alias("id"),
        F.from_json(F.col("value").cast("string"), ANSWER).alias("answer"),
    )
    return records.groupBy("id").agg(F.max_by("answer", "answer.revision").alias("answer")).select("id.*", "answer.*")


def show() -> None:
    """Windows of route A around 13:00. Any reader of Delta would do."""
    import deltalake

    rows = deltalake.DeltaTable(f"{FOLDER}/fares").to_pyarrow_table().sort_by("window_id").to_pylist()
    for row in [row for row in rows if row["route"] == "A"][8:15]:
        window = " - ".join(f"{row['window'][side]:%H:%M}" for side in ("start", "end"))
        print(f"{window}  {row['trips']:3d} trips  mean {row['mean']:.2f}  revision {row['revision']}, {row['timing']}")


def main(command: str = "run", hour: str = "0") -> None:
    if command == "show":
        show()
        return
    spark = muntin.session()
    spark.sparkContext.setLogLevel("ERROR")
    spark.conf.set("spark.sql.session.timeZone", "UTC")  # to show the times in UTC
    if command == "send":
        send(spark, hour_of_rides(int(hour)))
        return
    results = fares(parsed(topic(spark))).to_df()
    query = to_topic(results) if command == "topic" else to_delta(results, forever=command == "follow")
    query.awaitTermination()
    progress = muntin.progress(query)
    print(f"{progress.rows} rows so far: {progress.late_rows} too late, {progress.invalid_rows} invalid")
    if command == "topic":
        latest(spark).drop("window_id").orderBy("window", "route").show(6, truncate=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
