"""Load shedding that keeps every group (CoD): departure delays by route, from one flight in ten."""

from pathlib import Path

import muntin
from muntin import aggregates as A
from muntin import windows as W


def main() -> None:
    spark = muntin.session()
    files = str(Path(muntin.__file__).parent / "data" / "*.parquet")
    flights = spark.read.parquet(files)

    query = muntin.over(flights, W.tumbling("30 days"), time="departure", by=["origin", "dest"]).agg(
        flights=A.count(), mean_delay=A.mean("dep_delay")
    )
    shed = query.shed(rate=0.9)
    shed.explain()

    print("\nof one flight in ten: counts are exact, and means have an interval")
    columns = ["window.end", "origin", "dest", "flights", "round(mean_delay, 1) AS mean_delay"]
    interval = ["round(quality.low.mean_delay, 1) AS low", "round(quality.high.mean_delay, 1) AS high"]
    rows = shed.to_df().orderBy("window", "flights", ascending=[True, False])
    rows.selectExpr(*columns, *interval, "quality.sampled").show(6, truncate=False)

    print("of all flights")
    query.to_df().orderBy("window", "flights", ascending=[True, False]).selectExpr(*columns).show(6, truncate=False)

    uniform = query.shed(rate=0.9, method="uniform")
    counts = [variant.to_df().where("mean_delay IS NOT NULL").count() for variant in (query, shed, uniform)]
    print(
        "{:,} groups of all windows have a mean: {:,} with concept-driven shedding, {:,} with uniform".format(*counts)
    )


if __name__ == "__main__":
    main()
