"""Every example runs, the README shows the first of them as it is, and every window model has its place in the docs."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from muntin import windows as W
from tests.sinks.servers import postgres

ROOT = Path(__file__).parents[1]
WITH_MORE = {"pipeline_kafka": "tests/kafka/test_kafka.py", "pipeline_iceberg": "tests/packaging/test_merge.py"}
"""Examples that need a broker or jars, and the tests that run them."""
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if path.stem not in WITH_MORE)

EXPECTED = {
    "approximate": "median: the error is that of the rank; 401 tuples that count are enough for a window of any size",
    "apply_function": "|tram 5|08:00|2024-05-01 08:05:00|        1|",
    "compress": "after=1 hour: 11 of 17 chunks are compressed; medians add to 5252.1",
    "custom_aggregate": "|north|43.63636363636363| 80.0|",
    "distinct_and_top": "|15:00|3       |chess    |[{chess, 2}, {sport, 2}]|",
    "feature_table": "the same as in the history: True",
    "join": "|shoes|    1|   50|   50.0|    1|\n|  2857608|  tea|    4|  100|   25.0|    2|",
    "linear_road": "60 windows of vehicles, 0 of them counted otherwise",
    "median": "|12:30|91.2 |61.5  |[60.5, 151.5]",
    "nexmark": "|13:12|   2100| 815|\n|13:14|   3000| 838|",
    "parallel": "371 windows; active and agnostic workers agree: True",
    "pipeline_database": "LGA  297 flights  107.8 minutes",
    "pipeline_delta": "LGA      297  107.825112",
    "quickstart": "|{2013-03-08 ",
    "several_models": "|working day     |365    |106.0|2013-03-08 05:30:00|2013-03-09 00:25:00|",
    "springald_panes": "[  4, 16)  19 + 15 + 18 = 52",
    "shed": "2,513 groups of all windows have a median: 2,513 with concept-driven shedding, ",
    "top_routes": "|13:30|   2|28-04|    1| 54.0|\n|13:30|   3|23-00|    3|53.33|",
    "windows_over_windows": "|",
    "window_calendar": "|30 Mar 00:00|24   |12.0|\n|31 Mar 00:00|23   |11.5|",
    "window_count": "| ACME|        0|   true|     3|11.0|\n| ACME|        0|  false|     4|12.0|",
    "window_cumulative": "|79379    |02 00:00|5    |48.0 |\n|79381    |02 12:00|1    |6.0  |",
    "window_delta": "|car 7|        2|   3|   5.5|   1040| 1090|",
    "window_session": "|ana |{2024-05-01 12:00:00, 2024-05-01 13:12:00}|3     |home |sport|",
    "window_slide_by_time": "|north|12:30|       3| 3.6|   3.9|\n|north|12:40|       3| 4.5|   6.0|",
    "window_slide_by_tuple": "|        1|  12:20|     1|   90.0|",
    "window_sliding": "| attic|12:40|29.0|  33.0|",
    "window_tumbling": "|east|12:00|     6|            3|\n|east|12:15|     1|            1|",
}
"""A line of what each prints, or the beginning of one."""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(example: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [str(example)])
    # As a script: Spark sends the functions of __main__ to its workers, which cannot import an example.
    runpy.run_path(str(example), run_name="__main__")
    assert EXPECTED[example.stem] in capsys.readouterr().out


@pytest.mark.parametrize("example", WITH_MORE)
def test_examples_that_need_more_are_run_elsewhere(example: str) -> None:
    assert example in (ROOT / WITH_MORE[example]).read_text(encoding="utf-8")


@pytest.mark.spark
@pytest.mark.slow
def test_the_pipeline_into_a_database_runs_with_postgresql(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("psycopg", reason="psycopg, a driver for PostgreSQL, is not installed")
    main = runpy.run_path(str(ROOT / "examples" / "pipeline_database.py"))["main"]
    with postgres() as address:
        main(address)
    assert EXPECTED["pipeline_database"] in capsys.readouterr().out


def test_readme_shows_the_quickstart() -> None:
    code = (ROOT / "examples" / "quickstart.py").read_text(encoding="utf-8")
    assert f"```python\n{code}```" in (ROOT / "README.md").read_text(encoding="utf-8")


MODELS = [name for name in W.__all__ if name.islower()]


@pytest.mark.parametrize("model", MODELS)
def test_every_model_has_a_picture_and_an_example(model: str) -> None:
    page = (ROOT / "docs" / "windows.md").read_text(encoding="utf-8")
    assert f"](windows/{model}.svg)" in page
    assert (ROOT / "docs" / "windows" / f"{model}.svg").stat().st_size < 60_000
    assert f"W.{model}(" in (ROOT / "examples" / f"window_{model}.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", ["README.md", "docs/windows.md"])
def test_windows_in_the_docs_can_be_built(page: str) -> None:
    calls = re.findall(r"W\.[a-z_]+\([^()]*\)", (ROOT / page).read_text(encoding="utf-8"))
    assert {call.split("(")[0] for call in calls} == {f"W.{model}" for model in MODELS}
    for call in calls:
        assert isinstance(eval(call, {"W": W}), W.Window)
