"""Fixtures for pytest: `pytest_plugins = ["muntin.testing.plugin"]` in `conftest.py`, or `pytest -p`.

`muntin_stream` makes a `Stream`, and stops it when the test ends. With `--muntin-spark` the streams run on Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("muntin")
    group.addoption("--muntin-spark", action="store_true", help="run the streams of muntin_stream on Spark")


@pytest.fixture(scope="session")
def muntin_spark(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The session for streams on Spark: a local one with `--muntin-spark`, else None. Override it with your own."""
    if not request.config.getoption("--muntin-spark"):
        yield None
        return
    import muntin

    session = muntin.session("muntin-testing")
    yield session
    session.stop()


@pytest.fixture
def muntin_stream(muntin_spark: Any) -> Iterator[Callable[..., Any]]:
    """A function with the arguments of `muntin.testing.Stream`."""
    from muntin.testing import Stream

    streams = []

    def start(query: Callable[[Any], Any], schema: Any, **options: Any) -> Stream:
        stream = Stream(query, schema, **{"spark": muntin_spark, **options})
        streams.append(stream)
        return stream

    yield start
    for stream in streams:
        stream.stop()
