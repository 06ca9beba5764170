"""State that version 0.1.0 wrote goes on with the code of today, as if nothing had happened."""

from __future__ import annotations

import json

import pytest

from tests.builders import Stream
from tests.checkpoints.queries import QUERIES, WRITTEN, answers, batches, load, same


@pytest.mark.parametrize("name", QUERIES)
def test_old_state_goes_on(name: str) -> None:
    stream = Stream(QUERIES[name]())
    states, expected = load(name)
    assert states.keys() == stream.states.keys()
    stream.restore(states)
    for (rows, watermark), emitted in zip(batches()[WRITTEN:], expected, strict=True):
        assert emitted
        for found, one in zip(answers(stream, rows, watermark), emitted, strict=True):
            assert same(json.loads(found), json.loads(one)), (found, one)
