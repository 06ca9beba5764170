"""What notebooks show: pictures of windows, tables of progress, and plots of results."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from datetime import datetime, timedelta
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given

import muntin
from muntin import MuntinError
from muntin import aggregates as A
from muntin import windows as W
from muntin.query.picture import query_html, timeline
from muntin.testing.rows import Rows
from tests import strategies
from tests.builders import TIME

matplotlib.use("Agg")
SVG = "{http://www.w3.org/2000/svg}"
TYPES: dict[str, pa.DataType] = {"ts": TIME, "k": pa.string(), "<b>": pa.float64()}


def bars(svg: str) -> list[tuple[float, float]]:
    """The begin and the end of each bar, as shares of the axis."""
    found = ElementTree.fromstring(svg).iter(f"{SVG}rect")
    places = [(float(bar.attrib["x"]), float(bar.attrib["width"])) for bar in found]
    return [((x - 170) / 560, (x + width + 1 - 170) / 560) for x, width in places]


def test_windows_are_drawn_where_they_are() -> None:
    shown = timeline([W.sliding("1 hour", "15 minutes")])
    assert bars(shown) == [pytest.approx((begin / 6, (begin + 4) / 6), abs=0.01) for begin in range(3)]
    assert "panes of 15 minutes" in shown


@given(strategies.models())
def test_any_windows_have_a_picture(models: list[W.Window]) -> None:
    picture = ElementTree.fromstring(timeline(models))
    assert picture.attrib["role"] == "img"
    titles = [title.text for title in picture.iter(f"{SVG}title")]
    assert titles == [model.title for model in models]
    drawn = bars(timeline(models))
    assert len(drawn) >= len(models)
    assert all(-0.001 <= begin < end <= 1.01 for begin, end in drawn)


def test_calendars_and_long_windows_have_a_picture() -> None:
    windows = [W.calendar("1 month", zone="Europe/Berlin"), W.sliding("365 days", "1 second")]
    assert "panes of uneven lengths" in timeline(windows[:1])
    assert len(bars(timeline(windows))) == 6 + 6
    assert len(timeline(windows)) < 6_000


def query(**aggregates: Any) -> muntin.Query:
    rows: Any = Rows(TYPES)
    started = muntin.over(rows, W.tumbling("1 hour", name="<script>"), time="ts", watermark="1 hour", by="k")
    return started.agg(**aggregates) if aggregates else started


def test_a_query_shows_its_plan_and_escapes_names() -> None:
    shown = query(**{"<i>": A.sum("<b>")})._repr_html_()
    assert "<svg" in shown
    assert "Panes of 1 hour" in shown
    assert "&lt;script&gt;" in shown
    assert not any(tag in shown for tag in ("<script", "<i>", "<b>"))


def test_an_incomplete_query_shows_what_is_missing() -> None:
    shown = query_html(query())
    assert "computes nothing yet" in shown
    assert "<svg" in shown


def test_progress_is_a_table() -> None:
    assert "No batch yet" in muntin.Progress()._repr_html_()
    progress = muntin.Progress(
        3, batch_seconds=1.5, rows_per_s=2e6, warning="a <late> row", rows=5000, batch_rows=70, state_bytes=2_000_000
    )
    shown = progress._repr_html_()
    cells = [[cell.text for cell in row] for row in ElementTree.fromstring(shown.split("<p")[0]).iter("tr")]
    assert cells[1] == ["rows", "70", "5,000"]
    assert ["results", "0", "0"] in cells
    assert not any(cell[0] == "late rows" for cell in cells)
    assert "a &lt;late&gt; row" in shown
    assert "Batch 3: 1.5 s, 2,000,000 rows/s" in shown


def results(quality: bool = False) -> pd.DataFrame:
    noon = datetime(2024, 5, 1, 12)
    rows: list[dict[str, Any]] = []
    for hour in (2, 0, 1):
        for key in ("a", "b", "$x$"):
            window = {"start": noon + timedelta(hours=hour), "end": noon + timedelta(hours=hour + 1)}
            row = {"window": window, "window_id": hour, "k": key, "n": hour * 10 + len(key), "m": float(hour)}
            bounds = {"low": {"n": hour * 9.0}, "high": {"n": hour * 12.0}} if hour else {"low": None, "high": None}
            rows.append(row | ({"quality": bounds} if quality else {}))
    return pd.DataFrame([row for row in rows if row["window_id"] or row["k"] != "b"])


def test_results_are_lines_in_the_order_of_windows() -> None:
    axes = muntin.plot(results())
    lines = {str(line.get_label()): np.asarray(line.get_ydata()).tolist() for line in axes.get_lines()}
    assert lines == {"a": [1, 11, 21], "b": [11, 21], "\\$x\\$": [3, 13, 23]}
    assert axes.get_ylabel() == "n"
    assert not axes.collections
    axes.figure.canvas.draw()


def test_intervals_are_bands_and_the_largest_keys_are_kept() -> None:
    axes = muntin.plot(results(quality=True), "n", most=2)
    assert len(axes.get_lines()) == len(axes.collections) == 2
    assert "2 of 3 keys" in axes.get_title()
    heights = np.asarray(axes.collections[0].get_paths()[0].vertices)[:, 1]
    assert (heights.min(), heights.max()) == (9.0, 24.0)
    without = muntin.plot(results(quality=True), "m", by=["k"])
    assert len(without.collections) == 0
    one = muntin.plot(results().query("k == 'a'"), "m", by=[], ax=axes)
    assert one is axes
    assert np.asarray(axes.get_lines()[-1].get_ydata())[-1] == 2.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"results": 3}, "toPandas"),
        ({"results": pd.DataFrame({"n": [1]})}, "no column 'window'"),
        ({"value": "k"}, "not a column of results with numbers"),
        ({"value": 3}, "name of a column"),
        ({"by": "none"}, "not a key of results"),
        ({"by": 3}, "name of a key column"),
        ({"most": 0}, "most"),
        ({"results": results().drop(columns=["n", "m"])}, "no column with numbers"),
    ],
)
def test_other_arguments_of_plot_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(MuntinError, match=message):
        muntin.plot(**{"results": results(), **arguments})
