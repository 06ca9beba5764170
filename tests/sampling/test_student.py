from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri, stdtrit

from muntin.statistics.student import NODES, deviates


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.99, 0.9999])
def test_deviates_are_those_of_scipy_to_the_sixth_digit(confidence: float) -> None:
    numbers = np.random.default_rng(1)
    degrees = np.concatenate([np.arange(1.0, 500.0), numbers.uniform(1, 3, 2_000), 10 ** numbers.uniform(0, 9, 2_000)])
    expected = stdtrit(degrees, 1 - (1 - confidence) / 2)
    assert deviates(degrees, confidence) == pytest.approx(expected, rel=1e-6)


def test_deviates_at_the_edges() -> None:
    found = deviates(np.array([1.0, np.inf, float(NODES), NODES / 2]), 0.95)
    assert found == pytest.approx([stdtrit(1, 0.975), ndtri(0.975), stdtrit(NODES, 0.975), stdtrit(NODES / 2, 0.975)])
    assert deviates(np.array([0.2, np.nan, -1.0]), 0.95) == pytest.approx(stdtrit(1, 0.975))
    assert not len(deviates(np.zeros(0), 0.95))
