"""Windows over finalized tuples: count, slide by tuple and slide by time.

The order of finalized tuples is final, so every tuple gets a number. Count windows only need panes of
`gcd(size, slide)` tuples (SPRINGALD, section IV-B, the count-based case). The windows of the other two may begin at any
tuple and need a leaf for each. The last leaf of a key is kept until the key is forgotten: it has the count of the key's
tuples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd

import numpy as np

from muntin.arrays import BoolArray, Int64Array, Runs, expand, run_starts, search
from muntin.engine.operators.numbered import Numbered, Numbers
from muntin.engine.operators.operator import MOST_ANSWERS, Answers, Arrival, Closing, OperatorLeaves, TupleOperator
from muntin.panes.table import Layout, Leaves, PaneTable
from muntin.panes.tuples import Tuples
from muntin.partials.rows import Rows
from muntin.windows import CountWindow, SlideByTime, SlideByTuple
from muntin.windows.model import forgetting
from muntin.windows.slide_by import MOST_REPEATS


@dataclass(frozen=True)
class WindowRanges:
    """Windows of one model: their ids, their leaves `[begin, end)`, and their bounds in time."""

    window: Int64Array
    begin: Int64Array
    end: Int64Array
    start_time: Int64Array
    end_time: Int64Array
    partial: bool = False


@dataclass(frozen=True)
class OrderedOperator(TupleOperator):
    needs_order = True

    @property
    def forget_after(self) -> int | None:
        """After how much time without a tuple a key is forgotten: the same for all windows of the operator."""
        return forgetting(self.windows[0][1])

    @cached_property
    def pane(self) -> int:
        """The maximal number of tuples per leaf."""
        counts = [window for _, window in self.windows if isinstance(window, CountWindow)]
        if len(counts) < len(self.windows):
            return 1
        return gcd(*(part for window in counts for part in (window.size, window.slide)))

    @cached_property
    def shortest_wait(self) -> int | None:
        """The shortest `max_wait` of any window, if there is one: no leaf spans a pause of this length."""
        counts = [window for _, window in self.windows if isinstance(window, CountWindow)]
        waits = [window.max_wait for window in counts if window.max_wait is not None]
        return min(waits, default=None)

    def ingest_tuples(self, layout: Layout, table: PaneTable, arrival: Arrival) -> OperatorLeaves | None:
        tuples = arrival.finalized
        if not len(tuples):
            return None
        before = Numbered(self.own(table)[0], self.forget_after)
        numbers = Numbers.of(tuples.key, tuples.time, before)
        start = self._leaf_numbers(tuples, numbers, before)
        if self.pane == 1:
            rows = Rows(tuples.columns, tuples.time, None, len(tuples))
            leaves = Leaves(tuples.key, start, numbers.noted(self.leaf_set.lift(rows)))
            return OperatorLeaves(self.table_of(layout, table, leaves, rows.dictionaries))
        first = run_starts(tuples.key, start)
        rows = Rows(tuples.columns, tuples.time, Runs.of(first, len(tuples)), len(first))
        leaves = Leaves(tuples.key[first], start[first], numbers.noted(self.leaf_set.lift(rows), first))
        return OperatorLeaves(self.table_of(layout, table, leaves, rows.dictionaries))

    def _leaf_numbers(self, tuples: Tuples, numbers: Numbers, before: Numbered) -> Int64Array:
        """For each newly finalized tuple, the number of the first tuple of its leaf."""
        number, begin = numbers.number, numbers.begin
        start = number // self.pane * self.pane if begin is None else number - (number - begin) % self.pane
        if self.shortest_wait is None:
            return start
        runs, lengths, last, known = numbers.key_starts, numbers.key_lengths, numbers.last, numbers.known
        # A leaf also begins after every pause. Without a pause, the last leaf of the batch before is continued.
        waited = np.zeros(len(tuples), dtype=bool)
        waited[1:] = (np.diff(tuples.time) >= self.shortest_wait) & (np.diff(tuples.key) == 0)
        open_leaf = start[runs]
        if known.any():
            waited[runs] = known & (tuples.time[runs] - before.last_time[last] >= self.shortest_wait)
            open_leaf = np.where(known, before.leaves.time[last], open_leaf)
        position = np.arange(len(tuples))
        since = np.maximum.accumulate(np.where(waited, position, 0))
        paused = waited[since] & (since >= np.repeat(runs, lengths))
        return np.maximum(start, np.where(paused, number[since], np.repeat(open_leaf, lengths)))

    def closing(self, table: PaneTable, after: int, until: int, numbered: bool) -> Iterator[Closing]:
        (leaves,) = self.own(table)
        if not len(leaves):
            return
        numbered_leaves = Numbered(leaves, self.forget_after)
        ranges_of_models: list[tuple[int, WindowRanges]] = []
        for model, window in self.windows:
            for ranges in _closing_ranges(window, numbered_leaves, after, until):
                if len(ranges.window) == MOST_ANSWERS:  # a full batch: emitted by itself
                    yield self._closing(numbered_leaves, [(model, ranges)], numbered)
                else:
                    ranges_of_models.append((model, ranges))
        yield self._closing(numbered_leaves, ranges_of_models, numbered)

    def _closing(
        self, leaves: Numbered, ranges_of_models: Sequence[tuple[int, WindowRanges]], numbered: bool
    ) -> Closing:
        sizes = [len(ranges.window) for _, ranges in ranges_of_models]
        window, begin, end, start_time, end_time = (
            np.concatenate([getattr(ranges, column) for _, ranges in ranges_of_models])
            for column in ("window", "begin", "end", "start_time", "end_time")
        )
        answers = Answers(
            model=np.repeat([model for model, _ in ranges_of_models], sizes),
            window=window,
            key=leaves.leaves.key[begin],
            start=start_time,
            end=end_time,
            partial=np.repeat([ranges.partial for _, ranges in ranges_of_models], sizes),
            from_end=leaves.from_end(begin, end) if numbered else None,
        )
        closing = Closing(answers, (begin, end))
        return closing if self.share is None else closing.take(np.flatnonzero(self.share.owns(window)))

    def open(self, leaves: Sequence[Leaves], watermark: int) -> list[BoolArray]:
        (own_leaves,) = leaves
        if not len(own_leaves):
            return [np.zeros(0, dtype=bool)]
        numbered = Numbered(own_leaves, self.forget_after)
        needed = numbered.is_last.copy()
        for _, window in self.windows:
            if isinstance(window, CountWindow):
                following = window.complete(numbered.next_number[numbered.last]) * window.slide
                needed |= numbered.next_number > numbered.of_run(following)
            elif isinstance(window, SlideByTuple):
                needed |= numbered.last_time > watermark - window.size
            elif isinstance(window, SlideByTime):
                needed |= np.arange(len(own_leaves)) > numbered.of_run(numbered.last - window.last)
        return [numbered.that_go_on(needed, watermark)]


def _closing_ranges(window: object, leaves: Numbered, after: int, until: int) -> Iterator[WindowRanges]:
    if isinstance(window, CountWindow):
        yield _complete(window, leaves, after)
        if window.max_wait is not None:
            yield _waited(window, window.max_wait, leaves, after, until)
    elif isinstance(window, SlideByTuple):
        yield _slid_by_tuple(window, leaves, after)
    elif isinstance(window, SlideByTime):
        yield from _slid_by_time(window, leaves, after, until)


def _complete(window: CountWindow, leaves: Numbered, after: int) -> WindowRanges:
    """Windows whose last tuple is newly finalized."""
    first = -(-leaves.number[leaves.starts] // window.slide)
    count = np.maximum(window.complete(leaves.next_number[leaves.last]) - first, 0)
    ids, run = expand(first, count)
    begin, end = leaves.by_number.ranges(leaves.run[leaves.starts][run], *window.extent(ids))
    new = leaves.last_time[end - 1] >= after
    ids, begin, end = ids[new], begin[new], end[new]
    return WindowRanges(ids, begin, end, leaves.first_time[begin], leaves.last_time[end - 1])


def _waited(window: CountWindow, wait: int, leaves: Numbered, after: int, until: int) -> WindowRanges:
    """The next window of a key, incomplete, once the key has paused for its `max_wait`."""
    due = leaves.last_time + wait
    paused = leaves.is_last.copy()
    paused[:-1] |= leaves.first_time[1:] >= due[:-1]
    last = np.flatnonzero(paused & (due > after) & (due <= until))
    ids = window.complete(leaves.next_number[last])
    started = ids * window.slide < leaves.next_number[last]
    last, ids = last[started], ids[started]
    begin, _ = leaves.by_number.ranges(leaves.run[last], *window.extent(ids))
    return WindowRanges(ids, begin, last + 1, leaves.first_time[begin], leaves.last_time[last], partial=True)


def _slid_by_tuple(window: SlideByTuple, leaves: Numbered, after: int) -> WindowRanges:
    # Every tuple has a leaf, and the numbers of a run are consecutive: so triggers are `every` leaves apart.
    number = leaves.number[leaves.starts]
    first = leaves.starts + (window.every - 1 - number) % window.every
    steps, run = expand(np.zeros(len(first), dtype=np.int64), -((first - leaves.last - 1) // window.every))
    triggers = first[run] + steps * window.every
    new = leaves.last_time[triggers] >= after
    triggers, run = triggers[new], run[new]
    time = leaves.last_time[triggers]
    begin = search(leaves.last_time, time - window.size, leaves.starts[run], triggers, side="right")
    end = search(leaves.last_time, time, triggers, leaves.last[run] + 1, side="right")
    return WindowRanges(window.triggered(leaves.number[triggers]), begin, end, time - window.size, time)


def _slid_by_time(window: SlideByTime, leaves: Numbered, after: int, until: int) -> Iterator[WindowRanges]:
    """The windows of every tuple that is the last before a trigger: one window per trigger until the next tuple."""
    time = leaves.last_time
    first = window.triggered(time)
    following = np.full(len(time), np.iinfo(np.int64).max)
    following[:-1][~leaves.is_last[:-1]] = time[1:][~leaves.is_last[:-1]]
    due = window.end(first)
    at_once = np.flatnonzero((due <= following) & (due > after) & (due <= until))
    # Repetitions close with the next tuple, when that is newly finalized.
    repeated = np.flatnonzero(~leaves.is_last & (following >= after))
    count = np.clip(following[repeated] // window.every - 1 - first[repeated], 0, MOST_REPEATS)
    first_of_run = leaves.of_run(leaves.starts)

    def ranges(last: Int64Array, ids: Int64Array) -> WindowRanges:
        begin = np.maximum(last + 1 - window.last, first_of_run[last])
        return WindowRanges(ids, begin, last + 1, time[begin], window.end(ids))

    yield ranges(at_once, first[at_once])
    # Keys that were silent for long repeat their windows often: `MOST_ANSWERS` at a time.
    before = np.append(0, np.cumsum(count))
    for begin in range(0, int(before[-1]), MOST_ANSWERS):
        number = np.arange(begin, min(begin + MOST_ANSWERS, int(before[-1])))
        source = np.searchsorted(before, number, side="right") - 1
        yield ranges(repeated[source], first[repeated[source]] + 1 + number - before[source])
