"""What columns are called in joined rows."""

from __future__ import annotations

import pytest

from muntin import MuntinError
from muntin.joins.names import joined_names


def test_names_that_both_sides_have_get_the_side_in_front() -> None:
    names = joined_names(["id"], ["ts", "fare"], ["ts", "speed"])
    assert names == {"left": {"left_ts": "ts", "fare": "fare"}, "right": {"right_ts": "ts", "speed": "speed"}}


def test_names_that_differ_in_case_are_the_same_to_spark() -> None:
    names = joined_names(["id"], ["Fare"], ["fare", "ID"])
    assert names == {"left": {"left_Fare": "Fare"}, "right": {"right_fare": "fare", "right_ID": "ID"}}


def test_names_that_differ_in_case_are_told_apart_if_spark_does() -> None:
    names = joined_names(["id"], ["Fare", "x"], ["fare", "ID", "x"], str)
    assert names == {"left": {"Fare": "Fare", "left_x": "x"}, "right": {"fare": "fare", "ID": "ID", "right_x": "x"}}


def test_a_column_with_the_name_of_a_computed_key_gets_its_side() -> None:
    assert joined_names(["id"], ["id"], []) == {"left": {"left_id": "id"}, "right": {}}


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        (["x", "left_x"], ["x"], "left's column 'left_x' is called 'left_x'.*so is left's column 'x'"),
        (["x"], ["x", "Left_X"], "right's column 'Left_X'.*so is left's column 'x'; rename"),
        (["x"], ["__muntin_time"], "right's column '__muntin_time' has a name that Muntin uses itself"),
    ],
)
def test_names_that_would_be_there_twice(left: list[str], right: list[str], message: str) -> None:
    with pytest.raises(MuntinError, match=message):
        joined_names(["id"], left, right)


def test_a_key_may_have_any_name_of_its_own() -> None:
    with pytest.raises(MuntinError, match=r"left's column 'x' is called 'left_x'.*so is the key 'left_x'"):
        joined_names(["left_x"], ["x"], ["x"])
