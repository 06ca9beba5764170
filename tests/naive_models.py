"""Windows over tuples by their definition, and streams of all window models at once.

The tuples of a key are its rows in their final order: by time, and at equal times by the columns that the query reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count
from typing import Any

from muntin.windows import (
    CountWindow,
    DeltaWindow,
    PaneWindow,
    SessionWindow,
    SlideByTime,
    SlideByTuple,
    TupleWindow,
    Window,
)
from muntin.windows.slide_by import MOST_REPEATS
from tests import naive
from tests.naive import Aggregation, Answers, Place, Row, spark_order

BEFORE_ALL, BEHIND_ALL = -(10**30), 10**30


@dataclass(frozen=True)
class WindowContents:
    """The contents of one window of one key."""

    window_id: int
    start: int
    end: int
    rows: Sequence[Row]
    partial: bool = False


def in_order(rows: Iterable[Row], columns: Sequence[str]) -> list[Row]:
    """The rows in their final order, with nulls first, and NaN after all other numbers."""

    def rank(row: Row) -> list[Any]:
        # Structs have no order, but their text has.
        values = [repr(row[column]) if isinstance(row[column], dict) else row[column] for column in columns]
        return [row["t"], *((False,) if value is None else (True, spark_order(value)) for value in values)]

    return sorted(rows, key=rank)


def by_key(rows: Iterable[Row], keys: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(naive.key_of(row, keys), []).append(row)
    return groups


# The models: functions for all windows of one key that are complete at a watermark


def count_windows(window: CountWindow, tuples: Sequence[Row], watermark: int) -> Iterator[WindowContents]:
    for window_id, first in enumerate(range(0, len(tuples), window.slide)):
        contents = tuples[first : first + window.size]
        if len(contents) == window.size:
            yield WindowContents(window_id, contents[0]["t"], contents[-1]["t"], contents)
    if window.max_wait is None:
        return
    for i, row in enumerate(tuples):
        waited = row["t"] + window.max_wait
        followed = i + 1 < len(tuples) and tuples[i + 1]["t"] < waited
        if waited <= watermark and not followed:
            due = next(w for w in count() if w * window.slide + window.size > i + 1)
            contents = tuples[due * window.slide : i + 1]
            if contents:
                yield WindowContents(due, contents[0]["t"], row["t"], contents, partial=True)


def slide_by_tuple_windows(window: SlideByTuple, tuples: Sequence[Row], watermark: int) -> Iterator[WindowContents]:
    for number, trigger in enumerate(tuples, start=1):
        if number % window.every == 0:
            start, end = trigger["t"] - window.size, trigger["t"]
            contents = [row for row in tuples if start < row["t"] <= end]
            yield WindowContents(number // window.every - 1, start, end, contents)


def slide_by_time_windows(window: SlideByTime, tuples: Sequence[Row], watermark: int) -> Iterator[WindowContents]:
    """Without a new tuple since the last trigger, a window is a repeat, and only emitted when the next tuple comes."""
    if not tuples:
        return
    repeats = 0
    for window_id in range(tuples[0]["t"] // window.every, tuples[-1]["t"] // window.every + 1):
        trigger = (window_id + 1) * window.every
        before = [row for row in tuples if row["t"] < trigger]
        is_repeat = before[-1]["t"] < trigger - window.every
        repeats = repeats + 1 if is_repeat else 0
        is_known = len(before) < len(tuples) if is_repeat else trigger <= watermark
        if is_known and repeats <= MOST_REPEATS:
            contents = before[-window.last :]
            yield WindowContents(window_id, contents[0]["t"], trigger, contents)


def good_tuples(window: DeltaWindow, tuples: Iterable[Row]) -> list[Row]:
    """The tuples whose δ is a number and not smaller than an earlier one. Tuples at equal times are sorted by δ."""
    rows_with_numbers = [
        row for row in tuples if row[window.column] is not None and row[window.column] == row[window.column]
    ]
    return [row for run in good_runs(window, rows_with_numbers) for row in run]


def good_runs(window: DeltaWindow, rows: Iterable[Row]) -> list[list[Row]]:
    """Those of rows with numbers. A run ends when its key is forgotten: so long after its last valid row."""
    runs: list[list[Row]] = []
    for row in sorted(rows, key=lambda row: (row["t"], row[window.column])):
        if not runs or is_forgotten(window, runs[-1][-1], row):
            runs.append([row])
        elif row[window.column] >= runs[-1][-1][window.column]:
            runs[-1].append(row)
    return runs


def is_forgotten(window: TupleWindow, last: Row, row: Row) -> bool:
    """Whether a key whose last row was `last` is forgotten when the next one comes."""
    return window.forget_after is not None and row["t"] - last["t"] >= window.forget_after


def runs_of(window: TupleWindow, tuples: Sequence[Row]) -> list[list[Row]]:
    """The tuples of a key, parted where it is forgotten."""
    if isinstance(window, DeltaWindow):
        return good_runs(window, good_tuples(window, tuples))
    runs: list[list[Row]] = []
    for row in tuples:
        if not runs or is_forgotten(window, runs[-1][-1], row):
            runs.append([])
        runs[-1].append(row)
    return runs


def delta_triggers(deltas: Sequence[Any], slide: float | Fraction) -> list[int]:
    triggers: list[int] = []
    for i, delta in enumerate(deltas):
        if not triggers or delta > deltas[triggers[-1]] + slide:
            triggers.append(i)
    return triggers


def delta_windows(window: DeltaWindow, tuples: Sequence[Row], watermark: int) -> Iterator[WindowContents]:
    valid = good_tuples(window, tuples)
    deltas = [row[window.column] for row in valid]
    for window_id, trigger in enumerate(delta_triggers(deltas, window.slide)):
        end = deltas[trigger]
        contents = [row for row, delta in zip(valid, deltas, strict=True) if end - window.size <= delta < end]
        if contents:
            yield WindowContents(window_id, contents[0]["t"], valid[trigger]["t"], contents)


def windows_over_tuples(window: Window, tuples: Sequence[Row], watermark: int) -> Iterator[WindowContents]:
    if isinstance(window, TupleWindow) and window.forget_after is not None:
        remembering = replace(window, forget_after=None)
        return (each for run in runs_of(window, tuples) for each in windows_over_tuples(remembering, run, watermark))
    if isinstance(window, CountWindow):
        return count_windows(window, tuples, watermark)
    if isinstance(window, SlideByTuple):
        return slide_by_tuple_windows(window, tuples, watermark)
    if isinstance(window, SlideByTime):
        return slide_by_time_windows(window, tuples, watermark)
    assert isinstance(window, DeltaWindow)
    return delta_windows(window, tuples, watermark)


def sessions(window: SessionWindow, tuples: Iterable[Row]) -> list[list[Row]]:
    runs: list[list[Row]] = []
    for row in tuples:
        if runs and row["t"] - runs[-1][-1]["t"] <= window.gap:
            runs[-1].append(row)
        else:
            runs.append([row])
    return runs


# Streams


@dataclass(frozen=True)
class Batch:
    answers: Answers
    late: list[Row]
    rows: int
    invalid_rows: int
    outside_rows: int
    waiting: int
    """Tuples that the watermark has not passed yet, if a window needs their final order."""


class Stream:
    """A stream that recomputes all windows from all rows with every batch, and emits each window once."""

    def __init__(
        self,
        windows: Sequence[Window],
        keys: Sequence[str],
        columns: Sequence[str],
        over_panes: Mapping[str, Aggregation],
        over_tuples: Mapping[str, Aggregation],
        watermark: int = 0,
        delay: int | None = None,
    ) -> None:
        """`columns` are those that the query reads. The aggregates over tuples get their rows in final order.

        With a `delay`, tuples are finalized once they are that far behind the latest row, including the current batch.
        """
        self._windows, self._keys, self._columns = windows, keys, columns
        self._over_panes, self._over_tuples = over_panes, over_tuples
        self._has_partial = any(isinstance(window, CountWindow) and window.max_wait is not None for window in windows)
        self._arrived: list[tuple[Row, int, int]] = []
        """Every row, with the watermark and the time of finalization before its batch."""
        self._unclosed: dict[Window, list[Row]] = {
            window: [] for window in windows if isinstance(window, SessionWindow)
        }
        self._emitted: set[Place] = set()
        self._invalid_rows = 0
        self._delay = delay
        self.watermark = self.finalized = watermark

    def batch(self, rows: Iterable[Row], watermark: int) -> Batch:
        rows = list(rows)
        timed = [row for row in rows if row["t"] is not None]
        late = [self._is_late(row) for row in timed]
        closed, self.watermark = self.watermark, max(self.watermark, watermark)
        self._arrived += [(row, closed, self.finalized) for row in timed]
        self.finalized = max(self.finalized, self.watermark)
        if self._delay is not None and timed:
            self.finalized = max(self.finalized, max(row["t"] for row in timed) - self._delay)
        for window, unclosed in self._unclosed.items():
            assert isinstance(window, SessionWindow)
            unclosed += [row for row in timed if row["t"] + window.gap > closed]
        answers: Answers = {}
        for window in self._windows:
            answers |= self._answers(window)
        self._emitted |= answers.keys()
        invalid_rows, self._invalid_rows = self._invalid_rows, self._all_invalid_rows()
        return Batch(
            answers,
            late=[row for row, is_late in zip(timed, late, strict=True) if is_late],
            rows=sum(is_late is not None for is_late in late),
            invalid_rows=len(rows) - len(timed) + self._invalid_rows - invalid_rows,
            outside_rows=late.count(None),
            waiting=sum(row["t"] >= self.finalized for row, _, _ in self._arrived)
            if self._has_finalizing_windows
            else 0,
        )

    @property
    def _has_finalizing_windows(self) -> bool:
        return any(not isinstance(window, PaneWindow | SessionWindow) for window in self._windows)

    def _is_late(self, row: Row) -> bool | None:
        """Whether a row is too late for all its windows; None if it can be in no window."""
        in_time: list[bool] = []
        for window in self._windows:
            if isinstance(window, PaneWindow):
                in_time += [place[0] > self.watermark for place in naive.places(row, [window], ())]
            elif isinstance(window, SessionWindow):
                in_time.append(row["t"] + window.gap > self.watermark)
            else:
                in_time.append(row["t"] >= self.finalized)
        return not any(in_time) if in_time else None

    def _finalized(self) -> dict[tuple[Any, ...], list[Row]]:
        in_time = [row for row, _, settled_before in self._arrived if settled_before <= row["t"] < self.finalized]
        return {key: in_order(rows, self._columns) for key, rows in by_key(in_time, self._keys).items()}

    def _all_invalid_rows(self) -> int:
        deltas = [window for window in self._windows if isinstance(window, DeltaWindow)]
        finalized = self._finalized().values()
        return sum(len(tuples) - len(good_tuples(window, tuples)) for window in deltas for tuples in finalized)

    def _answers(self, window: Window) -> Answers:
        if isinstance(window, PaneWindow):
            return self._pane_answers(window)
        if isinstance(window, SessionWindow):
            windows_of_keys = self._closing_sessions(window)
        else:
            windows_of_keys = [
                (key, contents)
                for key, tuples in self._finalized().items()
                for contents in windows_over_tuples(window, tuples, self.finalized)
            ]
        places = {
            (contents.end, contents.start, window.title, contents.window_id, key): contents
            for key, contents in windows_of_keys
        }
        assert len(places) == len(windows_of_keys)
        return {
            place: self._values(self._over_tuples, contents.rows, contents.partial)
            for place, contents in places.items()
            if place not in self._emitted
        }

    def _pane_answers(self, window: PaneWindow) -> Answers:
        """A row counts for a window unless the window ended by the watermark of the batch before."""
        rows_of_places: dict[Place, list[Row]] = {}
        for row, closed, _ in self._arrived:
            for place in naive.places(row, [window], self._keys):
                if closed < place[0] <= self.watermark and place not in self._emitted:
                    rows_of_places.setdefault(place, []).append(row)
        return {place: self._values(self._over_panes, rows) for place, rows in rows_of_places.items()}

    def _closing_sessions(self, window: SessionWindow) -> list[tuple[tuple[Any, ...], WindowContents]]:
        """The sessions that close now. Rows that come later, near a closed session, begin another one."""
        closing, unclosed = [], []
        for key, rows in by_key(self._unclosed[window], self._keys).items():
            for tuples in sessions(window, in_order(rows, self._columns)):
                first, end = tuples[0]["t"], tuples[-1]["t"] + window.gap
                if end <= self.watermark:
                    closing.append((key, WindowContents(first, first, end, tuples)))
                else:
                    unclosed += tuples
        self._unclosed[window] = unclosed
        return closing

    def _values(self, named: Mapping[str, Aggregation], rows: Sequence[Row], partial: bool = False) -> dict[str, Any]:
        values = {name: aggregation(rows) for name, aggregation in named.items()}
        return values | {"partial": partial} if self._has_partial else values
