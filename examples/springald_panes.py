"""The idea of SPRINGALD on a small stream: cut time into panes, aggregate each once, compute windows from panes.

After G. Mencagli, P. Dazzi and M. Coppola, "SPRINGALD: GPU-Accelerated Window-Based Aggregates Over Out-of-Order
Data Streams". The tuples below come out of order, and each is in exactly one pane. A pane accepts late tuples until the
watermark closes the last window over it.
"""

import os
import random
import tempfile
from datetime import datetime, timedelta, timezone
from math import gcd
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import muntin
from muntin import aggregates as A
from muntin import windows as W

SIZE, SLIDE = 12, 4  # seconds
PANE = gcd(SIZE, SLIDE)
START = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
Tuple = tuple[int, int]
"""A second of event time, and a value."""


def arrivals() -> list[list[Tuple]]:
    """Forty seconds of tuples in four batches. Each arrives up to five seconds after its event time."""
    rng = random.Random(7)
    tuples = [(second, rng.randint(1, 9)) for second in range(40)]
    tuples.sort(key=lambda pair: pair[0] + rng.uniform(0, 5))
    return [tuples[begin : begin + 10] for begin in range(0, 40, 10)]


def panes_of(tuples: list[Tuple]) -> dict[int, int]:
    """The work of the pane stage: one partial result per pane, whatever the order of the tuples."""
    panes: dict[int, int] = {}
    for second, value in tuples:
        start = second // PANE * PANE
        panes[start] = panes.get(start, 0) + value
    return panes


def write(batches: list[list[Tuple]], directory: Path) -> None:
    for number, batch in enumerate(batches):
        times = pa.array([START + timedelta(seconds=second) for second, _ in batch], pa.timestamp("us", tz="UTC"))
        path = directory / f"{number}.parquet"
        pq.write_table(pa.table({"at": times, "value": [value for _, value in batch]}), path)
        os.utime(path, (number, number))  # a file stream reads the oldest file first


def main() -> None:
    batches = arrivals()
    print(f"windows of {SIZE} s every {SLIDE} s: panes of gcd({SIZE}, {SLIDE}) = {PANE} s\n")
    for number, batch in enumerate(batches):
        print(f"batch {number} brings the seconds  {' '.join(f'{second:>2}' for second, _ in batch)}")
    panes = panes_of([pair for batch in batches for pair in batch])
    print("\npane begins at  " + " ".join(f"{start:>4}" for start in sorted(panes)))
    print("sum of the pane " + " ".join(f"{panes[start]:>4}" for start in sorted(panes)))

    spark = muntin.session()
    with tempfile.TemporaryDirectory() as temporary:
        write(batches, Path(temporary))
        schema = spark.read.parquet(temporary).schema
        stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(temporary)
        sums = (
            muntin.over(stream, W.sliding(f"{SIZE} seconds", f"{SLIDE} seconds"), time="at", watermark="5 seconds")
            .agg(total=A.sum("value"))
            .to_df()
        )
        query = sums.writeStream.format("memory").queryName("sums").trigger(availableNow=True).start()
        query.awaitTermination()

    print("\nwindows that the watermark has closed, as Muntin answered them on Spark:\n")
    for row in spark.table("sums").orderBy("window_id").collect():
        begin = row.window_id * SLIDE - int(START.timestamp())
        pane_sums = [panes[start] for start in range(begin, begin + SIZE, PANE) if start in panes]
        expected = " + ".join(map(str, pane_sums))
        print(f"  [{begin:>3}, {begin + SIZE:>2})  {expected} = {row.total}")
        assert row.total == sum(pane_sums), "the windows are runs of the panes above"
    print(f"\n{muntin.progress(query).late_rows} tuples came too late for all of their windows")


if __name__ == "__main__":
    main()
