"""Naive recomputation: windows from their literal definition, aggregates from their documented meaning.

Rows are plain dicts with integer times and None for null. Everything is a loop over all rows; nothing is shared with
the library but the parameters of the windows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

from muntin.windows import CumulativeWindow, TimeWindow, Window

Row: TypeAlias = Mapping[str, Any]
Aggregation: TypeAlias = Callable[[Sequence[Row]], Any]
Place: TypeAlias = tuple[int, int, str, int, tuple[Any, ...]]
"""A window of a key: its end, its start, its title, its id, the key."""
Answers: TypeAlias = dict[Place, dict[str, Any]]

PRIME = 10_007


def windows_holding(window: Window, time: int) -> list[int]:
    """The windows over time that a time is in."""
    if isinstance(window, CumulativeWindow):
        steps = window.size // window.step
        nearest = (time - window.offset) // window.size * steps
        candidates = range(nearest - steps, nearest + 2 * steps)
    else:
        assert isinstance(window, TimeWindow)
        nearest = (time - window.offset) // window.slide
        candidates = range(nearest - window.size // window.slide - 2, nearest + 3)
    return [i for i in candidates if start_of(window, i) <= time < end_of(window, i)]


def start_of(window: Window, window_id: int) -> int:
    if isinstance(window, CumulativeWindow):
        return window.offset + window_id // (window.size // window.step) * window.size
    assert isinstance(window, TimeWindow)
    return window.offset + window_id * window.slide


def end_of(window: Window, window_id: int) -> int:
    if isinstance(window, CumulativeWindow):
        return window.offset + (window_id + 1) * window.step
    assert isinstance(window, TimeWindow)
    return start_of(window, window_id) + window.size


def places(row: Row, windows: Iterable[Window], keys: Sequence[str]) -> list[Place]:
    """The windows over time that a row is in."""
    key = key_of(row, keys)
    return [
        (end_of(window, i), start_of(window, i), window.title, i, key)
        for window in windows
        for i in windows_holding(window, row["t"])
    ]


def key_of(row: Row, keys: Sequence[str]) -> tuple[Any, ...]:
    return tuple(comparable(row[key]) for key in keys)


def comparable(value: Any) -> Any:
    """Equal for keys that Spark's groupBy takes for equal: NaN is NaN, -0.0 is 0.0, null is null."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple(comparable(part) for _, part in sorted(value.items()))
    return value


def answers(
    rows: Iterable[Row], windows: Sequence[Window], keys: Sequence[str], named: Mapping[str, Aggregation]
) -> Answers:
    """All windows of a table."""
    held: dict[Place, list[Row]] = {}
    for row in rows:
        if row["t"] is not None:
            for place in places(row, windows, keys):
                held.setdefault(place, []).append(row)
    return computed(held, named)


def computed(held: Mapping[Place, list[Row]], named: Mapping[str, Aggregation]) -> Answers:
    return {place: {name: of(rows) for name, of in named.items()} for place, rows in held.items()}


class Stream:
    """A row counts for a window unless it ended by the watermark of the batch before; windows close once."""

    def __init__(self, windows: Sequence[Window], keys: Sequence[str], named: Mapping[str, Aggregation]) -> None:
        self._windows, self._keys, self._named = windows, keys, named
        self._held: dict[Place, list[Row]] = {}
        self.watermark = 0  # Spark's, before it has seen anything

    def batch(self, rows: Iterable[Row], watermark: int) -> tuple[Answers, list[Row]]:
        """The answers of the windows that close, and the rows that count nowhere though some window held them."""
        late = []
        for row in rows:
            if row["t"] is None:
                continue
            held_by = places(row, self._windows, self._keys)
            still_open = [place for place in held_by if place[0] > self.watermark]
            for place in still_open:
                self._held.setdefault(place, []).append(row)
            if held_by and not still_open:
                late.append(row)
        self.watermark = max(self.watermark, watermark)
        closing = {place: self._held.pop(place) for place in list(self._held) if place[0] <= self.watermark}
        return computed(closing, self._named), late


# Aggregates: each function takes the rows of one window.


def spark_order(value: Any) -> tuple[bool, Any]:
    """Sorts as Spark does: NaN after everything else."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return (is_nan, 0 if is_nan else value)


def present(rows: Sequence[Row], *columns: str) -> list[Row]:
    return [row for row in rows if all(row[column] is not None for column in columns)]


def column_values(rows: Sequence[Row], column: str) -> list[Any]:
    return [row[column] for row in present(rows, column)]


def where(condition: str, of: Aggregation) -> Aggregation:
    return lambda rows: of([row for row in rows if row[condition] is True])


def quantile(column: str, probability: float) -> Aggregation:
    """Spark's `percentile`: on the line between the two nearest values."""

    def of(rows: Sequence[Row]) -> Any:
        ordered = sorted(column_values(rows, column), key=spark_order)
        if not ordered:
            return None
        position = (len(ordered) - 1) * probability
        low, high = ordered[math.floor(position)], ordered[math.ceil(position)]
        if low == high or math.floor(position) == math.ceil(position):
            return float(low)
        return (math.ceil(position) - position) * low + (position - math.floor(position)) * high

    return of


def quantiles(column: str, probabilities: Sequence[float]) -> Aggregation:
    each = [quantile(column, probability) for probability in probabilities]
    return lambda rows: [of(rows) for of in each] if column_values(rows, column) else None


def frequencies(rows: Sequence[Row], column: str) -> list[tuple[Any, int]]:
    """Most frequent first, and of equally frequent ones the least first."""
    counts: dict[Any, tuple[Any, int]] = {}
    for value in column_values(rows, column):
        counts[comparable(value)] = (value, counts.get(comparable(value), (value, 0))[1] + 1)
    return sorted(counts.values(), key=lambda pair: (-pair[1], spark_order(pair[0])))


def mode(column: str) -> Aggregation:
    return lambda rows: next((value for value, _ in frequencies(rows, column)), None)


def count_distinct(column: str) -> Aggregation:
    return lambda rows: len(frequencies(rows, column))


def top_k(column: str, k: int) -> Aggregation:
    return lambda rows: [{"item": value, "count": count} for value, count in frequencies(rows, column)[:k]]


def count(column: str | None = None) -> Aggregation:
    return lambda rows: len(rows) if column is None else len(column_values(rows, column))


def total(column: str) -> Aggregation:
    def of(rows: Sequence[Row]) -> Any:
        values = column_values(rows, column)
        return sum(values) if values else None

    return of


def mean(column: str) -> Aggregation:
    def of(rows: Sequence[Row]) -> float | None:
        values = column_values(rows, column)
        return sum(values) / len(values) if values else None

    return of


def variance(column: str, *, sample: bool, root: bool = False) -> Aggregation:
    def of(rows: Sequence[Row]) -> float | None:
        values = column_values(rows, column)
        degrees = len(values) - sample
        if degrees <= 0:
            return None
        if not all(math.isfinite(value) for value in values):
            return math.nan
        exact = [Fraction(value) for value in values]
        middle = sum(exact) / len(exact)
        spread = float(sum((value - middle) ** 2 for value in exact) / degrees)
        return math.sqrt(spread) if root else spread

    return of


def least(column: str) -> Aggregation:
    return lambda rows: min(column_values(rows, column), key=spark_order, default=None)


def greatest(column: str) -> Aggregation:
    return lambda rows: max(column_values(rows, column), key=spark_order, default=None)


def first(column: str) -> Aggregation:
    """Of several at the earliest time, the smallest."""

    def of(rows: Sequence[Row]) -> Any:
        found = min(present(rows, column), key=lambda row: (row["t"], spark_order(row[column])), default=None)
        return None if found is None else found[column]

    return of


def last(column: str) -> Aggregation:
    """Of several at the latest time, the largest."""

    def of(rows: Sequence[Row]) -> Any:
        found = max(present(rows, column), key=lambda row: (row["t"], spark_order(row[column])), default=None)
        return None if found is None else found[column]

    return of


def arg(column: str, by: str, *, largest: bool) -> Aggregation:
    """`column`, perhaps null, where `by` is smallest or largest.

    Of several tuples the earliest; of several at that time the one whose `column` is smallest, null after all others.
    """

    def rank(row: Row) -> tuple[Any, ...]:
        missing = row[column] is None
        return (row["t"], missing, (False, 0) if missing else spark_order(row[column]))

    def of(rows: Sequence[Row]) -> Any:
        kept = present(rows, by)
        if not kept:
            return None
        best = (max if largest else min)(spark_order(row[by]) for row in kept)
        tied = [row for row in kept if spark_order(row[by]) == best]
        return min(tied, key=rank)[column]

    return of


def extreme_count(column: str, *, largest: bool) -> Aggregation:
    def of(rows: Sequence[Row]) -> int:
        ranks = [spark_order(value) for value in column_values(rows, column)]
        return ranks.count((max if largest else min)(ranks)) if ranks else 0

    return of


def affine(value: int) -> tuple[int, int]:
    """The map x -> a * x + b of a value: a state whose order of combination matters."""
    return (value % 97 + 1, value % 89)


def compose_all(maps: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """The maps applied one after the other."""
    a, b = 1, 0
    for slope, shift in maps:
        a, b = a * slope % PRIME, (b * slope + shift) % PRIME
    return a, b


def composed(column: str) -> Aggregation:
    """The composition of the affine maps in the order of (time, map), as one number."""

    def of(rows: Sequence[Row]) -> int | None:
        return composition(sorted((row["t"], affine(row[column])) for row in present(rows, column)))

    return of


def composed_as_they_are(column: str) -> Aggregation:
    """The composition of the affine maps in the order of the rows."""

    def of(rows: Sequence[Row]) -> int | None:
        return composition([(row["t"], affine(row[column])) for row in present(rows, column)])

    return of


def composition(steps: Sequence[tuple[int, tuple[int, int]]]) -> int | None:
    if not steps:
        return None
    a, b = compose_all(each for _, each in steps)
    return a * PRIME + b


def spread(column: str) -> Aggregation:
    def of(rows: Sequence[Row]) -> int | None:
        values = column_values(rows, column)
        return max(values) - min(values) if values else None

    return of


def same(found: Any, expected: Any) -> bool:
    """Equal; floating numbers within rounding, NaN equal to NaN."""
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(found, float) and isinstance(expected, float | int):
        if math.isnan(found) or math.isnan(expected):
            return math.isnan(found) and math.isnan(expected)
        return math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-9)
    return type(found) is type(expected) and bool(found == expected)
