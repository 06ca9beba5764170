"""Every public name is documented, and everything that users call has an example, which runs."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from scripts import rides
from scripts.public_names import MODULES, USED, members

import muntin
from muntin import aggregates, testing, windows

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
ON_SPARK = re.compile(r"\b(spark|table|streamed|running|folder)\b")
"""Names that only examples with Spark use."""


def documented() -> Iterator[tuple[str, Any, bool]]:
    """Public names, what they are, and whether users call them."""
    for module in MODULES:
        for name in module.__all__:
            found, full = getattr(module, name), f"{module.__name__}.{name}"
            if inspect.ismodule(found) or name == "__version__":
                continue
            yield full, found, not inspect.isclass(found)
            if inspect.isclass(found) and name in USED:
                for line in members(full, found):
                    member = line.partition("(")[0].rsplit(".", 1)[1]
                    yield f"{full}.{member}", getattr(found, member), True


NAMES = [(name, inspect.getdoc(found) or "", called) for name, found, called in documented()]


def sources(text: str) -> str:
    return "\n".join(example.source for example in doctest.DocTestParser().get_examples(text))


WITHOUT_SPARK = [(name, text) for name, text, _ in NAMES if ">>>" in text and not ON_SPARK.search(sources(text))]
WITH_SPARK = [(name, text) for name, text, _ in NAMES if ON_SPARK.search(sources(text))]


def namespace() -> dict[str, Any]:
    return {**vars(rides), **vars(testing), "A": aggregates, "W": windows, "muntin": muntin}


def run(name: str, text: str, names: dict[str, Any]) -> str:
    """What differs from the text."""
    test = doctest.DocTestParser().get_doctest(text, names, name, None, None)
    report: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(test, out=report.append)
    return "".join(report)


@pytest.mark.parametrize(("name", "text", "called"), NAMES, ids=[name for name, _, _ in NAMES])
def test_public_names_are_documented(name: str, text: str, called: bool) -> None:
    assert len(text.split("\n")[0]) > 15
    assert not text.startswith(f"{name.rsplit('.', 1)[1]}("), "a dataclass has documented itself"
    assert not called or ">>>" in text, f"{name} has no example"


@pytest.mark.parametrize(("name", "text"), WITHOUT_SPARK, ids=[name for name, _ in WITHOUT_SPARK])
def test_examples_without_spark(name: str, text: str) -> None:
    assert run(name, text, namespace()) == ""


STREAMS = re.compile(r"\b(streamed|running)\b")


def rides_on_spark() -> tuple[SparkSession, DataFrame]:
    spark = muntin.session()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    table = spark.createDataFrame(rides.RIDES, rides.SCHEMA.replace("at timestamp", "at string"))
    return spark, table.withColumn("at", table["at"].cast("timestamp")).coalesce(1)


@pytest.mark.spark
@pytest.mark.slow
def test_examples_with_tables(tmp_path: Path) -> None:
    spark, table = rides_on_spark()
    names = {**namespace(), "spark": spark, "table": table, "folder": str(tmp_path)}
    examples = [(name, text) for name, text in WITH_SPARK if not STREAMS.search(sources(text))]
    assert len(examples) > 12
    assert "".join(run(name, text, dict(names)) for name, text in examples) == ""


@pytest.mark.spark
@pytest.mark.extended
def test_examples_with_streams(tmp_path: Path) -> None:
    """`running` is a stream that has read all of the rides."""
    spark, table = rides_on_spark()
    table.write.parquet(str(tmp_path / "source"))
    streamed = spark.readStream.schema(table.schema).parquet(str(tmp_path / "source"))
    running = rides.fares(streamed).to_df().writeStream.format("noop").trigger(availableNow=True).start()
    running.awaitTermination()
    names = {"spark": spark, "table": table, "streamed": streamed, "running": running, "folder": str(tmp_path)}
    examples = [(name, text) for name, text in WITH_SPARK if STREAMS.search(sources(text))]
    assert len(examples) > 6
    assert "".join(run(name, text, {**namespace(), **names}) for name, text in examples) == ""
