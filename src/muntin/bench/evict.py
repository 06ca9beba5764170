"""Subtract on evict beside the tree that lives: what a slide of a mean costs, and what large values leave behind.

For sums that can be inverted, a window need not be combined from its panes: the new pane is added to a running sum, and
the one that leaves is subtracted. Both get one new pane of every key per slide, and answer one window of every key.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
from rich.console import Console

from muntin.arrays import Array, State
from muntin.bench.report import Record, show, write
from muntin.spark.memory import keep_freed_memory
from muntin.tree.ring import RingShape, RingTree


def _add(left: State, right: State) -> State:
    return left[0] + right[0], left[1] + right[1]


class Tree:
    def __init__(self, panes: int, keys: int) -> None:
        self._panes, self._keys = panes, np.arange(keys)
        shape = RingShape.of(panes, panes + panes // 8)
        self._ring = RingTree(_add, (np.dtype(np.float64), np.dtype(np.int64)), shape, keys, 0)

    def slide(self, sums: Array, counts: Array) -> tuple[Array, Array]:
        """The new panes of all keys; the sum and the count of the window that ends with them."""
        until = self._ring.until + 1
        self._ring.add(until, np.full(len(self._keys), until - 1), self._keys, (sums, counts))
        begin = np.full(len(self._keys), until - self._panes)
        _, total, count = self._ring.ranges(self._keys, begin, np.full(len(self._keys), until))
        return total, count


class Running:
    def __init__(self, panes: int, keys: int) -> None:
        self._sums, self._counts = np.zeros((panes, keys)), np.zeros((panes, keys), dtype=np.int64)
        self._total, self._count, self._until = np.zeros(keys), np.zeros(keys, dtype=np.int64), 0

    def slide(self, sums: Array, counts: Array) -> tuple[Array, Array]:
        oldest = self._until % len(self._sums)
        with np.errstate(invalid="ignore"):  # inf - inf
            self._total += sums
            self._total -= self._sums[oldest]
        self._count += counts
        self._count -= self._counts[oldest]
        self._sums[oldest], self._counts[oldest] = sums, counts
        self._until += 1
        return self._total.copy(), self._count.copy()


def seconds(slide: Callable[[Array, Array], object], panes: int, keys: int, slides: int) -> float:
    """The median of the slides, once the window is full."""
    rng = np.random.default_rng(0)
    inputs = cycle([(rng.random(keys), rng.integers(1, 9, keys)) for _ in range(16)])
    taken = []
    for number in range(panes + slides):
        sums, counts = next(inputs)
        begun = perf_counter()
        slide(sums, counts)
        if number >= panes:
            taken.append(perf_counter() - begun)
    return median(taken)


def left_behind(kind: type[Tree | Running], large: float, panes: int = 60) -> float:
    """How far the sum of a window of ones is off, once one large value has come and gone."""
    window, one = kind(panes, 1), np.ones(1, dtype=np.int64)
    total = np.zeros(1)
    for number in range(4 * panes):
        total, _ = window.slide(np.array([large if number == panes else 1.0]), one)
    return abs(float(total[0]) - panes)


def run(out: Path, quick: bool = False) -> int:
    keep_freed_memory()
    console, records = Console(), list[Record]()
    sizes = [(60, 10)] if quick else [(60, 1), (60, 10_000), (600, 1_000), (4_096, 1), (4_096, 1_000)]
    for panes, keys in sizes:
        tree, running = (
            seconds(kind(panes, keys).slide, panes, keys, 20 if quick else 500) for kind in (Tree, Running)
        )
        name = f"{panes:,} panes, {keys:,} key{'s' * (keys != 1)}: windows/s by subtracting"
        note = f"a slide takes {running * 1e6:,.0f} µs; {tree * 1e6:,.0f} µs with the tree"
        records.append(Record(name, keys / running, keys / tree, tree / running, None, baseline_name="tree", note=note))
    for large in (1e16, 1e20, float("inf")):
        off = [left_behind(kind, large) for kind in (Running, Tree)]
        note = f"off by {off[0]:g} by subtracting, by {off[1]:g} with the tree"
        records.append(Record(f"a sum of 60, after {large:g} has left", None, None, None, None, note=note))
    show(records, "Subtract on evict beside the tree that lives", console)
    write(records, out / "evict.json")
    console.print(f"\n{out / 'evict.json'}")
    return 0
