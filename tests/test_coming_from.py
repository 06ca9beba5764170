"""The pages for those who come from elsewhere: both answers of each pair of snippets are the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scripts import rides

import muntin
from muntin import aggregates as A
from muntin import windows as W
from muntin.testing import Stream

DOCS = Path(__file__).parents[1] / "docs"
NAMES = {"muntin": muntin, "A": A, "W": W, "pl": pl}


def snippets(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)


def pairs(page: str) -> list[tuple[str, str]]:
    found = snippets(page)
    return list(zip(found[::2], found[1::2], strict=True))


def evaluated(code: str, wanted: str, **names: Any) -> Any:
    space = {**NAMES, **names}
    exec(compile(code, "page", "exec", dont_inherit=True), space)
    return space[wanted]


def streamed(code: str) -> pd.DataFrame:
    stream = Stream(lambda data: evaluated(code, "query", rides=data), rides.SCHEMA)
    stream.batch(rides.RIDES)
    stream.watermark("2024-05-01 18:00")
    return pd.DataFrame(stream.results)


@pytest.mark.parametrize("pair", pairs("from-pandas.md"), ids=["resample", "rolling", "rows", "polars"])
def test_from_pandas(pair: tuple[str, str]) -> None:
    frame = pd.DataFrame(rides.RIDES, columns=["at", "route", "fare", "km"])
    frame["at"] = pd.to_datetime(frame["at"])
    theirs = evaluated(pair[0], "result", rides=frame)
    theirs = theirs.to_pandas() if isinstance(theirs, pl.DataFrame) else theirs
    ours = streamed(pair[1])
    columns = [name for name in ours.columns if name in theirs.columns]
    assert len(ours) > 2
    assert columns
    for name in columns:
        assert pa.array(ours[name], from_pandas=True).equals(
            pa.array(theirs[name], from_pandas=True).cast(pa.array(ours[name]).type)
        ), name


def test_from_flink() -> None:
    (code,) = snippets("from-flink.md")
    ours = streamed(code)
    assert len(ours) == 14
    assert ours["rides"].sum() == 3 * len(rides.RIDES)


@pytest.mark.spark
@pytest.mark.slow
def test_from_spark() -> None:
    from pyspark.sql import functions as F

    spark = muntin.session()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    table = spark.createDataFrame(rides.RIDES, rides.SCHEMA.replace("at timestamp", "at string"))
    table = table.withColumn("at", table["at"].cast("timestamp"))
    for sparks, muntins in pairs("from-spark.md"):
        theirs = evaluated(sparks, "result", rides=table, F=F)
        ours = evaluated(muntins, "result", rides=table).select(theirs.columns)
        answers = sorted(map(repr, ours.collect()))
        assert len(answers) > 2
        assert answers == sorted(map(repr, theirs.collect()))
