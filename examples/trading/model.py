"""The model: a polynomial through the prices of a window, fitted by Levenberg–Marquardt.

It needs neither Spark nor Muntin. `Polynomial` is a function of an Arrow table, and `fit` of two arrays.
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
"""The same schema in Spark's syntax."""
COLUMNS = ("time", "bid", "ask")

_WIDEST_SPREAD = 5
"""In median spreads of the window. In a wider quote, one side is not a real offer."""
_TICK = 0.01


@dataclass(frozen=True)
class Curve:
    """price(t) = Σ coefficients[k] · ((t − centre) / half_span)^k, with t in microseconds since 1970.

    Times are centred and scaled, since powers of raw microseconds would lose all digits.
    """

    centre: int
    half_span: float
    coefficients: npt.NDArray[np.float64]
    residual: float
    """Root mean square of the residuals."""

    def at(self, time: int) -> float:
        return float(np.polynomial.polynomial.polyval((time - self.centre) / self.half_span, self.coefficients))


@dataclass(frozen=True)
class Polynomial:
    """The function for `.apply()`: from the quotes of a window, one row with the candle and the fitted curve.

    The function does not receive the end of the window. So it returns the curve, and the query evaluates it at the
    horizon.
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
    """The times and mid prices of the valid quotes, which have two real sides.

    Raw quotes contain nulls, zeros for a missing side, and placeholder offers far from the market.
    """
    times = np.asarray(quotes["time"].cast(pa.int64()))
    bid, ask = (np.asarray(quotes[side].cast(pa.float64()).fill_null(np.nan)) for side in ("bid", "ask"))
    valid = (bid > 0) & (ask >= bid) & (ask < np.inf)  # false for NaN
    if valid.any():
        spread = np.where(valid, ask - bid, np.inf)
        valid &= spread <= _WIDEST_SPREAD * max(float(np.median(spread[valid])), _TICK)
    return times[valid], bid[valid] + (ask[valid] - bid[valid]) / 2


def fit(
    times: npt.NDArray[np.int64], prices: npt.NDArray[np.float64], degree: int, evaluations: int | None = None
) -> tuple[Status, Curve | None]:
    """The polynomial of this degree that is closest to the prices, or the reason why there is none. Times are sorted.

    `evaluations` limits how often Levenberg–Marquardt evaluates the residuals; None leaves that to SciPy.
    """
    if not len(times):
        return "no quotes", None
    if np.count_nonzero(np.diff(times)) < degree:  # fewer distinct times than coefficients do not determine a curve
        return "too few quotes", None
    first, last = int(times[0]), int(times[-1])
    centre, half_span = (first + last) // 2, (last - first) / 2 or 1.0
    powers = np.vander((times - centre) / half_span, degree + 1, increasing=True)
    with np.errstate(over="ignore", invalid="ignore"):
        level = float(prices.mean())
        swing = float(np.ptp(prices)) or 1.0  # a constant price has a curve, too
        scaled = (prices - level) / swing
    if not np.isfinite([level, swing]).all():  # prices near the limit of a double
        return "not converged", None

    def residuals(coefficients: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.asarray(powers @ coefficients - scaled)

    def jacobian(_: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return powers  # constant, since the model is linear in its coefficients

    solution = least_squares(
        residuals,
        np.zeros(degree + 1),
        jac=jacobian,
        method="lm",
        max_nfev=evaluations,
    )
    if not solution.success or not np.isfinite(solution.x).all():
        return "not converged", None
    coefficients = solution.x * swing
    coefficients[0] += level
    residual = float(np.sqrt(np.mean(solution.fun**2))) * swing
    return "fitted", Curve(centre, half_span, coefficients, residual)
