"""Windows over tuples from their literal definitions, and streams of all window models at once.

A key's tuples are rows in their final order: by time, and at one time by the columns that the query reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from typing import Any

from muntin.windows import CountWindow, DeltaWindow, PaneWindow, SessionWindow, SlideByTime, SlideByTuple, Window
from muntin.windows.slide_by import MOST_REPEATS
from tests import naive
from tests.naive import Aggregation, Answers, Place, Row, spark_order

BEFORE_ALL, BEHIND_ALL = -(10**30), 10**30


@dataclass(frozen=True)
class Held:
    """One window of one key."""

    window_id: int
    start: int
    end: int
    rows: Sequence[Row]
    partial: bool = False


def in_order(rows: Iterable[Row], columns: Sequence[str]) -> list[Row]:
    """Nulls first, NaN after all other numbers."""

    def rank(row: Row) -> list[Any]:
        values = [row[column] for column in columns]
        return [row["t"], *((False,) if value is None else (True, spark_order(value)) for value in values)]

    return sorted(rows, key=rank)


def by_key(rows: Iterable[Row], keys: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(naive.key_of(row, keys), []).append(row)
    return groups


# The models: all windows of one key that can be told, once all tuples before the watermark are known


def count_windows(window: CountWindow, tuples: Sequence[Row], watermark: int) -> Iterator[Held]:
    for window_id, first in enumerate(range(0, len(tuples), window.slide)):
        held = tuples[first : first + window.size]
        if len(held) == window.size:
            yield Held(window_id, held[0]["t"], held[-1]["t"], held)
    if window.max_wait is None:
        return
    for i, each in enumerate(tuples):
        waited = each["t"] + window.max_wait
        followed = i + 1 < len(tuples) and tuples[i + 1]["t"] < waited
        if waited <= watermark and not followed:
            due = next(w for w in count() if w * window.slide + window.size > i + 1)
            held = tuples[due * window.slide : i + 1]
            if held:
                yield Held(due, held[0]["t"], each["t"], held, partial=True)


def slide_by_tuple_windows(window: SlideByTuple, tuples: Sequence[Row], watermark: int) -> Iterator[Held]:
    for number, trigger in enumerate(tuples, start=1):
        if number % window.every == 0:
            start, end = trigger["t"] - window.size, trigger["t"]
            held = [each for each in tuples if start < each["t"] <= end]
            yield Held(number // window.every - 1, start, end, held)


def slide_by_time_windows(window: SlideByTime, tuples: Sequence[Row], watermark: int) -> Iterator[Held]:
    """A trigger without a new tuple since the one before is known of only with the next tuple."""
    if not tuples:
        return
    repeats = 0
    for window_id in range(tuples[0]["t"] // window.every, tuples[-1]["t"] // window.every + 1):
        trigger = (window_id + 1) * window.every
        before = [each for each in tuples if each["t"] < trigger]
        is_repeat = before[-1]["t"] < trigger - window.every
        repeats = repeats + 1 if is_repeat else 0
        is_known = len(before) < len(tuples) if is_repeat else trigger <= watermark
        if is_known and repeats <= MOST_REPEATS:
            held = before[-window.last :]
            yield Held(window_id, held[0]["t"], trigger, held)


def good_tuples(window: DeltaWindow, tuples: Iterable[Row]) -> list[Row]:
    """Those whose δ is a number and not smaller than an earlier one's; of one time, by δ first."""
    numbers = [
        each for each in tuples if each[window.column] is not None and each[window.column] == each[window.column]
    ]
    good: list[Row] = []
    for each in sorted(numbers, key=lambda row: (row["t"], row[window.column])):
        if not good or each[window.column] >= good[-1][window.column]:
            good.append(each)
    return good


def delta_triggers(deltas: Sequence[Any], slide: float | Fraction) -> list[int]:
    triggers: list[int] = []
    for i, delta in enumerate(deltas):
        if not triggers or delta > deltas[triggers[-1]] + slide:
            triggers.append(i)
    return triggers


def delta_windows(window: DeltaWindow, tuples: Sequence[Row], watermark: int) -> Iterator[Held]:
    good = good_tuples(window, tuples)
    deltas = [each[window.column] for each in good]
    for window_id, trigger in enumerate(delta_triggers(deltas, window.slide)):
        at = deltas[trigger]
        held = [each for each, delta in zip(good, deltas, strict=True) if at - window.size <= delta < at]
        if held:
            yield Held(window_id, held[0]["t"], good[trigger]["t"], held)


def windows_over_tuples(window: Window, tuples: Sequence[Row], watermark: int) -> Iterator[Held]:
    if isinstance(window, CountWindow):
        return count_windows(window, tuples, watermark)
    if isinstance(window, SlideByTuple):
        return slide_by_tuple_windows(window, tuples, watermark)
    if isinstance(window, SlideByTime):
        return slide_by_time_windows(window, tuples, watermark)
    assert isinstance(window, DeltaWindow)
    return delta_windows(window, tuples, watermark)


def sessions(window: SessionWindow, tuples: Iterable[Row]) -> list[list[Row]]:
    found: list[list[Row]] = []
    for each in tuples:
        if found and each["t"] - found[-1][-1]["t"] <= window.gap:
            found[-1].append(each)
        else:
            found.append([each])
    return found


# Streams


@dataclass(frozen=True)
class Batch:
    answers: Answers
    late: list[Row]
    rows: int
    invalid_rows: int
    outside_rows: int
    waiting: int
    """Tuples that the watermark has not passed yet, if some window needs them in their final order."""


class Stream:
    """All that has arrived, looked at anew with every batch; what has been told is not told again."""

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
        """`columns` are those that the query reads; the aggregates over tuples get them in order.

        With a `delay`, tuples are settled once they are that far behind the latest row, that of the batch included.
        """
        self._windows, self._keys, self._columns = windows, keys, columns
        self._over_panes, self._over_tuples = over_panes, over_tuples
        self._has_partial = any(isinstance(each, CountWindow) and each.max_wait is not None for each in windows)
        self._arrived: list[tuple[Row, int, int]] = []
        """Every row, the watermark of the batch before it, and up to where that had settled tuples."""
        self._unclosed: dict[Window, list[Row]] = {each: [] for each in windows if isinstance(each, SessionWindow)}
        self._told: set[Place] = set()
        self._bad_rows = 0
        self._delay = delay
        self.watermark = self.settled = watermark

    def batch(self, rows: Iterable[Row], watermark: int) -> Batch:
        rows = list(rows)
        timed = [row for row in rows if row["t"] is not None]
        late = [self._is_late(row) for row in timed]
        closed, self.watermark = self.watermark, max(self.watermark, watermark)
        self._arrived += [(row, closed, self.settled) for row in timed]
        self.settled = max(self.settled, self.watermark)
        if self._delay is not None and timed:
            self.settled = max(self.settled, max(row["t"] for row in timed) - self._delay)
        for window, unclosed in self._unclosed.items():
            assert isinstance(window, SessionWindow)
            unclosed += [row for row in timed if row["t"] + window.gap > closed]
        answers: Answers = {}
        for window in self._windows:
            answers |= self._answers(window)
        self._told |= answers.keys()
        invalid_rows, self._bad_rows = self._bad_rows, self._all_bad_rows()
        return Batch(
            answers,
            late=[row for row, is_late in zip(timed, late, strict=True) if is_late],
            rows=sum(is_late is not None for is_late in late),
            invalid_rows=len(rows) - len(timed) + self._bad_rows - invalid_rows,
            outside_rows=late.count(None),
            waiting=sum(row["t"] >= self.settled for row, _, _ in self._arrived) if self._settles else 0,
        )

    @property
    def _settles(self) -> bool:
        return any(not isinstance(each, PaneWindow | SessionWindow) for each in self._windows)

    def _is_late(self, row: Row) -> bool | None:
        """Whether a row counts nowhere because it came too late; None if no window could ever hold it."""
        in_time: list[bool] = []
        for window in self._windows:
            if isinstance(window, PaneWindow):
                in_time += [place[0] > self.watermark for place in naive.places(row, [window], ())]
            elif isinstance(window, SessionWindow):
                in_time.append(row["t"] + window.gap > self.watermark)
            else:
                in_time.append(row["t"] >= self.settled)
        return not any(in_time) if in_time else None

    def _settled(self) -> dict[tuple[Any, ...], list[Row]]:
        in_time = [row for row, _, settled in self._arrived if settled <= row["t"] < self.settled]
        return {key: in_order(rows, self._columns) for key, rows in by_key(in_time, self._keys).items()}

    def _all_bad_rows(self) -> int:
        deltas = [window for window in self._windows if isinstance(window, DeltaWindow)]
        settled = self._settled().values()
        return sum(len(tuples) - len(good_tuples(window, tuples)) for window in deltas for tuples in settled)

    def _answers(self, window: Window) -> Answers:
        if isinstance(window, PaneWindow):
            return self._pane_answers(window)
        if isinstance(window, SessionWindow):
            found = self._closing_sessions(window)
        else:
            found = [
                (key, held)
                for key, tuples in self._settled().items()
                for held in windows_over_tuples(window, tuples, self.settled)
            ]
        places = {(held.end, held.start, window.title, held.window_id, key): held for key, held in found}
        assert len(places) == len(found)
        return {
            place: self._values(self._over_tuples, held.rows, held.partial)
            for place, held in places.items()
            if place not in self._told
        }

    def _pane_answers(self, window: PaneWindow) -> Answers:
        """A row counts for a window unless the window had ended by the watermark of the batch before."""
        held: dict[Place, list[Row]] = {}
        for row, closed, _ in self._arrived:
            for place in naive.places(row, [window], self._keys):
                if closed < place[0] <= self.watermark and place not in self._told:
                    held.setdefault(place, []).append(row)
        return {place: self._values(self._over_panes, rows) for place, rows in held.items()}

    def _closing_sessions(self, window: SessionWindow) -> list[tuple[tuple[Any, ...], Held]]:
        """A session that has closed is gone: what comes later and near it begins another."""
        closing, unclosed = [], []
        for key, rows in by_key(self._unclosed[window], self._keys).items():
            for tuples in sessions(window, in_order(rows, self._columns)):
                first, end = tuples[0]["t"], tuples[-1]["t"] + window.gap
                if end <= self.watermark:
                    closing.append((key, Held(first, first, end, tuples)))
                else:
                    unclosed += tuples
        self._unclosed[window] = unclosed
        return closing

    def _values(self, named: Mapping[str, Aggregation], rows: Sequence[Row], partial: bool = False) -> dict[str, Any]:
        values = {name: of(rows) for name, of in named.items()}
        return values | {"partial": partial} if self._has_partial else values
