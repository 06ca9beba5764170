"""Random inputs: nulls, NaN, infinities, both zeros, times before 1970, few and many keys, none and many rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa
from hypothesis import strategies as st

from muntin import windows as W
from tests.builders import Step, cumulative, sliding, us
from tests.naive import Row

T = TypeVar("T")

TIMES = st.integers(-60, 90) | st.integers(-2, 2)  # the small range makes ties
ODD_FLOATS = st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 0.0])
# Eighths are exact in binary. So sums are the same in any order, and need no tolerance that could hide an error.
FLOATS = st.integers(-800, 800).map(lambda eighths: eighths / 8) | ODD_FLOATS
WORDS = st.sampled_from(["", "a", "b", "ab", "é", "z", "zz", "日本"])
STRUCTS = st.fixed_dictionaries({"a": st.none() | st.sampled_from([0.0, -0.0, math.nan]), "b": st.none() | WORDS})
KEYS = st.sampled_from([(), ("k",), ("f",), ("k", "f"), ("s",), ("s", "k")])
SHARDS = st.sampled_from([(0,), (7, 3), (5, 0, 11, 2)])


def sized_lists(elements: st.SearchStrategy[T], min_size: int, max_size: int) -> st.SearchStrategy[list[T]]:
    """Lists of uniform size. `st.lists` alone would make most of them very short."""
    return st.integers(min_size, max_size).flatmap(lambda size: st.lists(elements, min_size=size, max_size=size))


def rows(
    times: st.SearchStrategy[Any] = TIMES, *, min_size: int = 0, max_size: int = 20
) -> st.SearchStrategy[list[Row]]:
    row = st.fixed_dictionaries(
        {
            "t": times,
            "k": st.none() | WORDS,
            "f": st.none() | st.sampled_from([0.0, -0.0, math.nan, 1.5]),
            "s": st.none() | STRUCTS,
            "x": st.none() | FLOATS,
            "n": st.none() | st.integers(-1000, 1000),
            "w": st.none() | WORDS,
            "kept": st.none() | st.booleans(),
        }
    )
    return sized_lists(row, min_size, max_size)


@st.composite
def windows(draw: st.DrawFn, max_size: int = 3) -> list[W.PaneWindow]:
    """Several windows with gaps, overlaps and offsets, over panes of one or several microseconds."""
    unit, shift = draw(st.sampled_from([1, 2, 5])), draw(st.integers(-3, 3))
    lengths = st.integers(1, 8).map(lambda units: units * unit)
    offsets = st.integers(-9, 9).map(lambda units: shift + units * unit)
    models = st.sampled_from(["sliding", "sliding", "cumulative"])
    shapes = draw(st.lists(st.tuples(models, lengths, lengths, offsets), min_size=1, max_size=max_size))
    return [
        sliding(length, step, offset, f"w{i}")
        if model == "sliding"
        else cumulative(min(length // unit, 4), step, offset, f"w{i}")
        for i, (model, length, step, offset) in enumerate(shapes)
    ]


@st.composite
def cuts(draw: st.DrawFn, items: Sequence[T]) -> list[list[T]]:
    """The items in consecutive parts, which may be empty."""
    edges = sorted(draw(st.lists(st.integers(0, len(items)), max_size=4)))
    return [list(items[begin:end]) for begin, end in zip([0, *edges], [*edges, len(items)], strict=True)]


# Windows over tuples

COUNTS = st.integers(1, 6)
LENGTHS = st.integers(1, 20)
AMOUNTS = st.integers(1, 12) | st.sampled_from([0.5, 2.5, 7.25])
SESSIONS = st.builds(lambda gap: W.session(us(gap)), LENGTHS)
COUNT_WINDOWS = st.builds(
    lambda unit, size, slide, wait: W.count(unit * size, unit * slide, None if wait is None else us(wait)),
    st.sampled_from([1, 1, 2, 3]),  # panes of one and of several tuples
    COUNTS,
    COUNTS,
    st.none() | LENGTHS,
)
SLIDES_BY_TUPLE = st.builds(lambda size, every: W.slide_by_tuple(us(size), every), LENGTHS, COUNTS)
SLIDES_BY_TIME = st.builds(lambda last, every: W.slide_by_time(last, us(every)), COUNTS, LENGTHS)
DELTAS = st.builds(W.delta, st.sampled_from(["d", "e"]), AMOUNTS, AMOUNTS)
MODELS: dict[str, st.SearchStrategy[W.Window]] = {
    "cumulative": st.builds(cumulative, st.integers(1, 4), LENGTHS, st.integers(-9, 9)),
    "session": SESSIONS,
    "count": COUNT_WINDOWS,
    "slide_by_tuple": SLIDES_BY_TUPLE,
    "slide_by_time": SLIDES_BY_TIME,
    "delta": DELTAS,
}

GROWING = {"d": pa.int64(), "e": pa.float64()}
"""The columns of delta windows, which mostly grow with time: an integer and a float."""


@st.composite
def forgetting(draw: st.DrawFn, window: W.Window) -> W.Window:
    """A window that forgets keys; most of them soon."""
    assert isinstance(window, W.TupleWindow)
    least = {W.CountWindow: "max_wait", W.SlideByTuple: "size", W.SlideByTime: "every"}.get(type(window))
    length = 1 if least is None else getattr(window, least) or 1
    return replace(window, forget_after=length + draw(st.integers(0, 6) | st.integers(0, 40)))


FORGETTING = {name: MODELS[name].flatmap(forgetting) for name in ("count", "slide_by_tuple", "slide_by_time", "delta")}


@st.composite
def models(draw: st.DrawFn, max_size: int = 4, *, forgets: bool = True) -> list[W.Window]:
    """Windows of any models, each with a different name."""
    time = st.builds(sliding, LENGTHS, LENGTHS, st.integers(-9, 9))
    kinds = [time, *MODELS.values(), *(FORGETTING.values() if forgets else ())]
    drawn = draw(st.lists(st.one_of(kinds), min_size=1, max_size=max_size))
    return [replace(window, name=f"w{i}") for i, window in enumerate(drawn)]


@st.composite
def growing_rows(
    draw: st.DrawFn, times: st.SearchStrategy[Any] = TIMES, *, min_size: int = 0, max_size: int = 20
) -> list[Row]:
    drawn = draw(rows(times, min_size=min_size, max_size=max_size))
    steps = st.sampled_from([0, 0, 0, 0, 1, 2, -2, -30, None])
    return [grown(row, draw(steps), draw(steps | st.just(math.nan))) for row in drawn]


def grown(row: Row, d: int | None, e: float | None) -> Row:
    """The row with δ values that differ from its time by `d` and `e`."""
    time = row["t"] or 0
    return {**row, "d": None if d is None else time // 2 + d, "e": None if e is None else time / 4 + e}


def steps(rows: st.SearchStrategy[list[Row]], advances: Sequence[int], max_size: int) -> st.SearchStrategy[list[Step]]:
    """The batches of a stream."""
    step = st.builds(Step, rows, st.sampled_from(advances), st.integers(1, 2), st.booleans(), st.booleans())
    return sized_lists(step, min_size=0, max_size=max_size)
