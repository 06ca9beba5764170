"""The last day, every hour, at each of New York's airports: a stream of the flights that come with Muntin."""

from pathlib import Path

import muntin
from muntin import aggregates as A
from muntin import windows as W


def main() -> None:
    spark = muntin.session()
    files = str(Path(muntin.__file__).parent / "data" / "*.parquet")
    flights = spark.readStream.schema(spark.read.parquet(files).schema).parquet(files)

    delays = (
        muntin.over(flights, W.sliding("1 day", "1 hour"), time="departure", watermark="2 hours", by="origin")
        .agg(flights=A.count(), mean_delay=A.mean("dep_delay"), cancelled=A.count(where="dep_delay IS NULL"))
        .to_df()
    )

    query = delays.writeStream.format("memory").queryName("delays").trigger(availableNow=True).start()
    query.awaitTermination()
    columns = ["window", "origin", "flights", "mean_delay", "cancelled"]
    spark.table("delays").select(columns).orderBy("mean_delay", ascending=False).show(5, truncate=False)


if __name__ == "__main__":
    main()
