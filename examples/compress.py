"""Compression of window state: a median keeps three hours of readings, and compresses those older than an hour."""

import os
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import muntin
from muntin import aggregates as A
from muntin import windows as W


def write(directory: Path) -> None:
    """Write five hours of readings, one per second, in a file per hour."""
    for hour in range(5):
        seconds = pa.array(range(hour * 3600, (hour + 1) * 3600)).cast(pa.timestamp("s", tz="UTC"))
        path = directory / f"{hour}.parquet"
        pq.write_table(pa.table({"at": seconds, "level": [second * 7919 % 3600 / 10 for second in range(3600)]}), path)
        os.utime(path, (hour, hour))  # a file stream reads the oldest file first


def main() -> None:
    spark = muntin.session()
    with tempfile.TemporaryDirectory() as temporary:
        write(Path(temporary))
        stream = spark.readStream.schema("at timestamp, level double").option("maxFilesPerTrigger", 1)
        query = muntin.over(
            stream.parquet(temporary), W.sliding("3 hours", "10 minutes"), time="at", watermark="1 minute"
        ).agg(median=A.median("level"))
        for number, after in enumerate([None, "1 hour"]):  # never, or when readings are an hour old
            writer = query.compress(after=after).to_df().writeStream.format("memory").queryName(f"medians_{number}")
            running = writer.trigger(availableNow=True).start()
            running.awaitTermination()
            progress = muntin.progress(running)
            total = spark.table(f"medians_{number}").selectExpr("round(sum(median), 3)").collect()[0][0]
            print(
                f"after={after}: {progress.compressed_chunks} of {progress.chunks} chunks are compressed; "
                f"medians add to {total}"
            )


if __name__ == "__main__":
    main()
