"""Random inputs: nulls, NaN, infinities, both zeros, times before 1970, few and many keys, none and many rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st

from muntin.windows import TimeWindow
from tests.builders import sliding
from tests.naive import Row

T = TypeVar("T")

TIMES = st.integers(-60, 90) | st.integers(-2, 2)  # the latter for ties
ODD_FLOATS = st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 0.0])
# Eighths are exact in binary, so that sums are the same in any order and need no tolerance that could hide an error.
FLOATS = st.integers(-800, 800).map(lambda eighths: eighths / 8) | ODD_FLOATS
WORDS = st.sampled_from(["", "a", "b", "ab", "é", "z", "zz", "日本"])
STRUCTS = st.fixed_dictionaries({"a": st.none() | st.sampled_from([0.0, -0.0, math.nan]), "b": st.none() | WORDS})
KEYS = st.sampled_from([(), ("k",), ("f",), ("k", "f"), ("s",), ("s", "k")])
SHARDS = st.sampled_from([(0,), (7, 3), (5, 0, 11, 2)])


def sized_lists(each: st.SearchStrategy[T], min_size: int, max_size: int) -> st.SearchStrategy[list[T]]:
    """Lists of any size alike; `st.lists` alone would make most of them very short."""
    return st.integers(min_size, max_size).flatmap(lambda size: st.lists(each, min_size=size, max_size=size))


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
def windows(draw: st.DrawFn, max_size: int = 3) -> list[TimeWindow]:
    """Several windows with gaps, overlaps and offsets, over panes of one or of several microseconds."""
    unit, shift = draw(st.sampled_from([1, 2, 5])), draw(st.integers(-3, 3))
    lengths = st.integers(1, 8).map(lambda units: units * unit)
    offsets = st.integers(-9, 9).map(lambda units: shift + units * unit)
    shapes = draw(st.lists(st.tuples(lengths, lengths, offsets), min_size=1, max_size=max_size))
    return [sliding(size, slide, offset, name=f"w{i}") for i, (size, slide, offset) in enumerate(shapes)]


@st.composite
def cuts(draw: st.DrawFn, items: Sequence[T]) -> list[list[T]]:
    """The items in consecutive parts; some may be empty."""
    edges = sorted(draw(st.lists(st.integers(0, len(items)), max_size=4)))
    return [list(items[begin:end]) for begin, end in zip([0, *edges], [*edges, len(items)], strict=True)]
