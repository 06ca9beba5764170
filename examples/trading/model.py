"""The algo-trader's algorithm: a polynomial through the prices of a window, by Levenberg–Marquardt.

It needs neither Spark nor Muntin: `Polynomial` is a function of an Arrow table, and `fit` one of two arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.optimize import least_squares

Status = Literal["fitted", "no quotes", "too few quotes", "not converged"]

FIELDS = pa.schema(
    [
        ("quotes", pa.int64()),
        ("first_price", pa.float64()),
        ("highest", pa.float64()),
        ("lowest", pa.float64()),
        ("last_price", pa.float64()),
        ("status", pa.string()),
        ("centre", pa.int64()),
        ("half_span", pa.float64()),
        ("coefficients", pa.list_(pa.float64())),
        ("residual", pa.float64()),
    ]
)
SCHEMA = (
    "quotes long, first_price double, highest double, lowest double, last_price double, status string, "
    "centre long, half_span double, coefficients array<double>, residual double"
)
"""The same in Spark's words."""
COLUMNS = ("time", "bid", "ask")

_WIDEST_SPREAD = 5
"""Times the window's usual spread; beyond that one side is not meant as an offer."""
_TICK = 0.01


@dataclass(frozen=True)
class Curve:
    """price(t) = Σ coefficients[k] · ((t − centre) / half_span)^k, with t in microseconds since 1970.

    Microseconds are far from zero and close to each other: powers of them as they are would leave no digits.
    """

    centre: int
    half_span: float
    coefficients: npt.NDArray[np.float64]
    residual: float
    """Root mean square of what is left between curve and prices."""

    def at(self, time: int) -> float:
        return float(np.polynomial.polynomial.polyval((time - self.centre) / self.half_span, self.coefficients))


@dataclass(frozen=True)
class Polynomial:
    """What `.apply()` calls with the quotes of a window: one row with the candle and the fitted curve.

    The window's end is not among the quotes. So the row has the curve, and who knows the window tells the future from
    it.
    """

    degree: int = 2

    def __call__(self, quotes: pa.Table) -> pa.Table:
        times, prices = mid_prices(quotes)
        status, curve = fit(times, prices, self.degree)
        row = dict.fromkeys(FIELDS.names) | {"quotes": len(prices), "status": status}
        if len(prices):
            row |= {
                "first_price": prices[0],
                "highest": prices.max(),
                "lowest": prices.min(),
                "last_price": prices[-1],
            }
        if curve is not None:
            row |= {
                "centre": curve.centre,
                "half_span": curve.half_span,
                "coefficients": curve.coefficients,
                "residual": curve.residual,
            }
        return pa.Table.from_pylist([row], schema=FIELDS)


def mid_prices(quotes: pa.Table) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The middle of bid and ask, and its time, of the quotes that have both sides and mean them.

    Raw quotes hold nulls, zeros for a side that nobody offers, and offers far from the market that stand in for none.
    """
    times = np.asarray(quotes["time"].cast(pa.int64()))
    bid, ask = (np.asarray(quotes[side].cast(pa.float64()).fill_null(np.nan)) for side in ("bid", "ask"))
    good = (bid > 0) & (ask >= bid) & (ask < np.inf)  # NaN is never larger
    if good.any():
        spread = np.where(good, ask - bid, np.inf)
        good &= spread <= _WIDEST_SPREAD * max(float(np.median(spread[good])), _TICK)
    return times[good], bid[good] + (ask[good] - bid[good]) / 2


def fit(
    times: npt.NDArray[np.int64], prices: npt.NDArray[np.float64], degree: int, evaluations: int | None = None
) -> tuple[Status, Curve | None]:
    """The polynomial of this degree that is closest to the prices, or why there is none; times are in order.

    `evaluations` limits how often Levenberg–Marquardt may look at the residuals; None leaves that to SciPy.
    """
    if not len(times):
        return "no quotes", None
    if np.count_nonzero(np.diff(times)) < degree:  # as many different times as coefficients, or any curve would do
        return "too few quotes", None
    first, last = int(times[0]), int(times[-1])
    centre, half_span = (first + last) // 2, (last - first) / 2 or 1.0
    powers = np.vander((times - centre) / half_span, degree + 1, increasing=True)
    with np.errstate(over="ignore", invalid="ignore"):
        level = float(prices.mean())
        swing = float(np.ptp(prices)) or 1.0  # a price that does not move is a curve like any other
        scaled = (prices - level) / swing
    if not np.isfinite([level, swing]).all():  # prices at the end of what a double can hold
        return "not converged", None

    def left_over(coefficients: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.asarray(powers @ coefficients - scaled)

    def slopes(_: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return powers  # the same everywhere: the model is linear in its coefficients

    found = least_squares(
        left_over,
        np.zeros(degree + 1),
        jac=slopes,
        method="lm",
        max_nfev=evaluations,
    )
    if not found.success or not np.isfinite(found.x).all():
        return "not converged", None
    coefficients = found.x * swing
    coefficients[0] += level
    residual = float(np.sqrt(np.mean(found.fun**2))) * swing
    return "fitted", Curve(centre, half_span, coefficients, residual)
