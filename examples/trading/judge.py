"""What the predictions were worth: the price when they fell due, and the error of guessing that nothing changes."""

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
    """All predictions for a stock: typical errors, and how often the model was closer than the last price was."""

    last: Judged
    predictions: int
    error: float
    naive_error: float
    closer: int
    equal: int
    """How often both were equally far off."""


def judge(rows: Iterable[Mapping[str, Any]]) -> list[Judged]:
    """`rows` as the sink has them. The price of a moment is the last one of the window that ends with it."""
    told = list(rows)
    prices = {(row["symbol"], row["window_end"]): row["last_price"] for row in told}
    found = []
    for row in told:
        happened = prices.get((row["symbol"], row["due"]))
        if row["prediction"] is not None and happened is not None:
            found.append(
                Judged(row["symbol"], row["window_end"], row["due"], row["prediction"], row["last_price"], happened)
            )
    return sorted(found, key=lambda each: (each.symbol, each.due))


def scores(judged: Iterable[Judged]) -> list[Score]:
    """One per stock, those with the most predictions first."""
    by_symbol: dict[str, list[Judged]] = {}
    for each in judged:
        by_symbol.setdefault(each.symbol, []).append(each)
    found = []
    for mine in by_symbol.values():
        errors = [abs(each.error) for each in mine]
        naive = [abs(each.naive_error) for each in mine]
        pairs = list(zip(errors, naive, strict=True))
        found.append(
            Score(
                last=mine[-1],
                predictions=len(mine),
                # Medians: one jump of the price within a window sends the curve anywhere, and would be all of a mean.
                error=median(errors),
                naive_error=median(naive),
                closer=sum(a < b for a, b in pairs),
                equal=sum(a == b for a, b in pairs),
            )
        )
    return sorted(found, key=lambda score: (-score.predictions, score.last.symbol))
