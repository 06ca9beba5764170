from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.durations import describe, microseconds, microseconds_from_zero, positive_microseconds
from muntin.errors import MuntinError

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5 minutes", 300 * SECOND),
        ("1 hour 30 minutes", 5400 * SECOND),
        ("1hour30min", 5400 * SECOND),
        ("  2  DAYS ", 2 * 86_400 * SECOND),
        ("interval 1 week", 7 * 86_400 * SECOND),
        ("1.5 seconds", 1_500_000),
        ("0.000001 s", 1),
        ("250 ms 3 us", 250_003),
        ("-10 sec", -10 * SECOND),
        ("1 day -1 hour", 23 * 3600 * SECOND),
        ("0 seconds", 0),
    ],
)
def test_strings(text: str, expected: int) -> None:
    assert microseconds(text, "size") == expected


@pytest.mark.parametrize("value", ["200000000 days", timedelta.max, "-30000 weeks"])
def test_what_64_bits_cannot_add_is_refused(value: str | timedelta) -> None:
    with pytest.raises(MuntinError, match=r"size is .*longer than 104,249 days"):
        microseconds(value, "size")


@given(st.timedeltas(timedelta(days=-104_000), timedelta(days=104_000)))
def test_timedelta_is_exact(value: timedelta) -> None:
    assert microseconds(value, "size") == value // timedelta(microseconds=1)


@pytest.mark.parametrize("text", ["1 month", "3 months", "2 years", "1 quarter", "1 day 1 year"])
def test_calendar_units_have_no_length(text: str) -> None:
    with pytest.raises(MuntinError, match=r"size is .* no fixed length .*30 days"):
        microseconds(text, "size")


@pytest.mark.parametrize(
    "text", ["", "  ", "5", "minutes", "5 parsecs", "five minutes", "5 minutes and", "1e3 s", "interval"]
)
def test_nonsense(text: str) -> None:
    with pytest.raises(MuntinError, match=r"slide is .*, which is not a duration; write a number and a unit"):
        microseconds(text, "slide")


@pytest.mark.parametrize("value", [5, 5.0, None, True, b"5 minutes", ["5 minutes"]])
def test_other_types(value: Any) -> None:
    with pytest.raises(MuntinError, match="size must be a duration such as '5 minutes'"):
        microseconds(value, "size")


def test_finer_than_a_microsecond() -> None:
    with pytest.raises(MuntinError, match="finer than a microsecond"):
        microseconds("0.1 us", "size")


@pytest.mark.parametrize("value", ["0 seconds", "-1 second", timedelta(0), timedelta(microseconds=-1)])
def test_positive(value: str | timedelta) -> None:
    with pytest.raises(MuntinError, match="size must be longer than zero"):
        positive_microseconds(value, "size")
    assert positive_microseconds("1 us", "size") == 1


def test_from_zero() -> None:
    assert [microseconds_from_zero(value, "watermark") for value in ("0 seconds", timedelta(0), "1 us")] == [0, 0, 1]
    with pytest.raises(MuntinError, match="watermark must not be less than zero, got '-1 us'"):
        microseconds_from_zero("-1 us", "watermark")


@given(st.integers(-(10**15), 10**15))
def test_describe_round_trip(length: int) -> None:
    assert microseconds(describe(length), "size") == length


@pytest.mark.parametrize(
    ("length", "text"),
    [(0, "0 seconds"), (1, "1 microsecond"), (5400 * SECOND, "1 hour 30 minutes"), (86_400 * SECOND, "1 day")],
)
def test_describe(length: int, text: str) -> None:
    assert describe(length) == text
