from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from examples.trading import model
from examples.trading.model import Polynomial, fit, mid_prices
from hypothesis import given
from hypothesis import strategies as st

NOON = 1_514_901_600_000_000
SECOND = 1_000_000


def quotes(rows: list[tuple[float, float | None, float | None]]) -> pa.Table:
    """Quotes from rows of seconds after noon, bid and ask."""
    times = pa.array([NOON + round(second * SECOND) for second, _, _ in rows]).cast(pa.timestamp("us", tz="UTC"))
    sides = {name: pa.array([row[i] for row in rows], pa.float64()) for i, name in ((1, "bid"), (2, "ask"))}
    return pa.table({"time": times, **sides})


def expected(times: npt.NDArray[np.int64], prices: npt.NDArray[np.float64], degree: int) -> npt.NDArray[np.float64]:
    """The values of NumPy's own fit at some times, one of them after the last price."""
    curve = np.polynomial.Polynomial.fit(times - times[0], prices, degree)
    return np.asarray(curve(_moments(times) - times[0]))


def _moments(times: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    first, last = times[0], times[-1]
    return np.array([first, (first + last) // 2, last, last + (last - first) // 4])


@given(
    st.lists(st.integers(0, 600 * 1000), min_size=8, max_size=60, unique=True).map(sorted),
    st.integers(0, 3),
    st.integers(0, 1000),
)
def test_the_curve_is_numpys(milliseconds: list[int], degree: int, seed: int) -> None:
    times = NOON + np.array(milliseconds) * 1000
    prices = np.round(150 + np.cumsum(np.random.default_rng(seed).normal(0, 0.02, len(times))), 3)
    status, curve = fit(times, prices, degree)
    assert status == "fitted"
    assert curve is not None
    values = [curve.at(int(moment)) for moment in _moments(times)]
    reach = np.ptp(prices) + 0.001
    # Far from the prices, the last digits of the coefficients matter more.
    assert values == pytest.approx(expected(times, prices, degree), abs=1e-4 * reach, rel=1e-6)
    assert curve.residual == pytest.approx(
        np.sqrt(np.mean((np.array([curve.at(int(moment)) for moment in times]) - prices) ** 2)), abs=1e-9
    )


def test_a_polynomial_is_found_again() -> None:
    seconds = np.arange(0, 300, 7)
    times = NOON + seconds * SECOND
    status, curve = fit(times, 100 + 0.01 * seconds - 0.0002 * seconds**2, degree=2)
    assert status == "fitted"
    assert curve is not None
    assert curve.at(NOON + 360 * SECOND) == pytest.approx(100 + 3.6 - 0.0002 * 360**2)
    assert curve.residual == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("seconds", "degree", "status"),
    [
        ([], 2, "no quotes"),
        ([1], 0, "fitted"),  # one price determines a curve of degree 0
        ([1], 1, "too few quotes"),
        ([1, 2], 2, "too few quotes"),
        ([1, 1, 1, 1, 2], 2, "too few quotes"),  # two times do not determine a parabola
        ([1, 1, 1, 1, 2, 3], 2, "fitted"),
        ([5, 5, 5, 5], 2, "too few quotes"),
    ],
)
def test_few_prices(seconds: list[int], degree: int, status: str) -> None:
    times = NOON + np.array(seconds, dtype=np.int64) * SECOND
    actual_status, curve = fit(times, np.linspace(10, 11, len(times)), degree)
    assert actual_status == status
    assert (curve is not None) == (status == "fitted")


@pytest.mark.parametrize("price", [0.01, 152.37, 1e9])
def test_a_price_that_does_not_move(price: float) -> None:
    times = NOON + np.arange(50) * SECOND
    status, curve = fit(times, np.full(50, price), degree=3)
    assert status == "fitted"
    assert curve is not None
    assert curve.at(NOON + 80 * SECOND) == pytest.approx(price)
    assert curve.residual == pytest.approx(0, abs=1e-9 * price)


def test_a_fit_that_does_not_converge() -> None:
    times = NOON + np.arange(50) * SECOND
    assert fit(times, np.sin(np.arange(50.0)), degree=3, evaluations=1) == ("not converged", None)


def test_prices_beyond_the_range_of_doubles() -> None:
    times = NOON + np.arange(4) * SECOND
    assert fit(times, np.array([1e308, -1e308, 1e308, -1e308]), degree=1) == ("not converged", None)


def test_quotes_of_one_side_are_left_out() -> None:
    raw = quotes(
        [
            (0, 10.00, 10.02),
            (1, 0.0, 10.02),  # nobody buys
            (2, 10.01, 0.0),  # nobody sells
            (3, None, 10.02),
            (4, 10.01, float("nan")),
            (5, 10.03, 10.02),  # crossed
            (6, 10.02, 10.02),  # locked
            (7, 10.00, float("inf")),
            (8, 0.01, 199_999.0),  # a placeholder offer
            (9, 10.03, 10.05),
        ]
    )
    times, prices = mid_prices(raw)
    assert ((times - NOON) // SECOND).tolist() == [0, 6, 9]
    assert prices.tolist() == pytest.approx([10.01, 10.02, 10.04])


def test_the_row_of_a_window() -> None:
    row = Polynomial(1)(quotes([(0, 10.0, 10.2), (10, 10.4, 10.6), (20, 9.0, 9.2), (30, 10.3, 10.5)]))
    assert row.schema.equals(model.FIELDS)
    (fields,) = row.to_pylist()
    assert (fields["quotes"], fields["status"]) == (4, "fitted")
    candle = [fields[name] for name in ("first_price", "highest", "lowest", "last_price")]
    assert candle == pytest.approx([10.1, 10.5, 9.1, 10.4])
    assert (fields["centre"], fields["half_span"]) == (NOON + 15 * SECOND, 15 * SECOND)
    assert len(fields["coefficients"]) == 2


@pytest.mark.parametrize("rows", [[], [(0, None, None)], [(0, 0.0, 0.0), (1, float("nan"), 1.0)]])
def test_the_row_of_a_window_without_prices(rows: list[tuple[float, float | None, float | None]]) -> None:
    (fields,) = Polynomial()(quotes(rows)).to_pylist()
    assert {name for name, value in fields.items() if value is not None} == {"quotes", "status"}
    assert (fields["quotes"], fields["status"]) == (0, "no quotes")


@given(
    st.lists(
        st.tuples(
            st.floats(0, 600),
            st.none() | st.floats(allow_nan=True, allow_infinity=True),
            st.none() | st.floats(allow_nan=True, allow_infinity=True),
        ),
        max_size=12,
    ).map(lambda rows: sorted(rows, key=lambda row: row[0])),
    st.integers(0, 3),
)
def test_any_quotes_give_a_row(rows: list[tuple[float, float | None, float | None]], degree: int) -> None:
    (fields,) = Polynomial(degree)(quotes(rows)).to_pylist()
    assert (fields["coefficients"] is not None) == (fields["status"] == "fitted")
    assert fields["coefficients"] is None or np.isfinite(fields["coefficients"]).all()


def test_both_schemas_are_one() -> None:
    kinds = {
        "long": pa.int64(),
        "double": pa.float64(),
        "string": pa.string(),
        "array<double>": pa.list_(pa.float64()),
    }
    words = [word.split() for word in model.SCHEMA.split(", ")]
    assert pa.schema([(name, kinds[kind]) for name, kind in words]).equals(model.FIELDS)


@pytest.mark.slow
def test_a_large_window_takes_tens_of_milliseconds() -> None:
    count = 200_000
    times = NOON + np.sort(np.random.default_rng(0).integers(0, SECOND, count))
    mids = 150 + np.cumsum(np.random.default_rng(1).choice([-0.01, 0, 0.01], count))
    sides = {"bid": pa.array(mids - 0.01), "ask": pa.array(mids + 0.01)}
    window = pa.table({"time": pa.array(times).cast(pa.timestamp("us", tz="UTC")), **sides})
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        assert Polynomial(3)(window)["status"].to_pylist() == ["fitted"]
        seconds.append(time.perf_counter() - began)
    assert min(seconds) < 0.5  # about 40 ms on an idle machine
