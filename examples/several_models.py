"""Several models in one query: the flights of a year by the hour, by the hundred and by the working day, in one pass.

A working day is a session: flights that follow one another within two hours, which at night they do not.
"""

from pathlib import Path

from pyspark.sql import functions as F

import muntin
from muntin import aggregates as A
from muntin import windows as W


def main() -> None:
    spark = muntin.session()
    spark.conf.set("spark.sql.session.timeZone", "UTC")  # as the flights are written down
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
    # One result, with the model of each row in `window_name`. The worst hour of LaGuardia was in a summer's storm, its
    # worst hundred flights were an afternoon in September, and its worst day was one of snow in March.
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
