"""The query of the example, without Kafka and without Spark."""

from __future__ import annotations

import pytest
from examples.pipeline_kafka import RIDE, fares, hour_of_rides

from muntin.testing import Stream, assert_windows
from tests.kafka.expected import answers, assert_same


def test_a_window_is_there_while_it_is_open() -> None:
    stream = Stream(fares, RIDE)
    step = stream.batch([("2024-05-01 12:01", "A", 5.0), ("2024-05-01 12:04", "A", 8.0)])
    assert_windows(step, [{"end": f"2024-05-01 12:{end}", "trips": 2, "mean": 6.5} for end in ("05", "10", "15")])
    step = stream.batch([("2024-05-01 12:06", "A", 2.0)])
    assert {row["revision"] for row in step.results} == {0, 1}


def test_what_is_no_ride_is_invalid() -> None:
    step = Stream(fares, RIDE).batch([(None, None, None), ("2024-05-01 12:01", "A", 5.0)])
    assert (step.invalid_rows, step.late_rows) == (1, 0)


@pytest.mark.parametrize("restarted", [False, True])
def test_hours_of_rides(restarted: bool) -> None:
    stream = Stream(fares, RIDE)
    latest = {}
    for hour in range(3):
        step = stream.batch(hour_of_rides(hour))
        assert step.late_rows == 0
        for row in step.results:
            latest[row["window"]["start"], row["route"]] = (row["trips"], row["mean"])
        if restarted:
            stream.restart()
    assert_same(latest, answers(ride for hour in range(3) for ride in hour_of_rides(hour)))
