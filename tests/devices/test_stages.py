"""Both stages on devices, against naive recomputation: every aggregate, beside those that NumPy computes."""

from __future__ import annotations

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
from tests import strategies
from tests.builders import (
    BUILT_IN,
    CASES,
    Step,
    check_panes,
    check_table,
    lift,
    make_plan,
    naive_pane_values,
    pane_values,
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
def test_many_keys_and_far_panes(device: Device) -> None:
    """Far beyond the sizes that random inputs have; and panes so far apart that only the processor numbers them."""
    names = ["count", "sum_n", "mean_x", "var_pop", "min_x", "max_w", "last_n", "argmin_time", "max_count"]
    plan = make_plan([sliding(7, 7)], names=names, options=(OnDevice(device),))
    rng = np.random.default_rng(0)
    rows = [row(int(t), k=str(key), n=int(t) % 5 - 2, x=float(t % 3)) for t, key in rng.integers(-900, 900, (3000, 2))]
    for times in ([], [-(1 << 61), (1 << 61) + 5]):
        given = [*rows, *(row(t, n=-(1 << 62)) for t in times)]
        table = lift(plan, given)
        check_table(plan, table)
        check_panes(pane_values(plan, table), naive_pane_values(plan, given))


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
