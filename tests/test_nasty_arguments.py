"""Every builder that needs no Spark takes any value, or refuses it with a MuntinError."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import muntin
from muntin import MuntinError
from muntin import aggregates as A
from muntin import windows as W
from muntin.features.compression.policy import Compression
from muntin.features.idle.policy import Idle
from muntin.features.ranking.policy import Top
from muntin.features.sampling.policy import Approximation
from muntin.features.shedding.policy import Shedding
from muntin.features.workers.policy import Parallel
from tests.builders import TIME, TYPES
from tests.nasty import ANY, NASTY

GOOD: dict[str, Any] = {
    "size": "1 hour",
    "slide": "1 minute",
    "step": "1 minute",
    "gap": "1 minute",
    "every": 3,
    "last": 3,
    "column": "x",
    "probability": 0.5,
    "k": 3,
    "lift": lambda x: x,
    "combine": lambda a, b: a,
    "lower": lambda s: s,
    "after": "1 minute",
    "codec": "zstd",
    "level": None,
    "memory": None,
    "given_after": True,
    "budget": 100,
    "error": 0.1,
    "confidence": 0.9,
    "groups": None,
    "incremental": True,
    "seed": 0,
    "rate": 0.5,
    "target_latency": None,
    "method": "concept",
    "by": "n",
    "descending": True,
    "model": "auto",
    "workers": None,
    "batch": None,
    "ordered": False,
    "keys": None,
    "skewed": False,
}
"""What does, by the name of the argument."""
OTHERWISE: dict[Callable[..., Any], dict[str, Any]] = {
    W.count: {"size": 10, "slide": 3},
    W.slide_by_time: {"every": "1 minute"},
    W.delta: {"size": 1, "slide": 2.5},
    Approximation.of: {"combine": "l1"},
}
BUILDERS: dict[str, Callable[..., Any]] = {
    **{f"W.{name}": getattr(W, name) for name in W.__all__ if name.islower()},
    **{f"A.{name}": getattr(A, name) for name in A.__all__ if name.islower()},
    **{each.__name__: each.of for each in (Compression, Approximation, Shedding, Top, Parallel, Idle)},
}
ARGUMENTS = [
    (builder, argument)
    for builder, function in BUILDERS.items()
    for argument in inspect.signature(function).parameters
    if argument != "given_after"
]


def call(function: Callable[..., Any], **nasty: Any) -> Any:
    """The function with these arguments, and with good ones for the rest that it needs."""
    good = GOOD | OTHERWISE.get(function, {})
    parameters = inspect.signature(function).parameters.values()
    several = [each.name for each in parameters if each.kind is inspect.Parameter.VAR_POSITIONAL]
    needed = {
        each.name: good[each.name]
        for each in parameters
        if each.default is inspect.Parameter.empty and each.name not in several
    }
    given = needed | nasty
    if not several:
        return function(**given)
    first = [given.pop(each.name) for each in parameters if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    return function(*first, *(given.pop(name) for name in several if name in given), **given)


def made_or_refused(function: Callable[..., Any], **nasty: Any) -> None:
    try:
        made = call(function, **nasty)
        if isinstance(made, A.Aggregate):
            made.bind(TYPES, None, TIME)
    except MuntinError as error:
        str(error).encode()  # it can be printed
        return
    repr(made).encode()


@pytest.mark.parametrize(("builder", "argument"), ARGUMENTS)
def test_any_value_is_taken_or_refused(builder: str, argument: str) -> None:
    for value in NASTY:
        made_or_refused(BUILDERS[builder], **{argument: value})


@settings(max_examples=200)
@given(st.data())
def test_any_values_are_taken_or_refused(data: st.DataObject) -> None:
    builder = BUILDERS[data.draw(st.sampled_from(sorted(BUILDERS)))]
    names = list(inspect.signature(builder).parameters)
    chosen = data.draw(st.lists(st.sampled_from(names), unique=True))
    made_or_refused(builder, **{name: data.draw(ANY) for name in chosen if name != "given_after"})


def test_all_that_there_is_is_listed() -> None:
    assert set(muntin.__all__) <= set(dir(muntin))
    assert "__version__" in dir(muntin)
