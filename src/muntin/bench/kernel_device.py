"""The kernels on a device beside NumPy: the pane stage with and without transfers, transfers alone, and the tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.progress import track

from muntin.arrays import Array, State
from muntin.bench.kernel import Case, Data
from muntin.bench.report import Record, show, write
from muntin.devices.device import Device
from muntin.devices.ring import DeviceRing
from muntin.devices.shim import Arrays
from muntin.engine.device_panes import DevicePanes
from muntin.engine.map_stage import ROWS_TOGETHER, PaneStage
from muntin.spark.memory import keep_freed_memory
from muntin.tree.ring import RingShape, RingTree

PANES = 4096
"""Panes of a window of the tree."""


class Resident:
    """Arrays of a device that have been there since the first time: what kernels cost without transfers."""

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays
        self._known: dict[tuple[int, str], tuple[Array, Any]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._arrays, name)

    def upload(self, array: Array) -> Any:
        place = array.__array_interface__["data"][0], str(array.dtype)
        if place not in self._known:
            self._known[place] = array, self._arrays.upload(array)
        return self._known[place][1]


def _lift(data: Data, device: Device | None, resident: Resident | None = None) -> Callable[[], object]:
    """One batch from Arrow to its pane table; it waits for the device."""
    stage = PaneStage(replace(data.plan, device=device))
    if resident is not None and isinstance(stage._device, DevicePanes):
        stage._device._arrays = resident  # type: ignore[assignment]
    read = data.batch.select(list(data.plan.types))
    times = np.asarray(read.column("t").cast(pa.int64()))
    return lambda: stage.lift(read, times)


def _round_trip(arrays: Arrays, values: Array) -> None:
    arrays.download(arrays.upload(values))


def _one_way(arrays: Arrays, values: Array) -> None:
    """To the device; a single value comes back, so that the transfer is over."""
    arrays.download(arrays.upload(values)[-1:])


def _add(left: State, right: State) -> State:
    return (left[0] + right[0],)


class Slides:
    """A tree of some lanes, and one slide of all windows after the other."""

    def __init__(self, ring: Callable[..., Any], lanes: int) -> None:
        self._lanes, self._every = lanes, np.arange(lanes)
        self._of = partial(ring, _add, (np.dtype(np.float64),), RingShape.of(PANES, PANES + PANES // 8), lanes)
        self._pane, self._lane = np.divmod(np.arange(PANES * lanes), lanes)
        self._values = np.random.default_rng(0).random(PANES * lanes)
        self.ring = self.built()

    def built(self) -> Any:
        ring = self._of(PANES)
        ring.build(self._pane, self._lane, (self._values,))
        self._wait(ring)
        return ring

    def updated(self) -> None:
        until = self.ring.until + 1
        pane = np.full(self._lanes, until - 1)
        self.ring.add(until, pane, self._every, (self._values[: self._lanes],))
        self._wait(self.ring)

    def windows(self) -> None:
        until = self.ring.until
        begin = np.full(self._lanes, until - PANES)
        self.ring.ranges(self._every, begin, np.full(self._lanes, until))

    def _wait(self, ring: Any) -> None:
        ring.ranges(self._every[:1], np.array([ring.until - 1]), np.array([ring.until]))


def _seconds(works: list[Callable[[], object]], rounds: int) -> list[float]:
    """The median of several rounds of each, in which they take turns; the first round warms up."""
    seconds: list[list[float]] = [[] for _ in works]
    for number in range(rounds + 1):
        for times, work in zip(seconds, works, strict=True):
            begun = perf_counter()
            work()
            if number:
                times.append(perf_counter() - begun)
    return [median(times) for times in seconds]


def _panes(device: Device, rows: int, rounds: int) -> Iterator[Record]:
    plain = Case(rows, lift=True)
    keyed = [replace(plain, keys=keys) for keys in (1_000, min(rows, 100_000))]
    for case in [plain, replace(plain, ordered=False), *keyed, replace(keyed[0], aggregate="all of these")]:
        data = Data.of(case)
        works = [_lift(data, None), _lift(data, device), _lift(data, device, Resident(device.arrays))]
        ours, there, resident = _seconds(works, rounds)
        name = f"{case.name}, {rows:,} rows"
        yield _rate(name, rows / there, rows / ours)
        yield _rate(f"{name}, already there", rows / resident, rows / ours)


def _transfers(device: Device, rows: int, rounds: int) -> Iterator[Record]:
    values, arrays = np.random.default_rng(0).random(rows), device.arrays
    go, come = _seconds([partial(_one_way, arrays, values), partial(_round_trip, arrays, values)], rounds)
    for name, seconds in (("to the device", go), ("to the device and back", come)):
        note = "nothing is copied: PyTorch shares the memory of NumPy" if device.name == "cpu" else ""
        yield Record(f"{rows:,} numbers {name}, bytes/s", values.nbytes / seconds, None, None, None, note=note)


def _tree(device: Device, lanes: int, rounds: int) -> Iterator[Record]:
    ours, there = Slides(RingTree, lanes), Slides(partial(DeviceRing, device.arrays), lanes)
    name = f"tree of {PANES:,} panes, {lanes:,} key{'s' * (lanes != 1)}"
    steps = {"built": ("nodes", PANES * lanes), "updated": ("slides of keys", lanes), "windows": ("windows", lanes)}
    for step, (what, count) in steps.items():
        plain, on_device = _seconds([getattr(ours, step), getattr(there, step)], rounds)
        yield _rate(f"{name}, {step}: {what}/s", count / on_device, count / plain)


def _rate(name: str, rate: float, baseline: float) -> Record:
    return Record(name, rate, baseline, rate / baseline, None, baseline_name="NumPy")


def run_on(device: Device, out: Path, quick: bool = False) -> int:
    """Measure, show and write. There is no target: what is right is a matter of tests."""
    _ = device.arrays  # before anything takes time: there may be no such device
    keep_freed_memory()
    console, rounds = Console(), 1 if quick else 5
    sizes = [1 << 14] if quick else [ROWS_TOGETHER, 1 << 22]
    parts = [(part, size) for size in sizes for part in (_panes, _transfers)]
    lanes = [(_tree, lanes) for lanes in ((1, 10) if quick else (1, 1_000))]
    records: list[Record] = []
    for part, size in track([*parts, *lanes], "measuring", console=console, transient=True):
        records += part(device, size, rounds)
    show(records, f"Kernels on {device}, beside NumPy on one core", console)
    write(records, out / "kernel-device.json")
    console.print(f"\n{out / 'kernel-device.json'}")
    return 0
