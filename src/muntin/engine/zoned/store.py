"""The state of a shard by zone: one header with those of all zones, and values whose names begin with the zone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from muntin.engine.host import NO_HOST
from muntin.engine.plan import Plan
from muntin.engine.state import StateBackend
from muntin.engine.store import Change, Header, HotCache, PaneStore, ShardStore, TableStore
from muntin.panes import packed
from muntin.panes.watermarks import Watermarks

ZONES = "zones"
"""The part of the header with those of the zones, as JSON by the names of the zones."""


class ZonesOfShard(Protocol):
    """The stores of the zones of a shard."""

    header: Header
    """What all zones have in common: watermarks and counts."""

    @property
    def zones(self) -> list[str]:
        """The zones with state."""
        ...

    def of_zone(self, plan: Plan, zone: str) -> ShardStore: ...

    def commit(self, watermarks: Watermarks, counters: Mapping[str, int]) -> Header: ...


@dataclass
class ZoneState:
    """The state of one zone, in that of its shard."""

    shard: StateBackend
    zone: str
    header: bytes | None

    def read_header(self) -> bytes | None:
        return self.header

    def write_header(self, value: bytes) -> None:
        self.header = value

    def read_description(self) -> bytes | None:
        return None

    def write_description(self, value: bytes) -> None:
        """That of the shard describes the query."""

    def read(self, name: str) -> bytes | None:
        return self.shard.read(self._name(name))

    def write(self, name: str, value: bytes) -> None:
        self.shard.write(self._name(name), value)

    def delete(self, name: str) -> None:
        self.shard.delete(self._name(name))

    def _name(self, name: str) -> str:
        return f"{self.zone}/{name}"


class ZonedStore:
    """The store of one shard, for one batch: open, run every zone, commit."""

    def __init__(self, plan: Plan, query: str, shard: int, backend: StateBackend, cache: HotCache) -> None:
        self._common = PaneStore(plan, query, shard, backend, cache)
        self._plan = plan
        self._place = query, shard
        self._backend = backend
        self._cache = cache
        self.header = self._common.header
        self._headers = {zone: packed.pack_header(content) for zone, content in contents(self.header).items()}
        self._opened: dict[str, ZoneState] = {}

    @property
    def zones(self) -> list[str]:
        return list(self._headers)

    def of_zone(self, plan: Plan, zone: str) -> PaneStore:
        """The store of one zone. A new one begins with the watermarks of the shard."""
        plan = replace(plan, host=NO_HOST)  # copies on the host are by shard, and names are unique in a zone alone
        new = replace(self.header, fingerprint=plan.fingerprint, version="", totals={}, described="", parts={})
        state = ZoneState(self._backend, zone, self._headers.get(zone, new.encode()))
        self._opened[zone] = state
        return PaneStore(plan, self._place[0], self._place[1], state, self._cache.of_zone(*self._place, zone))

    def commit(self, watermarks: Watermarks, counters: Mapping[str, int]) -> Header:
        """Write the headers of all zones. A zone of which nothing is left is forgotten."""
        written = {zone: state.header for zone, state in self._opened.items() if state.header is not None}
        kept = {zone: packed.unpack_header(header) for zone, header in written.items() if not _is_empty(header)}
        return self._common.commit(Change(None, None, watermarks, counters, parts={ZONES: kept}))


class ZonedTableStore:
    """The stores of the zones of a table: nothing is stored."""

    def __init__(self, plan: Plan) -> None:
        self.header = TableStore(plan).header
        self.zones: list[str] = []

    def of_zone(self, plan: Plan, zone: str) -> TableStore:
        return TableStore(plan)

    def commit(self, watermarks: Watermarks, counters: Mapping[str, int]) -> Header:
        return replace(self.header, totals=counters)


def contents(header: Header) -> Mapping[str, Any]:
    """The headers of the zones, as JSON, from that of their shard."""
    found: Mapping[str, Any] = header.parts.get(ZONES, {})
    return found


def headers(header: Header) -> Iterator[tuple[str, Header]]:
    """The headers of the zones, from that of their shard."""
    for zone, content in contents(header).items():
        yield zone, Header.decode(packed.pack_header(content))


def _is_empty(stored: bytes) -> bool:
    header = Header.decode(stored)
    return not (header.segments or header.chunks or header.parts)
