"""The stops of vehicles on an expressway, counted twice: by a window function, and from partial results.

The position reports are generated as in the Linear Road benchmark: one every thirty seconds from each vehicle. A stop
is a run of reports with speed 0. That depends on the order of the reports. Still, the partial result of a stretch needs
only three values: the number of stops, whether it begins with one, and whether it ends with one.
"""

import pyarrow as pa

import muntin
from muntin.bench.linear_road import Road, reports, stops_by_panes, stops_of_windows


def main() -> None:
    spark = muntin.session()
    spark.conf.set("spark.sql.session.timeZone", "UTC")  # to show the times in UTC
    # Half an hour of few vehicles that stop often. `Road()` is three hours of many that rarely stop.
    road = Road(seconds=1800, joins=(0.01, 0.01), stopping=0.15, staying=0.5, seed=4)
    trips = spark.createDataFrame(pa.concat_tables(reports(road)))

    by_function = stops_of_windows(trips, size="20 minutes", advance="10 minutes").to_df()
    by_panes = stops_by_panes(trips, size="20 minutes", advance="10 minutes").to_df()
    both = by_panes.join(by_function.withColumnRenamed("stops", "by_function"), ["window", "vehicle"])
    print(f"{both.count()} windows of vehicles, {both.where('stops <> by_function').count()} of them counted otherwise")
    (
        both.where("stops > 2")
        .orderBy("window.end", "vehicle")
        .selectExpr("date_format(window.end, 'HH:mm') AS until", "vehicle", "stops", "by_function")
        .show(8)
    )


if __name__ == "__main__":
    main()
