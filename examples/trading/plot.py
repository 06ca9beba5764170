"""Candles and predictions as a picture: a panel per stock, and the errors below it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from examples.trading.judge import Judged
from examples.trading.question import Question
from examples.trading.sink import microseconds
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from muntin.durations import positive_microseconds

_PAPER, _INK, _FAINT = "#fbf8f3", "#23272e", "#85837e"
_UP, _DOWN, _PREDICTED, _NAIVE = "#3f7f6b", "#cf4a3c", "#df8a34", "#7d1d3f"
_MINUTE = 60_000_000
_MOST_PANELS, _COLUMNS = 6, 2
_LEFT, _RIGHT = 0.055, 0.985


@dataclass(frozen=True)
class Candle:
    """The first, highest, lowest and last price of a stretch of time. Times are in microseconds."""

    start: int
    end: int
    first: float
    highest: float
    lowest: float
    last: float


def candles(rows: Sequence[Mapping[str, Any]], symbol: str) -> list[Candle]:
    """Candles from the windows that do not overlap: each begins where another one ends."""
    selected = []
    for row in rows:
        start, end = microseconds(row["window_start"]), microseconds(row["window_end"])
        if row["symbol"] == symbol and row["last_price"] is not None and start % (end - start) == 0:
            prices = (row[name] for name in ("first_price", "highest", "lowest", "last_price"))
            selected.append(Candle(start, end, *prices))
    return selected


def draw(
    rows: Sequence[Mapping[str, Any]],
    judged: Sequence[Judged],
    symbols: Sequence[str],
    question: Question,
    path: Path,
) -> None:
    """Draw the first few `symbols`. `rows` are those of the sink."""
    panels = [(symbol, candles_of_symbol) for symbol in symbols if (candles_of_symbol := candles(rows, symbol))][
        :_MOST_PANELS
    ]
    columns = min(_COLUMNS, max(1, len(panels)))
    lines = max(1, -(-len(panels) // columns))
    height = 3.3 * lines + 2.1
    figure = Figure(figsize=(14, height), facecolor=_PAPER)
    edges = {"left": _LEFT, "right": _RIGHT, "top": 1 - 1.45 / height, "bottom": 1.0 / height}
    grid = figure.add_gridspec(lines, columns, hspace=0.3, wspace=0.12, **edges)
    for number, (symbol, candles_of_symbol) in enumerate(panels):
        cells = grid[number // columns, number % columns].subgridspec(2, 1, height_ratios=(3, 1), hspace=0.08)
        prices, errors = figure.add_subplot(cells[0]), figure.add_subplot(cells[1])
        predictions = [prediction for prediction in judged if prediction.symbol == symbol]
        span = candles_of_symbol[0].start, candles_of_symbol[-1].end
        _draw_prices(prices, candles_of_symbol, predictions)
        _draw_errors(errors, predictions)
        prices.set_title(symbol, loc="left", color=_INK, fontsize=15, fontweight="bold", pad=6)
        for axes in (prices, errors):
            _dress(axes, span, with_times=axes is errors)
    _title(figure, height, question)
    _legend(figure, height, question)
    figure.savefig(path, dpi=130)


def _draw_prices(axes: Axes, candles: Sequence[Candle], predictions: Sequence[Judged]) -> None:
    colours = [_UP if candle.last >= candle.first else _DOWN for candle in candles]
    wicks = [
        [((candle.start + candle.end) / 2, candle.lowest), ((candle.start + candle.end) / 2, candle.highest)]
        for candle in candles
    ]
    axes.add_collection(LineCollection(wicks, colors=colours, linewidths=1.1))
    axes.add_collection(PolyCollection([_body(candle) for candle in candles], facecolors=colours, edgecolors=colours))
    low, high = min(candle.lowest for candle in candles), max(candle.highest for candle in candles)
    if predictions:
        due, predicted = (
            [microseconds(prediction.due) for prediction in predictions],
            [prediction.predicted for prediction in predictions],
        )
        axes.plot(due, predicted, color=_PREDICTED, linewidth=1.2, alpha=0.95)
        # A curve that diverges would flatten everything else.
        low, high = min(low, float(np.quantile(predicted, 0.02))), max(high, float(np.quantile(predicted, 0.98)))
    margin = 0.08 * (high - low) or 0.01
    axes.set_ylim(low - margin, high + margin)
    axes.locator_params(axis="y", nbins=5)
    axes.grid(axis="y", color=_INK, alpha=0.08, linewidth=0.8)
    axes.yaxis.set_major_formatter("{x:.2f}")


def _body(candle: Candle) -> list[tuple[float, float]]:
    inset = 0.18 * (candle.end - candle.start)
    left, right = candle.start + inset, candle.end - inset
    return [(left, candle.first), (right, candle.first), (right, candle.last), (left, candle.last)]


def _draw_errors(axes: Axes, predictions: Sequence[Judged]) -> None:
    """The errors of the predictions and of the last price, when they fell due."""
    due = [microseconds(prediction.due) for prediction in predictions]
    errors, naive = (
        np.array([getattr(prediction, name) for prediction in predictions]) for name in ("error", "naive_error")
    )
    axes.fill_between(due, 0, errors, color=_PREDICTED, alpha=0.45, linewidth=0)
    axes.plot(due, naive, color=_NAIVE, linewidth=0.9)
    if predictions:
        reach = 1.2 * float(max(np.quantile(np.abs(series), 0.98) for series in (errors, naive))) or 0.01
        axes.set_ylim(-reach, reach)
    axes.locator_params(axis="y", nbins=3)
    axes.axhline(0, color=_INK, alpha=0.3, linewidth=0.7)
    axes.yaxis.set_major_formatter("{x:+.2f}")


def _dress(axes: Axes, span: tuple[int, int], with_times: bool) -> None:
    axes.set_facecolor(_PAPER)
    start, end = span
    # At most about eight ticks, on round times.
    interval = next(
        (minutes * _MINUTE for minutes in (1, 2, 5, 10, 15, 30, 60, 120) if end - start <= 8 * minutes * _MINUTE),
        240 * _MINUTE,
    )
    ticks = np.arange(-(-start // interval) * interval, end + 1, interval)
    names = [str(np.datetime64(int(tick), "us"))[11:16] for tick in ticks]
    axes.set_xticks(ticks, names if with_times else [""] * len(ticks))
    axes.set_xlim(start, end)
    axes.grid(axis="x", color=_INK, alpha=0.1, linewidth=0.7)
    axes.tick_params(axis="both", which="both", length=0, colors=_FAINT, labelsize=9)
    for side in axes.spines.values():
        side.set_visible(False)


def _title(figure: Figure, height: float, question: Question) -> None:
    title = f"The price {question.horizon} from now"
    figure.text(_LEFT, 1 - 0.5 / height, title, color=_INK, fontsize=25, weight="bold", va="center")
    subtitle = (
        f"A polynomial of degree {question.degree} through the quotes of the last {question.window}, fitted anew every "
        f"{question.slide}, over a stream; times are the market's, in UTC"
    )
    figure.text(_LEFT, 1 - 0.88 / height, subtitle, color=_FAINT, fontsize=12, va="center")


def _legend(figure: Figure, height: float, question: Question) -> None:
    y = 0.38 / height
    small: dict[str, Any] = {"color": _INK, "fontsize": 10, "va": "center"}
    length = positive_microseconds(question.window, "window") / _MINUTE
    for x, colour, width, text in (
        (_LEFT, _UP, 7, f"candles of {length:g} minutes, rising"),
        (0.225, _DOWN, 7, "falling"),
        (0.32, _PREDICTED, 1.6, "predicted price, when it falls due; below, its error"),
        (0.68, _NAIVE, 1.2, f"error of the price {question.horizon} before"),
    ):
        figure.add_artist(Line2D([x, x + 0.018], [y, y], color=colour, linewidth=width, solid_capstyle="butt"))
        figure.text(x + 0.025, y, text, **small)
