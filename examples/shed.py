"""Load shedding that keeps every group (CoD): departure delays by route, medians from one flight in ten."""

from pathlib import Path

import muntin
from muntin import aggregates as A
from muntin import windows as W


def main() -> None:
    spark = muntin.session()
    files = str(Path(muntin.__file__).parent / "data" / "*.parquet")
    flights = spark.read.parquet(files)

    query = muntin.over(flights, W.tumbling("30 days"), time="departure", by=["origin", "dest"]).agg(
        flights=A.count(), mean=A.mean("dep_delay"), median=A.median("dep_delay")
    )
    shed = query.shed(rate=0.9)
    shed.explain()

    print("\nmedians of one flight in ten, with an interval; counts and means need no flights, so they stay exact")
    columns = ["window.end", "origin", "dest", "flights", "round(mean, 1) AS mean", "median"]
    interval = ["quality.low.median AS low", "quality.high.median AS high", "quality.sampled"]
    rows = shed.to_df().orderBy("window", "flights", ascending=[True, False])
    rows.selectExpr(*columns, *interval).show(6, truncate=False)

    print("of all flights")
    query.to_df().orderBy("window", "flights", ascending=[True, False]).selectExpr(*columns).show(6, truncate=False)

    uniform = query.shed(rate=0.9, method="uniform")
    counts = [variant.to_df().where("median IS NOT NULL").count() for variant in (query, shed, uniform)]
    print(
        "{:,} groups of all windows have a median: {:,} with concept-driven shedding, {:,} with uniform".format(*counts)
    )


if __name__ == "__main__":
    main()
