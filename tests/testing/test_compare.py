"""What `assert_windows` says."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from muntin.errors import MuntinError
from muntin.testing import Step, assert_windows


def row(hour: int, route: str | None, trips: Any, **others: Any) -> dict[str, Any]:
    start, end = (datetime(2024, 5, 1, hour + more, tzinfo=timezone.utc) for more in (0, 1))
    return {"window": {"start": start, "end": end}, "window_id": hour, "route": route, "trips": trips, **others}


FOUND = [row(12, "A", 2), row(12, "B", 1), row(13, None, float("nan"))]
NOON = {"start": "2024-05-01 12:00", "end": "2024-05-01T13:00:00Z"}


def differences(found: Any, expected: Any) -> list[str]:
    with pytest.raises(AssertionError) as error:
        assert_windows(found, expected)
    return str(error.value).splitlines()


def test_equal_windows_in_any_order() -> None:
    assert_windows(FOUND, [row(13, None, float("nan")), row(12, "B", 1.0), row(12, "A", 2 + 1e-12)])
    assert_windows(Step(FOUND[:1], [], None), [NOON | {"trips": 2}])
    assert_windows(FOUND, [{"route": "A"}, {"route": None}, {"route": "B"}])
    assert_windows([], [])
    nested = row(12, "A", [1.0, {"x": 0.3}])
    assert_windows([nested], [row(12, "A", [1.0, {"x": 0.1 + 0.2}])])


def test_what_differs_is_shown() -> None:
    assert differences(FOUND[:2], [NOON | {"route": "A", "trips": 3}]) == [
        "2 windows differ from those of 1 expected:",
        "  different   [2024-05-01 12:00, 2024-05-01 13:00)  route='A': trips is 2, expected 3",
        "  unexpected  [2024-05-01 12:00, 2024-05-01 13:00)  route='B'  trips=1",
    ]
    assert differences(FOUND[:1], [row(12, "A", 2), row(12, "A", 2)])[1:] == [
        "  missing     [2024-05-01 12:00, 2024-05-01 13:00)  window_id=12  route='A'  trips=2",
    ]
    assert differences(FOUND[:1], [])[1:] == ["  unexpected  [2024-05-01 12:00, 2024-05-01 13:00)"]
    assert differences([], [NOON | {"route": "A"}])[1:] == [
        "  missing     [2024-05-01 12:00, 2024-05-01 13:00)  route='A'"
    ]
    assert differences(FOUND[:1], [{"trips": 3}])[1:] == ["  missing     trips=3", "  unexpected  trips=2"]
    seconds = {"start": "2024-05-01 12:00:00.5", "end": "2024-05-01 13:00"}
    assert differences([], [seconds])[1:] == ["  missing     [2024-05-01 12:00:00.500000, 2024-05-01 13:00)"]


def test_values_of_other_types_differ() -> None:
    for value in ("2", None, [2], {"x": 2}, 2.1):
        assert differences([row(12, "A", 2)], [row(12, "A", value)])


def test_bad_expectations_are_refused() -> None:
    with pytest.raises(MuntinError, match="expected has a column 'tripz', which the results have not: start, end, "):
        assert_windows(FOUND, [NOON | {"tripz": 1}])
    with pytest.raises(MuntinError, match="begins or ends at no time: Invalid isoformat string: 'noon'"):
        assert_windows(FOUND, [{"start": "noon"}])
    with pytest.raises(MuntinError, match="expected must be dicts"):
        assert_windows(FOUND, [("A", 2)])  # type: ignore[list-item]
