"""Streams without Spark."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import muntin
from muntin import aggregates as A
from muntin import windows as W
from muntin.errors import MuntinError, StateError
from muntin.testing import Stream, assert_windows
from tests.testing import script

ROOT = Path(__file__).parents[2]
NOON = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)

batches = st.lists(st.lists(st.tuples(st.integers(-90, 90), st.sampled_from(["a", "b", None])), max_size=6), max_size=5)


def sliding(data: Any) -> muntin.Query:
    return muntin.over(data, W.sliding("15 minutes", "5 minutes"), time="ts", watermark="20 minutes", by="k").agg(
        n=A.count()
    )


@given(batches, st.lists(st.booleans(), min_size=5, max_size=5), st.integers(1, 3))
def test_windows_are_those_of_a_plain_loop(rows: Any, restarts: list[bool], shards: int) -> None:
    """Each row counts in the windows that end after the watermark of the batch before."""
    stream = Stream(sliding, "ts timestamp, k string", shards=shards)
    counts: Counter[tuple[datetime, str | None]] = Counter()
    watermark, late = datetime.min.replace(tzinfo=timezone.utc), 0
    for batch, restart in zip(rows, restarts, strict=False):
        if restart:
            stream.restart()
        step = stream.batch([(NOON + minute * MINUTE, key) for minute, key in batch])
        for minute, key in batch:
            ends = [NOON + (minute // 5 * 5 + later) * MINUTE for later in (5, 10, 15)]
            counts.update((end, key) for end in ends if end > watermark)
            late += all(end <= watermark for end in ends)
        watermark = max([watermark, *(NOON + (minute - 20) * MINUTE for minute, _ in batch)])
        assert sum(step.late_rows for step in stream.steps) == late
        assert step.watermark in (watermark, None)
        assert {row["window"]["end"] <= watermark for row in step.results} <= {True}
    step = stream.watermark(NOON + timedelta(days=1))
    assert step.state_bytes == step.metrics["panes"] == 0
    expected = [{"end": end, "k": key, "n": n, "start": end - 15 * MINUTE} for (end, key), n in counts.items()]
    assert_windows(stream.results, expected)


def test_all_steps_of_a_script() -> None:
    steps = script.steps(Stream(script.late, script.SCHEMA))
    assert [step.late_rows for step in steps] == [0, 0, 1, 0, 0, 0, 0, 0]
    assert steps[0].invalid_rows == 1
    (row,) = steps[2].late
    assert (row["ts"], row["k"], row["v"]) == (NOON - 20 * MINUTE, "a", 1)
    assert [step.watermark for step in steps[3:6]] == [
        NOON + 15 * MINUTE,
        datetime(2024, 5, 1, 12, 38, 0, 123_000, timezone.utc),
        datetime(2024, 5, 1, 12, 38, 0, 123_000, timezone.utc),
    ]
    counted = [row for step in steps for row in step.results if row["window_name"] == "count(2)" and row["K"] == "a"]
    assert [(row["n"], row["large"]) for row in counted] == [(2, 1)]
    assert repr(steps[0]).startswith("Step(0 results, 0 late rows, watermark 2024-05-01 11:54:00+00:00, state ")


def test_other_options() -> None:
    """Updates with retracted sessions; the best of each window, over the shards; estimates; functions."""
    changed = script.steps(Stream(script.changing, script.SCHEMA))
    assert [row["timing"] for row in changed[0].results] == ["early", "early"]
    ranked = [row for step in script.steps(Stream(script.ranked, script.SCHEMA)) for row in step.results]
    assert {row["rank"] for row in ranked} == {1}

    def longest(data: Any) -> muntin.Query:
        over = muntin.over(data, W.tumbling("1 hour"), time="ts", watermark="10 minutes", by="k")
        return over.apply(lambda rows: rows.slice(0, 1), "v long", columns=["v"])

    stream = Stream(longest, script.SCHEMA)
    stream.batch([(NOON + MINUTE, "a", 3), (NOON, "a", 5)])
    assert_windows(stream.watermark("2024-05-01 13:00"), [{"k": "a", "v": 5}])

    def shed(data: Any) -> muntin.Query:
        over = muntin.over(data, W.tumbling("1 hour"), time="ts", watermark="10 minutes", by="k")
        return over.agg(middle=A.median("v")).shed(0.5, least=4)

    stream = Stream(shed, script.SCHEMA)
    stream.batch([(NOON + number * MINUTE / 60, "a", number) for number in range(100)])
    (row,) = stream.watermark("2024-05-01 13:00").results
    assert row["quality"]["size"] == 100
    assert 4 <= row["quality"]["sampled"] < 100


def test_rows_from_the_future_are_set_aside() -> None:
    def query(data: Any) -> muntin.Query:
        over = muntin.over(data, W.tumbling("1 hour"), time="ts", watermark="10 minutes", max_ahead="1 hour")
        return over.agg(n=A.count())

    stream = Stream(query, "ts timestamp")
    step = stream.batch([(datetime.now(timezone.utc) + timedelta(hours=hours),) for hours in (0, 2)])
    assert (step.invalid_rows, step.metrics["ahead_rows"]) == (1, 1)


def test_a_changed_query_does_not_go_on() -> None:
    stream = Stream(sliding, "ts timestamp, k string")
    stream.batch([(NOON, "a")])
    stream.restart(lambda data: sliding(data).agg(m=A.count("k")))
    with pytest.raises(StateError):
        stream.batch([(NOON, "a")])


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (3, "query must be a function that gets rows and returns a query"),
        (lambda rows: sliding(rows.where("k > 'a'")), "without Spark have no 'where', as a DataFrame has"),
        (lambda rows: 3, "query must return a query of muntin.over, without .to_df.., and returned a int"),
        (lambda rows: sliding(rows).to_df(), "has no DataFrame; return the query itself"),
        (lambda rows: muntin.over(rows, W.count(2), time="t"), "time column 't' is not in the rows. Did you mean 'ts'"),
        (lambda rows: muntin.over(rows, W.count(2), time="ts + 1"), "'ts . 1' is an expression, which is not computed"),
        (lambda rows: sliding(rows).agg(m=A.count(where="length(k) > 1")), "no condition that is computed without"),
        (lambda rows: sliding(rows).shed(0.5, method="uniform", at="source"), "in Spark's plan. Run the test on Spark"),
        (lambda rows: muntin.over(rows, W.count(2), time="ts", watermark="1 s"), "computes nothing yet"),
    ],
)
def test_what_needs_spark_or_is_no_query_is_refused(query: Any, reason: str) -> None:
    with pytest.raises(MuntinError, match=reason):
        Stream(query, "ts timestamp, k string")


def test_bad_steps_are_refused() -> None:
    stream = Stream(sliding, "ts timestamp, k string")
    with pytest.raises(MuntinError, match="watermark is 'noon': Invalid isoformat"):
        stream.watermark("noon")
    with pytest.raises(MuntinError, match="watermark is 3: 3 is no time"):
        stream.watermark(3)  # type: ignore[arg-type]
    with pytest.raises(MuntinError, match="shards must be a whole number"):
        Stream(sliding, "ts timestamp, k string", shards=0)
    assert stream.steps == []


def test_without_spark() -> None:
    """Nothing imports PySpark, which takes seconds."""
    code = "import sys; from tests.testing import script; from muntin.testing import Stream; "
    code += "script.steps(Stream(script.late, script.SCHEMA)); assert 'pyspark' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_page_and_the_plugin(tmp_path: Path) -> None:
    """The page's examples are tests, with the plugin's fixture; one of them fails with the page's text."""
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    shown = re.search(r"```\n(\d windows differ.*?)```", page, re.DOTALL)
    assert shown is not None
    failing = """
def test_differences():
    stream = Stream(fares, "pickup timestamp, route string, fare double")
    stream.batch([("2024-05-01 12:01", "A", 5.0), ("2024-05-01 12:02", "A", 5.0), ("2024-05-01 12:20", "B", 5.0)])
    bounds = {"start": "2024-05-01 12:00", "end": "2024-05-01 12:15"}
    assert_windows(stream.watermark("2024-05-01 12:30"), [bounds | {"route": "A", "trips": 3}])
"""
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["muntin.testing.plugin"]\n')
    (tmp_path / "test_page.py").write_text(code + failing)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert "1 failed, 3 passed" in done.stdout, done.stdout + done.stderr
    for line in shown[1].splitlines():
        assert line in done.stdout
