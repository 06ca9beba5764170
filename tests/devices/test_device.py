"""The arguments of `.device()`, and devices that are not there."""

from __future__ import annotations

from importlib.util import find_spec

import pyarrow as pa
import pytest

from muntin import windows as W
from muntin.devices import device as module
from muntin.devices.device import Device
from muntin.devices.ring import DeviceRing
from muntin.devices.split import SplitRing
from muntin.engine.map_stage import PaneStage
from muntin.engine.plan import Plan
from muntin.errors import MuntinError
from muntin.features.device.policy import OnDevice
from muntin.features.shedding.policy import Shedding
from muntin.tree.ring import RingTree
from tests.builders import Stream, living, make_plan, row, sliding

NUMPY = Device("cpu", "numpy")


@pytest.mark.parametrize("name", ["gpu", "CUDA", "cuda:x", "cuda:", "", "cpu:0", None, 0, ["cuda"]])
def test_unknown_devices(name: object) -> None:
    with pytest.raises(MuntinError, match=r"device .* is unknown; use 'cuda'"):
        OnDevice.of(name, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "library", "message"),
    [
        ("cuda", "pytorch", "library is 'pytorch'; it can be 'numpy', 'torch' or 'cupy'. Did you mean 'torch'?"),
        ("cuda", 3, "library is 3"),
        ("cpu", "cupy", "CuPy has no arrays on a CPU"),
        ("cuda:1", "numpy", "NumPy has no arrays on 'cuda:1'"),
    ],
)
def test_libraries_that_do_not_fit(name: str, library: str, message: str) -> None:
    with pytest.raises(MuntinError) as error:
        OnDevice.of(name, library)
    assert message in str(error.value)


def test_defaults() -> None:
    assert OnDevice.of("cpu", None).device.is_default
    assert OnDevice.of("cuda", None).device == Device("cuda", "torch")
    assert OnDevice.of("cuda", None).written == '.device("cuda")'
    assert OnDevice.of("cpu", "torch").written == '.device("cpu", library="torch")'
    assert not OnDevice.of("cpu", "torch").device.is_default


def test_a_library_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None if name == "torch" else find_spec(name))
    with pytest.raises(MuntinError) as error:
        PaneStage(make_plan([sliding(2, 1)], options=[OnDevice.of("cuda", None)]))
    assert str(error.value) == (
        "Device cuda (PyTorch) needs torch, which this Python does not have: pip install 'muntin[torch]'. Without "
        ".device(...), the query runs with NumPy."
    )


def test_a_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: name)
    monkeypatch.setattr(module, "_device_count", lambda library: 1)
    assert Device("cuda", "torch").problem is None
    assert Device("cuda:1", "cupy").problem == "Device cuda:1 (CuPy) does not exist: CuPy finds 1 GPU."

    def broken(library: str) -> int:
        raise RuntimeError("no driver")

    monkeypatch.setattr(module, "_device_count", broken)
    assert Device("cuda", "cupy").problem == "Device cuda (CuPy) cannot be used: RuntimeError: no driver."


def test_the_state_does_not_depend_on_the_device() -> None:
    plain, on_device = (make_plan([sliding(2, 1)], names=["sum_n"], options=each) for each in ([], [OnDevice(NUMPY)]))
    assert plain.fingerprint == on_device.fingerprint
    assert plain.description == on_device.description


def test_a_tree_that_lives_is_on_the_device() -> None:
    plan = make_plan([sliding(40, 1)], names=["sum_x", "mean_n"], streaming=True, options=[OnDevice(NUMPY)])
    stream = Stream(plan)
    with living():
        for batch in range(3):
            stream.batch([row(t, k=str(t % 3)) for t in range(1 + 30 * batch, 31 + 30 * batch)], 30 * batch)
    ((_, live),) = stream.cache._live.values()
    (tree,) = live._trees
    assert isinstance(tree, SplitRing)  # the count of all rows is asked for by no window
    assert [type(ring) for ring, _ in tree._rings] == [DeviceRing, RingTree]


def explained(plan: Plan) -> str:
    return "\n".join(OnDevice(NUMPY).explained(plan))


def test_what_runs_where_and_why() -> None:
    names = ["sum_x", "min_w", "composed", "median_x", "max_count"]
    text = explained(make_plan([sliding(40, 1)], names=names, streaming=True, options=[OnDevice(NUMPY)]))
    assert text.startswith("Device: cpu (NumPy) reduces rows to panes, for 'sum_x', 'max_count'.")
    assert "Where a tree lives from batch to batch, it lives there" in text
    assert "With NumPy: 'min_w', as strings and decimals are compared by their places in a dictionary." in text
    assert "With NumPy: 'composed', as its functions are yours, for arrays of NumPy." in text
    assert "With NumPy: 'median_x', as it is holistic: it reads the rows of windows." in text


def test_where_a_device_does_nothing() -> None:
    only_text = explained(make_plan([sliding(40, 1)], names=["min_w"], options=[OnDevice(NUMPY)]))
    assert "is not used: no aggregate has kernels for devices" in only_text
    of_rows = explained(make_plan([W.count(5)], names=["sum_x"], options=[OnDevice(NUMPY)]))
    assert "is not used: sessions and windows over rows are reduced behind the shuffle" in of_rows
    shedding = Shedding.of(rate=0.5, target_latency=None, method="concept", seed=0, confidence=0.95)
    shed = make_plan([sliding(4, 1)], names=["sum_x", "median_x"], shedding=shedding, options=[OnDevice(NUMPY)])
    assert "is not used: .shed() looks at the rows" in explained(shed)
    decimals = {"t": pa.timestamp("us", tz="UTC"), "k": pa.string(), "x": pa.decimal128(9, 2)}
    digits = make_plan([sliding(4, 1)], names=["count", "sum_x"], types=decimals, options=[OnDevice(NUMPY)])
    assert "'sum_x', as decimals are added in more digits" in explained(digits)
    table = explained(make_plan([sliding(4, 1)], names=["sum_x"], options=[OnDevice(NUMPY)]))
    assert "The windows of a table are answered once, with NumPy." in table
