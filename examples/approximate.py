"""Medians from samples within an error bound (SPEAr): the typical delay, from a few hundred flights of a month."""

from pathlib import Path

import muntin
from muntin import aggregates as A
from muntin import windows as W


def main() -> None:
    spark = muntin.session()
    files = str(Path(muntin.__file__).parent / "data" / "*.parquet")
    flights = spark.read.parquet(files)

    query = muntin.over(flights, W.sliding("30 days", "10 days"), time="departure", by="origin").agg(
        flights=A.count(), median=A.median("dep_delay"), p95=A.quantile("dep_delay", 0.95)
    )
    # The rank of an answer may be off by 0.05: a median is between the exact quantiles for 0.45 and 0.55.
    sampled = query.approximate(budget=1_000, error=0.05, confidence=0.95)
    sampled.explain()

    print("\nfrom samples")
    columns = ["window.end", "origin", "flights", "median", "p95"]
    interval = ["quality.low.median AS low", "quality.high.median AS high"]
    rows = sampled.to_df().orderBy("window", "origin")
    rows.selectExpr(*columns, "quality.mode", "quality.sampled", *interval).show(6, truncate=False)

    print("exactly")
    query.to_df().selectExpr(*columns).orderBy("end", "origin").show(6, truncate=False)


if __name__ == "__main__":
    main()
