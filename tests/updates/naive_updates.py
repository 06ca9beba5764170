"""Updates by their definition: every batch recomputes every window, and emits those that differ from their last row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from muntin.features.updates.policy import Updates
from muntin.windows import Window
from tests import naive
from tests.naive import Aggregation, Answers, Place, Row


class Stream:
    """A stream of time windows that emits updates. `clock` is the processing time of the next batch, in ms."""

    def __init__(
        self, windows: Sequence[Window], keys: Sequence[str], named: Mapping[str, Aggregation], policy: Updates
    ) -> None:
        self._windows, self._keys, self._named, self._policy = windows, keys, named, policy
        self.rows: dict[Place, list[Row]] = {}
        """The rows that count in each window."""
        self.last: Answers = {}
        """The last row of each window."""
        self._pending: set[Place] = set()
        self._emitted_at: dict[int, int] = {}
        self.watermark = 0
        self.clock = 0

    def batch(self, rows: Iterable[Row], watermark: int, shard_of: Mapping[Any, int]) -> tuple[Answers, list[Row]]:
        """The rows that are emitted, and the rows that are too late for all windows."""
        closed, late = self.watermark, []
        self.watermark = max(closed, watermark)
        for row in rows:
            if row["t"] is None:
                continue
            places = naive.places(row, self._windows, self._keys)
            correctable = [place for place in places if place[0] + (self._policy.within or 0) > closed]
            for place in correctable:
                self.rows.setdefault(place, []).append(row)
                self._pending.add(place)
            if places and not correctable:
                late.append(row)
        emitted: Answers = {}
        shards_with_early = set()
        for place, contents in self.rows.items():
            end = place[0]
            timing = "early" if end > self.watermark else "on_time" if end > closed else "late"
            shard = shard_of.get(place[4], 0)
            if not self._may_emit(place, timing, shard):
                continue
            values = naive.computed({place: contents}, self._named)[place]
            last = self.last.get(place)
            self._pending.discard(place)
            if last is not None and all(naive.same(values[name], last[name]) for name in values):
                continue
            if timing == "early":
                shards_with_early.add(shard)
            revision = 0 if last is None else last["revision"] + 1
            emitted[place] = self.last[place] = {**values, "timing": timing, "revision": revision}
        self._emitted_at.update(dict.fromkeys(shards_with_early, self.clock))
        return emitted, late

    def _may_emit(self, place: Place, timing: str, shard: int) -> bool:
        if not self._policy.on_change:
            return timing == "on_time" or (timing == "late" and place in self._pending)
        if timing == "early" and self._policy.every is not None and shard in self._emitted_at:
            is_due = self.clock * 1000 >= self._emitted_at[shard] * 1000 + self._policy.every
            return is_due and place in self._pending
        return place in self._pending
