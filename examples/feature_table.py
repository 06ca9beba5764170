"""Features of payment cards over an hour, a day and a week: an online store and a training set from the same panes.

One definition of the features is read twice. As a stream it keeps the latest row of each card in a database, where a
service looks them up. As a table it gives the features as they were at any time, for training.
"""

import random
import sqlite3
import tempfile
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import muntin
from muntin import aggregates as A
from muntin import windows as W

MONDAY = datetime(2024, 5, 6, tzinfo=timezone.utc)
FEATURES = ["n_1h", "n_24h", "n_7d", "spent_1h", "spent_24h", "spent_7d"]


def payments(days: int) -> list[tuple[datetime, str, float]]:
    """Generated payments of three cards; one of them is used seldom."""
    rng = random.Random(3)
    times = (MONDAY + timedelta(minutes=rng.uniform(0, days * 24 * 60)) for _ in range(60 * days))
    return [(time, rng.choice(["4711", "4711", "0815", "0815", "1234"]), float(rng.randrange(5, 90))) for time in times]


def features(payments: DataFrame) -> DataFrame:
    """The definition: every hour, three windows of each card in one row."""
    windows = [W.sliding(size, "1 hour") for size in ("1 hour", "24 hours", "7 days")]
    watermark = "10 minutes" if payments.isStreaming else None
    query = muntin.over(payments, *windows, time="at", watermark=watermark, by="card")
    return query.agg(n=A.count(), spent=A.sum("amount")).wide().to_df()


def into_store(store: Path, batch: DataFrame) -> None:
    """Keep the latest row of each card. A batch that is written again, after a failure, changes nothing."""
    columns = ["card", "as_of", *FEATURES]
    rows = [tuple(row) for row in batch.withColumn("as_of", F.unix_seconds("as_of")).select(columns).collect()]
    marks, updated = ", ".join("?" * len(columns)), ", ".join(f"{name} = excluded.{name}" for name in columns[1:])
    with closing(sqlite3.connect(store)) as database, database:
        database.execute(f"CREATE TABLE IF NOT EXISTS features (card TEXT PRIMARY KEY, {', '.join(columns[1:])})")
        database.executemany(
            f"INSERT INTO features ({', '.join(columns)}) VALUES ({marks}) "
            f"ON CONFLICT (card) DO UPDATE SET {updated} WHERE excluded.as_of >= features.as_of",
            rows,
        )


def look_up(store: Path, card: str) -> dict[str, object]:
    """What a service does when a payment of a card is to be judged."""
    with closing(sqlite3.connect(store)) as database:
        database.row_factory = sqlite3.Row
        return dict(database.execute("SELECT * FROM features WHERE card = ?", [card]).fetchone())


def training_set(labels: DataFrame, history: DataFrame) -> DataFrame:
    """Each label with the features of its card at the time of the label: the last row at or before it."""
    earlier = labels.alias("label").join(
        history.alias("feature"),
        F.expr("feature.card = label.card AND feature.as_of <= label.at"),
        "left",
    )
    latest = F.max_by(F.struct("as_of", *FEATURES), "as_of").alias("latest")
    return (
        earlier.groupBy("label.card", "label.at", "label.fraud").agg(latest).select("card", "at", "fraud", "latest.*")
    )


def main() -> None:
    spark = muntin.session()
    spark.conf.set("spark.sql.session.timeZone", "UTC")  # to show the times in UTC
    schema = "at timestamp, card string, amount double"
    with tempfile.TemporaryDirectory() as folder:
        store, files = Path(folder, "store.sqlite"), str(Path(folder, "payments"))
        spark.createDataFrame(payments(9), schema).coalesce(1).write.parquet(files)

        stream = features(spark.readStream.schema(schema).parquet(files)).writeStream
        stream = stream.foreachBatch(lambda batch, _: into_store(store, batch)).trigger(availableNow=True)
        stream.option("checkpointLocation", str(Path(folder, "checkpoint"))).start().awaitTermination()
        online = look_up(store, "4711")
        print("online: card 4711 as of", datetime.fromtimestamp(int(str(online["as_of"])), timezone.utc))
        print({name: online[name] for name in FEATURES})

        history = features(spark.read.schema(schema).parquet(files)).cache()
        same = history.where((F.col("card") == "4711") & (F.unix_seconds("as_of") == F.lit(online["as_of"]))).first()
        assert same is not None
        print("the same as in the history:", all(same[name] == online[name] for name in FEATURES))

        labels = [
            (MONDAY + timedelta(days=2, hours=5, minutes=30), "4711", False),
            (MONDAY + timedelta(days=2, hours=6), "1234", True),
            (MONDAY + timedelta(days=8, minutes=59), "0815", False),
            (MONDAY - timedelta(days=1), "0815", False),
        ]
        print("training set")
        labelled = spark.createDataFrame(labels, "at timestamp, card string, fraud boolean")
        training_set(labelled, history).orderBy("at").drop(*FEATURES[3:5]).show(truncate=False)


if __name__ == "__main__":
    main()
