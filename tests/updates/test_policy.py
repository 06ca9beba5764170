"""The arguments of `emit()` and `late("update")`: checked when they are given, shown as written, and explained."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest

from muntin import MuntinError
from muntin import windows as W
from muntin.features.updates.policy import Updates
from tests.builders import make_plan, sliding
from tests.nasty import NASTY


@pytest.mark.parametrize("streaming", [True, False])
def test_any_value_is_taken_or_refused(streaming: bool) -> None:
    for value in NASTY:
        with suppress(MuntinError):
            Updates().with_emission(value, None, streaming)
        with suppress(MuntinError):
            Updates().with_emission("on_change", value, streaming)
        with suppress(MuntinError):
            Updates().with_corrections(value)


def test_the_calls_are_independent_of_each_other() -> None:
    both = Updates().with_corrections("1 hour").with_emission("on_change", timedelta(seconds=5), streaming=True)
    assert both.written == '.emit("on_change", every="5 seconds").late("update", within="1 hour")'
    assert both.with_emission("on_close", None, streaming=True).written == '.late("update", within="1 hour")'
    assert both.is_needed
    assert not Updates().with_emission("on_close", None, streaming=True).is_needed


def test_it_is_explained() -> None:
    policy = Updates().with_emission("on_change", "5 seconds", streaming=True).with_corrections("1 hour")
    plan = make_plan([sliding(60, 10)], streaming=True, options=[policy])
    assert policy.explained(plan) == [
        "Updates: at most once in 5 seconds, a row for every window and key that has changed since its last row.",
        "  Late rows still count for 1 hour after the end of a window; the state keeps its panes for as long.",
        "  A row of the input changes up to 6 windows of its key.",
    ]
    (line, _) = Updates().with_corrections("1 hour").explained(plan)
    assert line == "Updates: a row for every window and key when it closes, and after that when it has changed."


def test_columns_are_added_behind_the_aggregates() -> None:
    policy = Updates(on_change=True)
    names = ["window", "window_id", "k", "count", "timing", "revision"]
    assert make_plan([W.count(5)], options=[policy]).result_schema.names == names
    assert make_plan([W.session("5 minutes")], options=[policy]).result_schema.names == [*names, "retracted"]
    late = make_plan([W.count(5)], options=[policy], emit_late=True).result_schema.names
    assert late == [*names, "late", "lateness"]
