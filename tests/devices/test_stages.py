"""Both stages on devices, against naive recomputation: every aggregate, beside those that NumPy computes."""

from __future__ import annotations

import math
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.devices.device import Device
from muntin.devices.lifting import SortedRows
from muntin.devices.ring import DeviceRing
from muntin.engine.map_stage import PaneStage
from muntin.engine.plan import Plan
from muntin.features.device.policy import OnDevice
from muntin.partials.partial import Moments
from tests import strategies
from tests.builders import (
    BUILT_IN,
    CASES,
    Step,
    lift,
    make_plan,
    row,
    sliding,
    to_batch,
)
from tests.devices.libraries import DEVICES
from tests.naive import Row
from tests.stages.test_pane_stage import MAYBE_TIMES, panes_and_counts_are_naive
from tests.stages.test_window_stage import STEPS, any_stream_is_naive

NAMES = st.lists(st.sampled_from([*CASES, *BUILT_IN]), min_size=1, max_size=4, unique=True)


def plans(device: Device, *, streaming: bool = False) -> st.SearchStrategy[Plan]:
    return st.builds(
        make_plan,
        strategies.windows(),
        strategies.KEYS,
        NAMES,
        shards=strategies.SHARDS,
        streaming=st.just(streaming),
        options=st.just((OnDevice(device),)),
    )


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=60, deadline=None)
@given(rows=strategies.rows(MAYBE_TIMES), data=st.data())
def test_panes_are_naive(device: Device, rows: list[Row], data: st.DataObject) -> None:
    panes_and_counts_are_naive(data.draw(plans(device)), rows, data)


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=25, deadline=None)
@given(steps=STEPS, data=st.data(), tree=st.sampled_from("rwl"))
def test_streams_are_naive(device: Device, steps: list[Step], data: st.DataObject, tree: str) -> None:
    any_stream_is_naive(data.draw(plans(device, streaming=True)), steps, 2, 0, 1 << 20, tree)


@pytest.mark.parametrize("device", DEVICES)
def test_the_table_is_that_of_the_processor(device: Device) -> None:
    """To the bit, zeros' signs included, but for variances: with more rows, nulls and ties than random inputs have.

    In the second round, panes are so far apart that only the processor numbers them.
    """
    rng = np.random.default_rng(0)
    floats, words = [None, math.nan, math.inf, -math.inf, -0.0, 0.0, 0.125, -3.5], [None, "", "a", "é", "z"]
    integers = [None, 0, -1, 1, 5, (1 << 63) - 1, -(1 << 63)]
    rows = [
        row(
            int(rng.integers(-300, 300)),
            k=str(rng.integers(0, 40)),
            n=integers[rng.integers(len(integers))],
            x=floats[rng.integers(len(floats))] if rng.random() < 0.7 else -0.0,
            w=words[rng.integers(len(words))],
            kept=[None, True, False][rng.integers(3)],
        )
        for _ in range(4000)
    ]
    for more in ([], [row(-(1 << 61)), row((1 << 61) + 5)]):
        given = [*rows, *more]
        there, here = (
            lift(make_plan([sliding(50, 50)], names=BUILT_IN, options=options), given)
            for options in ([OnDevice(device)], [])
        )
        assert there.keys.equals(here.keys)
        assert there.dictionaries == here.dictionaries
        parts = make_plan([sliding(50, 50)], names=BUILT_IN).layout.leaf_sets[0].parts()
        for ours, theirs in zip(there.leaves, here.leaves, strict=True):
            assert np.array_equal(ours.key, theirs.key)
            assert np.array_equal(ours.time, theirs.time)
            for partial, fields in parts:
                if isinstance(partial, Moments) and partial.column == "n":
                    continue  # the largest integers cancel, and which bits are lost depends on the order
                for column, expected in zip(ours.state[fields], theirs.state[fields], strict=True):
                    assert column.dtype == expected.dtype
                    assert np.allclose(column, expected, rtol=1e-12, equal_nan=True)
                    number = ~np.isnan(expected)
                    exact = not isinstance(partial, Moments)
                    assert not exact or column[number].tobytes() == expected[number].tobytes(), partial


@pytest.mark.parametrize("device", DEVICES)
def test_the_device_works_while_the_next_rows_are_read(device: Device) -> None:
    """Nothing waits for a batch before the next one has been started."""
    plan = make_plan([sliding(10, 5)], names=["sum_n"], options=(OnDevice(device),))
    steps: list[str] = []
    started, waited = SortedRows.__init__, SortedRows.count

    def start(self: SortedRows, *given: Any, **named: Any) -> None:
        steps.append("start")
        started(self, *given, **named)

    def wait(self: SortedRows) -> int:
        steps.append("wait")
        return waited(self)

    batches = [to_batch([row(t, n=t) for t in range(begin, begin + 9)]) for begin in (0, 9, 18)]
    with (
        patch.object(SortedRows, "__init__", start),
        patch.object(SortedRows, "count", wait),
        patch("muntin.engine.map_stage.ROWS_TOGETHER", 9),
    ):
        assert sum(share.rows for share in PaneStage(plan).run(batches)) == 27
    assert steps == ["start", "start", "wait", "start", "wait", "wait"]


def test_what_has_no_kernel_for_devices_never_gets_there() -> None:
    """Only the aggregates of numbers do; a stream of any others builds no ring on the device."""
    device = Device("cpu", "numpy")
    plan = make_plan([sliding(10, 5)], names=["min_w", "median_x"], streaming=True, options=(OnDevice(device),))
    with patch.object(DeviceRing, "__init__", side_effect=AssertionError):
        any_stream_is_naive(plan, [Step([row(t) for t in range(50)], 30, 1, False, False)], 2, 0, 1 << 20, "l")
