"""The evaluation of predictions: their errors, and the errors of the guess that the price does not change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Judged:
    """A prediction that has fallen due."""

    symbol: str
    made: str
    due: str
    predicted: float
    naive: float
    """The last price when the prediction was made."""
    happened: float
    """The last price when it fell due."""

    @property
    def error(self) -> float:
        return self.predicted - self.happened

    @property
    def naive_error(self) -> float:
        return self.naive - self.happened


@dataclass(frozen=True)
class Score:
    """All predictions for a stock: median errors, and how often the model was closer than the last price."""

    last: Judged
    predictions: int
    error: float
    naive_error: float
    closer: int
    equal: int
    """How often both errors were equal."""


def judge(rows: Iterable[Mapping[str, Any]]) -> list[Judged]:
    """Judge the rows of the sink. The price at a time is the last price of the window that ends there."""
    rows = list(rows)
    prices = {(row["symbol"], row["window_end"]): row["last_price"] for row in rows}
    predictions = []
    for row in rows:
        happened = prices.get((row["symbol"], row["due"]))
        if row["prediction"] is not None and happened is not None:
            predictions.append(
                Judged(row["symbol"], row["window_end"], row["due"], row["prediction"], row["last_price"], happened)
            )
    return sorted(predictions, key=lambda prediction: (prediction.symbol, prediction.due))


def scores(judged: Iterable[Judged]) -> list[Score]:
    """One score per stock, those with the most predictions first."""
    by_symbol: dict[str, list[Judged]] = {}
    for prediction in judged:
        by_symbol.setdefault(prediction.symbol, []).append(prediction)
    all_scores = []
    for predictions in by_symbol.values():
        errors = [abs(prediction.error) for prediction in predictions]
        naive = [abs(prediction.naive_error) for prediction in predictions]
        pairs = list(zip(errors, naive, strict=True))
        all_scores.append(
            Score(
                last=predictions[-1],
                predictions=len(predictions),
                # Medians, since a single jump of the price sends the curve anywhere and would dominate a mean.
                error=median(errors),
                naive_error=median(naive),
                closer=sum(a < b for a, b in pairs),
                equal=sum(a == b for a, b in pairs),
            )
        )
    return sorted(all_scores, key=lambda score: (-score.predictions, score.last.symbol))
