"""Which worker model a query gets, and which wishes are refused."""

from __future__ import annotations

from typing import Any

import pytest

from muntin import MuntinError
from muntin import windows as W
from muntin.features.workers.choice import choose
from muntin.features.workers.policy import Parallel, Workers

TIME = W.sliding("1 minute", "1 second")
COUNT = W.count(100, 10)
BY_TUPLE = W.slide_by_tuple("1 minute", 10)


def chosen(
    *windows: W.Window, keyed: bool = False, incremental: bool = True, approximate: bool = False, **wish: Any
) -> Workers:
    policy = {"model": "auto", "workers": None, "batch": None, "ordered": False, "keys": None, "skewed": False} | wish
    return choose(
        Parallel.of(**policy),
        windows,
        keyed=keyed,
        incremental=incremental,
        approximate=approximate,
        cores=2,
    )


@pytest.mark.parametrize(
    ("windows", "given", "model", "why"),
    [
        ([TIME], {"keyed": True}, "keyed", "assumed to be many"),
        ([TIME], {"keyed": True, "keys": 8}, "keyed", "the keys are 8"),
        ([TIME], {"keyed": True, "keys": 7}, "active", "only 7 keys for 2 workers"),
        ([TIME], {"keyed": True, "keys": 1000, "skewed": True}, "active", "a few keys have most"),
        ([TIME], {}, "active", "only one group"),
        ([TIME], {"incremental": False}, "agnostic", "any free worker"),
        ([TIME, COUNT], {}, "agnostic", "are unknown until it is finalized"),
        ([W.session("1 minute")], {}, "agnostic", "are unknown until it is finalized"),
        ([BY_TUPLE], {}, "agnostic", "forward-context-aware"),
        ([TIME, BY_TUPLE], {"incremental": False}, "agnostic", "forward-context-aware"),
        ([BY_TUPLE], {"keyed": True}, "keyed", "assumed to be many"),
        ([TIME], {"incremental": False, "approximate": True}, "active", "samples"),
        ([BY_TUPLE], {"incremental": False, "approximate": True}, "keyed", "samples"),
    ],
)
def test_auto_follows_figure_7(windows: list[W.Window], given: dict[str, Any], model: str, why: str) -> None:
    workers = chosen(*windows, **given)
    assert workers.model == model
    assert why in workers.why


def test_a_wish_is_fulfilled() -> None:
    for model in ("keyed", "active", "agnostic"):
        assert chosen(TIME, keyed=True, model=model).model == model


@pytest.mark.parametrize("window", [BY_TUPLE, W.slide_by_time(5, "1 minute"), W.delta("x", 10, 1)])
def test_active_is_refused_for_windows_that_depend_on_later_tuples(window: W.Window) -> None:
    with pytest.raises(MuntinError, match=r"forward-context-aware.*depends on later tuples.*agnostic"):
        chosen(TIME, window, model="active")


def test_agnostic_is_refused_for_samples() -> None:
    with pytest.raises(MuntinError, match=r"samples.*'active' or 'keyed'"):
        chosen(TIME, model="agnostic", approximate=True)


def test_batches_follow_the_overlap_where_windows_cost_little() -> None:
    assert chosen(TIME).batch == 60
    assert chosen(W.tumbling("1 minute")).batch == 1
    assert chosen(TIME, incremental=False, model="active").batch == 1
    assert chosen(TIME, incremental=False, model="active", batch=5).batch == 5


def test_tasks_are_more_than_cores_unless_fewer_workers_are_wanted() -> None:
    assert chosen(BY_TUPLE).tasks == 4
    assert chosen(BY_TUPLE, workers=1).tasks == 1
    assert chosen(BY_TUPLE, workers=3).tasks == 6


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"model": "eager"}, "'auto', 'keyed', 'active' or 'agnostic'"),
        ({"workers": 0}, "workers must be a whole number from 1"),
        ({"workers": True}, "workers must be a whole number from 1"),
        ({"keys": -1}, "keys must be a whole number from 1"),
        ({"batch": 1.5}, "batch must be a whole number from 1"),
        ({"batch": 2, "model": "agnostic"}, "leave it out, or use model='active'"),
        ({"ordered": 1}, "ordered must be True or False"),
        ({"skewed": "yes"}, "skewed must be True or False"),
    ],
)
def test_bad_arguments_are_refused(wish: dict[str, Any], message: str) -> None:
    with pytest.raises(MuntinError, match=message):
        chosen(TIME, **wish)
