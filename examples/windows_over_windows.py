"""Windows over windows: the busiest half hour of every day at each airport, from a stream of flights."""

from pathlib import Path

import muntin
from muntin import aggregates as A
from muntin import windows as W


def main() -> None:
    spark = muntin.session()
    files = str(Path(muntin.__file__).parent / "data" / "*.parquet")
    flights = spark.readStream.schema(spark.read.parquet(files).schema).parquet(files)

    half_hours = (
        muntin.over(flights, W.sliding("30 minutes", "10 minutes"), time="departure", watermark="2 hours", by="origin")
        .agg(flights=A.count())
        .to_df()
    )
    days = (
        muntin.over(half_hours, W.tumbling("1 day", offset="5 hours"), time="window_time", by="origin")
        .agg(most=A.max("flights"), when=A.argmax("window_time", "flights"))
        .to_df()
    )

    query = days.writeStream.format("memory").queryName("days").trigger(availableNow=True).start()
    query.awaitTermination()
    spark.table("days").select("window.start", "origin", "most", "when").orderBy("most", ascending=False).show(3, False)


if __name__ == "__main__":
    main()
