from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from examples.trading import plot
from examples.trading.judge import judge, scores
from examples.trading.question import Question
from examples.trading.show import verdict

from muntin.errors import MuntinError


def row(minute: int, last: float | None, prediction: float | None, symbol: str = "ACME") -> dict[str, Any]:
    """The row of a two-minute window that ends at `minute`. The prediction is for two minutes later."""
    start, end, due = (f"2018-01-02 15:{time:02}:00.000000" for time in (minute - 2, minute, minute + 2))
    prices = dict.fromkeys(("first_price", "highest", "lowest", "last_price"), last)
    return {"symbol": symbol, "window_start": start, "window_end": end, "due": due, "prediction": prediction, **prices}


ROWS = [
    row(10, 100.0, 101.0),
    row(11, 100.5, None),  # no curve
    row(12, 102.0, 103.0),
    row(13, 101.0, 99.0),  # no window ends at 15:15
    row(14, 101.0, 101.0),  # not due yet
    row(12, 50.0, 50.5, "XYZ"),
    row(14, 51.0, 51.0, "XYZ"),
    row(16, None, None, "XYZ"),  # due, but without a price
]


def test_predictions_are_judged_when_they_fall_due() -> None:
    judged = judge(ROWS)
    fields = [
        (prediction.symbol, prediction.due[11:16], prediction.predicted, prediction.naive, prediction.happened)
        for prediction in judged
    ]
    assert fields == [
        ("ACME", "15:12", 101.0, 100.0, 102.0),
        ("ACME", "15:14", 103.0, 102.0, 101.0),
        ("XYZ", "15:14", 50.5, 50.0, 51.0),
    ]
    assert [(prediction.error, prediction.naive_error) for prediction in judged] == [(-1, -2), (2, 1), (-0.5, -1)]


def test_scores() -> None:
    acme, xyz = scores(judge(ROWS))
    assert (acme.last.symbol, acme.predictions, acme.error, acme.naive_error, acme.closer) == ("ACME", 2, 1.5, 1.5, 1)
    assert (xyz.last.symbol, xyz.predictions, xyz.error, xyz.naive_error, xyz.closer) == ("XYZ", 1, 0.5, 1.0, 1)
    assert scores([]) == []


def test_the_verdict_is_honest() -> None:
    assert "worse than no model" not in verdict(scores(judge(ROWS)))
    worse = [row(10, 100.0, 140.0), row(12, 100.0, 130.0), row(14, 101.0, None)]
    assert "worse than no model" in verdict(scores(judge(worse)))


def test_candles_do_not_overlap() -> None:
    assert [candle.last for candle in plot.candles(ROWS, "ACME")] == [100.0, 102.0, 101.0]


@pytest.mark.parametrize("rows", [ROWS, ROWS[:1], []])
def test_the_picture_is_drawn(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    judged = judge(rows)
    plot.draw(rows, judged, ["ACME", "XYZ"], Question(window="2 minutes"), tmp_path / "trading.png")
    assert (tmp_path / "trading.png").stat().st_size > 10_000


def test_a_horizon_between_two_windows_is_refused() -> None:
    with pytest.raises(MuntinError, match="no multiple of --slide, '30 seconds'"):
        Question(horizon="40 seconds")
