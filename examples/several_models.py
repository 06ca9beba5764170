"""Several models in one query: the flights of a year per hour, per hundred and per working day, in one pass.

A working day is a session: flights at most two hours apart. At night, the gaps are longer.
"""

from pathlib import Path

from pyspark.sql import functions as F

import muntin
from muntin import aggregates as A
from muntin import windows as W


def main() -> None:
    spark = muntin.session()
    spark.conf.set("spark.sql.session.timeZone", "UTC")  # the times of the flights are stored as UTC
    flights = spark.read.parquet(str(Path(muntin.__file__).parent / "data" / "flights.parquet"))
    delays = (
        muntin.over(
            flights,
            W.sliding("1 hour", "15 minutes", name="last hour"),
            W.count(100, 50, name="last 100 flights"),
            W.session("2 hours", name="working day"),
            time="departure",
            by="origin",
        )
        .agg(flights=A.count(), delay=A.mean("dep_delay"))
        .to_df()
    )
    # One result, with the model of each row in `window_name`. The worst hour of LaGuardia was in a summer storm, the
    # worst hundred flights were on an afternoon in September, and the worst day was a day of snow in March.
    (
        delays.where("origin = 'LGA' AND flights >= 10")
        .groupBy("window_name")
        .agg(F.count("*").alias("windows"), F.max("delay").alias("worst"), F.max_by("window", "delay").alias("when"))
        .selectExpr("window_name", "windows", "round(worst) AS worst", "when.start", "when.end")
        .orderBy("windows")
        .show(truncate=False)
    )


if __name__ == "__main__":
    main()
