"""State that version 0.1.0 wrote goes on with the code of today, as if nothing had happened."""

from __future__ import annotations

import json

import pytest

from muntin.errors import StateError
from tests.builders import Stream
from tests.checkpoints.queries import QUERIES, WRITTEN, answers, batches, load, same

CHANGED = {"shed"}
"""What their state means has changed since, so it is refused."""


@pytest.mark.parametrize("name", sorted(QUERIES.keys() - CHANGED))
def test_old_state_goes_on(name: str) -> None:
    stream = Stream(QUERIES[name]())
    states, expected = load(name)
    assert states.keys() == stream.states.keys()
    stream.restore(states)
    for (rows, watermark), emitted in zip(batches()[WRITTEN:], expected, strict=True):
        assert emitted
        for found, one in zip(answers(stream, rows, watermark), emitted, strict=True):
            assert same(json.loads(found), json.loads(one)), (found, one)


@pytest.mark.parametrize("name", sorted(CHANGED))
def test_old_state_that_means_something_else_is_refused(name: str) -> None:
    """In version 0.1.0, panes of queries that shed had only the tuples that were kept."""
    stream = Stream(QUERIES[name]())
    states, _ = load(name)
    stream.restore(states)
    rows, watermark = batches()[WRITTEN]
    with pytest.raises(StateError, match="its panes mean something else"):
        stream.batch(rows, watermark)
