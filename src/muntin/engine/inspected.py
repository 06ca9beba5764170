"""What is in the state of a query: its parts by their headers, and its panes by the query's own plan.

Everything is read as the window stage reads it: Arrow and JSON behind checksums, and no code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from muntin.engine.description import Description, decode
from muntin.engine.plan import Plan
from muntin.engine.stages import stream_store
from muntin.engine.state import MemoryState
from muntin.engine.store import Header, HotCache, PaneStore
from muntin.engine.zoned.store import headers
from muntin.panes.packed import Kind, unseal
from muntin.panes.table import PaneTable

TIME = pa.timestamp("us", tz="UTC")
PARTS = pa.schema(
    [
        ("shard", pa.int32()),
        ("part", pa.string()),
        ("name", pa.string()),
        ("bytes", pa.int64()),
        ("panes", pa.int64()),
        ("rows", pa.int64()),
        ("first", TIME),
        ("last", TIME),
        ("compressed", pa.bool_()),
        ("watermark", TIME),
        ("version", pa.string()),
    ]
)
"""The columns of `parts`."""
_EARLIEST, _LATEST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The times that Spark has."""


def parts(shard: int, stored: bytes) -> Iterator[dict[str, Any]]:
    """The parts that the header of a shard names: the header itself, segments of panes, and chunks of rows."""
    header = Header.decode(stored)
    always = {"shard": shard, "watermark": _time(header.watermark), "version": header.version}
    yield always | {"part": "header", "name": "header", "bytes": len(stored)}
    for prefix, named in [("", header), *((f"{zone}/", of_zone) for zone, of_zone in headers(header))]:
        for segment in named.segments:
            found = {"part": "panes", "name": prefix + segment.name, "bytes": segment.size, "panes": segment.leaves}
            yield always | found | {"last": _time(segment.ends)}
        for chunk in named.chunks:
            found = {"part": "chunk", "name": prefix + chunk.name, "bytes": chunk.size, "rows": chunk.tuples}
            bounds = {"first": _time(chunk.first), "last": _time(chunk.last), "compressed": chunk.compressed}
            yield always | found | bounds


def described(stored: bytes | None) -> Description | None:
    """The description of the query that made a state; None if there is none, as in early versions."""
    return None if stored is None else decode(bytes(unseal(Kind.DESCRIPTION, stored)))


def totals(stored: bytes) -> Mapping[str, int]:
    """The counters in the header of a shard, since the query first started."""
    return Header.decode(stored).totals


def stored_metrics(stored: bytes) -> Mapping[str, int]:
    """The metrics of a shard that its header knows, by their names: totals, and sizes of what is in the state.

    Of the tables and trees in the memory of workers, a header knows nothing.
    """
    header = Header.decode(stored)
    compressed = [chunk for chunk in header.chunks if chunk.compressed]
    raw = [chunk for chunk in header.chunks if not chunk.compressed]
    values = {chunk.location.value: chunk.location.size for chunk in header.chunks}
    segments = sum(segment.size for segment in header.segments)
    youngest = max((chunk.last for chunk in compressed), default=header.finalized)
    return {f"total_{name}": total for name, total in header.totals.items()} | {
        "segments": len(header.segments),
        "panes": sum(segment.leaves for segment in header.segments),
        "chunks": len(header.chunks),
        "chunk_tuples": sum(chunk.tuples for chunk in header.chunks),
        "compressed_chunks": len(compressed),
        "compressed_tuples": sum(chunk.tuples for chunk in compressed),
        "compressed_bytes": sum(chunk.size for chunk in compressed),
        "uncompressed_bytes": sum(chunk.size for chunk in raw),
        "state_bytes": segments + sum(values.values()),
        "compressed_after": max(0, header.finalized - youngest),
    }


def _time(micros: int) -> int | None:
    """A time as it is in a column; None for times that stand for none."""
    return micros if _EARLIEST < micros < _LATEST else None


@dataclass(frozen=True)
class PaneRows:
    """The panes of windows over time, with what each aggregate is so far, by the plan of the query."""

    plan: Plan

    @property
    def schema(self) -> pa.Schema:
        plan = self.plan
        keys = [pa.field(key, plan.types[key]) for key in plan.keys]
        bounds = [pa.field("start", TIME), pa.field("end", TIME)]
        return pa.schema([pa.field("shard", pa.int32()), *keys, *bounds, *plan.schema.aggregates])

    def of(self, shard: int, state: MemoryState) -> pa.Table:
        """The panes of one shard; an error if the state is of another query."""
        plan = self.plan.of_shard(shard)
        store = stream_store(plan, "inspected", shard, state, HotCache(capacity=1))
        if isinstance(store, PaneStore):
            stores: list[tuple[Plan, PaneStore]] = [(plan, store)]
        else:
            plans = ((zone, plan.of_zone(zone)) for zone in store.zones)
            stores = [(of_zone, store.of_zone(of_zone, zone)) for zone, of_zone in plans]
        tables = ((of_store, part.table()) for of_store, part in stores)
        rows = [row for of_store, table in tables if table is not None for row in self._rows(of_store, shard, table)]
        return pa.Table.from_pylist(rows, self.schema)

    def _rows(self, plan: Plan, shard: int, table: PaneTable) -> Iterator[dict[str, Any]]:
        operator, grid = plan.over_time, plan.grid
        assert operator is not None
        own = range(operator.first_set, operator.first_set + len(operator.leaf_sets))
        starts = {number: grid.starts(table.leaves[number].time).tolist() for number in own}
        places = [zip(table.leaves[number].key.tolist(), starts[number], strict=True) for number in own]
        found: dict[tuple[int, int], dict[str, Any]] = {place: {} for each in places for place in each}
        for output in operator.outputs:
            sets = [number for number, _ in output.slots]
            if not sets or any(plan.layout.leaf_sets[number].per_tuple for number in sets):
                continue  # made of the rows themselves, when a window closes
            leaves = table.leaves[sets[0]]
            states = [table.leaves[number].state[fields] for number, fields in output.slots]
            lowered = output.bound.lower(states, table.dictionaries).to_pylist()
            for key, start, value in zip(leaves.key.tolist(), starts[sets[0]], lowered, strict=True):
                found[key, start][output.name] = value
        keys = table.keys.to_pylist()
        length = None if grid.is_uneven else grid.length
        for (key, start), values in sorted(found.items(), key=lambda item: item[0][::-1]):
            bounds = {"start": start, "end": None if length is None else start + length}
            named = {name: value for name, value in values.items() if name in self.schema.names}
            yield {"shard": shard, **keys[key], **bounds, **named}


def shards_of(stored: bytes) -> int:
    """How many shards the query has, by the header of one of them."""
    return Header.decode(stored).shards
