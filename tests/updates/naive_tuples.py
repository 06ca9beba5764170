"""Updates of windows over tuples by their definition: every batch answers all windows of all rows that count so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from muntin.features.updates.policy import Updates
from muntin.windows import SessionWindow, Window
from tests import naive, naive_models
from tests.naive import Aggregation, Row

Identity: TypeAlias = tuple[str, int, tuple[Any, ...]]
"""The title of the window, its id and the key."""


class Stream:
    """A stream of one window model over tuples that emits updates."""

    def __init__(
        self,
        window: Window,
        keys: Sequence[str],
        columns: Sequence[str],
        named: Mapping[str, Aggregation],
        policy: Updates,
        delay: int | None,
    ) -> None:
        self._window, self._keys, self._columns, self._named = window, keys, columns, named
        self._policy, self._delay = policy, delay
        self._rows: list[Row] = []
        self.final: dict[Identity, dict[str, Any]] = {}
        """The answers of windows that cannot change any more."""
        self.last: dict[Identity, dict[str, Any]] = {}
        """The last row of each window."""
        self.watermark = self.finalized = 0

    @property
    def _lag(self) -> int:
        return self._policy.within or 0

    def _complete(self, end: int) -> int:
        return end if isinstance(self._window, SessionWindow) else end + 1

    def batch(self, rows: Sequence[Row], watermark: int) -> tuple[dict[Identity, dict[str, Any]], int]:
        """The rows that are emitted, and how many rows are too late."""
        timed = [row for row in rows if row["t"] is not None]
        is_session = isinstance(self._window, SessionWindow)
        closed = self.watermark if is_session else self.finalized
        if isinstance(self._window, SessionWindow):
            gap = self._window.gap
            in_time = [row for row in timed if row["t"] + gap > closed - self._lag]
        else:
            in_time = [row for row in timed if row["t"] >= closed - self._lag]
        self._rows += in_time
        self.watermark = max(self.watermark, watermark)
        self.finalized = max(self.finalized, self.watermark)
        if self._delay is not None and timed:
            self.finalized = max(self.finalized, max(row["t"] for row in timed) - self._delay)
        now = self.watermark if is_session else self.finalized
        existing = self._existing()
        emitted = {}
        for identity, values in existing.items():
            complete = self._complete(values["end"])
            timing = "early" if complete > now else "on_time" if complete > closed else "late"
            last = self.last.get(identity)
            if timing == "early" and not self._policy.on_change:
                continue
            if last is None or last["retracted"] or not same(last, values):
                revision = 0 if last is None else last["revision"] + 1
                emitted[identity] = {**values, "timing": timing, "revision": revision, "retracted": False}
        for identity, last in self.last.items():
            if identity not in existing and identity not in self.final and not last["retracted"]:
                complete = self._complete(last["end"])
                timing = "early" if complete > now else "on_time" if complete > closed else "late"
                nothing = dict.fromkeys(self._named)
                revision = last["revision"] + 1
                emitted[identity] = {**last, **nothing, "timing": timing, "revision": revision, "retracted": True}
        self.last |= emitted
        self._finalize(existing, now - self._lag)
        return emitted, len(timed) - len(in_time)

    def _existing(self) -> dict[Identity, dict[str, Any]]:
        """All windows that may still change, with the answers of a table of the rows so far."""
        found: dict[Identity, dict[str, Any]] = {}
        for key, rows in naive_models.by_key(self._rows, self._keys).items():
            tuples = naive_models.in_order(rows, self._columns)
            for number, start, end, contents in self._windows(tuples):
                identity = (self._window.title, number, key)
                if identity not in self.final:
                    values = {name: aggregation(contents) for name, aggregation in self._named.items()}
                    found[identity] = {"start": start, "end": end, **values}
        return found

    def _windows(self, tuples: list[Row]) -> list[tuple[int, int, int, Sequence[Row]]]:
        if isinstance(self._window, SessionWindow):
            runs = naive_models.sessions(self._window, tuples)
            return [(run[0]["t"], run[0]["t"], run[-1]["t"] + self._window.gap, run) for run in runs]
        windows = naive_models.windows_over_tuples(self._window, tuples, naive_models.BEHIND_ALL)
        return [(each.window_id, each.start, each.end, each.rows) for each in windows]

    def _finalize(self, existing: Mapping[Identity, dict[str, Any]], final: int) -> None:
        for identity, values in existing.items():
            if self._complete(values["end"]) <= final:
                self.final[identity] = values
        if isinstance(self._window, SessionWindow):  # rows near a final session begin another one
            gone = {(key, number) for _, number, key in self.final}
            kept = []
            for key, rows in naive_models.by_key(self._rows, self._keys).items():
                for run in naive_models.sessions(self._window, naive_models.in_order(rows, self._columns)):
                    kept += [] if (key, run[0]["t"]) in gone else run
            self._rows = kept


def same(last: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    return all(naive.same(values[name], last[name]) for name in values)
