"""The benchmark of Spark's settings: what a setting costs is compared round by round."""

from __future__ import annotations

import os
import time

import pytest

from muntin.bench import settings as bench
from muntin.bench.processes import cpu_seconds
from muntin.bench.settings import AS_CONFIGURED, VARIANTS, Cost


def test_ratios_are_medians_of_rounds() -> None:
    costs = {
        AS_CONFIGURED.name: [Cost(1.0, 0.5), Cost(3.0, 1.0), Cost(2.0, 2.0)],
        "another": [Cost(1.0, 1.0), Cost(1.0, 1.0), Cost(5.0, 1.0)],
    }
    base, other = bench.records(costs)
    assert base.ratio == 1.0
    assert base.note == "1,000 ms of processor time, 2,000 ms a batch (medians)"
    assert other.ratio == pytest.approx(1.0)  # of 2, 1 and 0.5
    assert "by round 2.00, 1.00, 0.50" in other.note


def test_contexts_are_started_as_seldom_as_can_be() -> None:
    assert VARIANTS[0] is AS_CONFIGURED
    without = [not variant.context for variant in VARIANTS]
    assert without == sorted(without, reverse=True)
    assert len({variant.name for variant in VARIANTS}) == len(VARIANTS)


def test_the_time_of_descendants_counts() -> None:
    child = os.popen("sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo; read x'", "w")
    try:
        deadline = time.monotonic() + 60
        while cpu_seconds() == 0 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert cpu_seconds() > 0
    finally:
        child.close()
