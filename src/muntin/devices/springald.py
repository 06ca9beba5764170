"""SPRINGALD's four CUDA kernels (Mencagli 2024, figures 7, 9, 10 and 11), for one key, in numba-cuda.

They are a reference: queries run `lifting` and `levels`, which do the same for all keys at once on any library. Names
are the paper's. Where its listings leave something open, a grid strides by the size of the whole grid (`gridDim`), and
`nextPowerOf2` is the largest power of two that fits.

A state is a row of a matrix, `present` says whether it is there, and an absent one is the paper's ⊥.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numba import cuda

from muntin.arrays import Array, Int64Array

Op: TypeAlias = Callable[[Any, Any, Any], None]
"""Combines two states into a third, which may be one of them."""
BLOCKS, THREADS = 2, 4


@dataclass(frozen=True)
class Kernels:
    """The kernels for one operator."""

    aggregation: Any
    init_level: Any
    update_tree: Any
    compute: Any

    @classmethod
    def of(cls, op: Op) -> Kernels:
        combine = cuda.jit(device=True)(op)

        @cuda.jit(device=True)
        def join(left, is_left, right, is_right, into, present, k):  # type: ignore[no-untyped-def]
            """⊕ with its neutral element ⊥."""
            if is_left and is_right:
                combine(left, right, into[k])
            else:
                for f in range(into.shape[1]):
                    into[k, f] = left[f] if is_left else right[f]
            present[k] = is_left or is_right

        @cuda.jit
        def aggregation(ids, panes, pending, present, num_pending, tail, first_id):  # type: ignore[no-untyped-def]
            """Figure 7: add a batch's panes, which are sorted by falling numbers, to the circular buffer."""
            size = pending.shape[0]
            for i in range(cuda.grid(1), len(ids), cuda.gridsize(1)):
                pos = (tail + ids[i] - first_id) % size
                if ids[i] < first_id + num_pending:
                    join(pending[pos], present[pos], panes[i], True, pending, present, pos)
                else:
                    for f in range(pending.shape[1]):
                        pending[pos, f] = panes[i, f]
                    present[pos] = True
                    below = first_id + num_pending - 1  # the latest pane before the batch
                    if i + 1 < len(ids) and ids[i + 1] > below:
                        below = ids[i + 1]
                    for missing in range(below + 1, ids[i]):
                        present[(tail + missing - first_id) % size] = False

        @cuda.jit
        def init_level(level1, present1, level2, present2):  # type: ignore[no-untyped-def]
            """Figure 9: all nodes of a level."""
            for i in range(cuda.grid(1), level2.shape[0], cuda.gridsize(1)):
                left, right = 2 * i, 2 * i + 1
                join(level1[left], present1[left], level1[right], present1[right], level2, present2, i)

        @cuda.jit
        def update_tree(level1, present1, level2, present2, offset, size_update):  # type: ignore[no-untyped-def]
            """Figure 10: some nodes of a level, from `offset` on and around its end."""
            for i in range(cuda.grid(1), size_update, cuda.gridsize(1)):
                k = (i + offset) % level2.shape[0]
                left, right = 2 * k, 2 * k + 1
                join(level1[left], present1[left], level1[right], present1[right], level2, present2, k)

        @cuda.jit
        def compute(tree, present, results, there, offset, leaves, m, n, sp):  # type: ignore[no-untyped-def]
            """Figure 11: windows of `n` panes, each `sp` panes after the one before."""
            for i in range(cuda.grid(1), results.shape[0], cuda.gridsize(1)):
                there[i] = False
                ws = (offset + i * sp) % m
                panes = n
                while panes > 0:
                    if ws >= m:
                        ws = 0
                    aligned = leaves if ws == 0 else ws & -ws
                    span = 1
                    while 2 * span <= panes and 2 * span <= aligned:
                        span *= 2
                    node, rest = ws, span
                    while rest > 1:
                        node = (node >> 1) | leaves
                        rest >>= 1
                    join(results[i], there[i], tree[node], present[node], results, there, i)
                    begun, ws = ws, ws + span
                    panes -= m - begun if ws >= m else span

        return cls(aggregation, init_level, update_tree, compute)


class Pending:
    """The panes of a key that are not complete, in a circular buffer on the device."""

    def __init__(self, kernels: Kernels, fields: int, capacity: int) -> None:
        self._kernels = kernels
        self._pending = cuda.to_device(np.zeros((capacity, fields), dtype=np.int64))
        self._present = cuda.to_device(np.zeros(capacity, dtype=np.bool_))
        self._tail = 0
        self.first_id: int | None = None
        self.num_pending = 0

    def add(self, ids: Int64Array, panes: Array) -> None:
        """Add panes, by falling numbers, none of which is complete yet."""
        if self.first_id is None:
            self.first_id = int(ids[-1])
        reach = int(ids[0]) - self.first_id + 1
        if reach > self._pending.shape[0]:
            self._resize(max(reach, 2 * self._pending.shape[0]))
        self._kernels.aggregation[BLOCKS, THREADS](
            cuda.to_device(ids),
            cuda.to_device(panes),
            self._pending,
            self._present,
            self.num_pending,
            self._tail,
            self.first_id,
        )
        self.num_pending = max(self.num_pending, reach)

    def completed(self, until: int) -> tuple[Array, Array]:
        """Take the panes before `until` out: their states, and which there are."""
        assert self.first_id is not None
        count = min(max(until - self.first_id, 0), self.num_pending)
        places = (self._tail + np.arange(count)) % self._pending.shape[0]
        states, present = self._pending.copy_to_host()[places], self._present.copy_to_host()[places]
        self._tail = (self._tail + count) % self._pending.shape[0]
        self.first_id, self.num_pending = max(self.first_id, until), self.num_pending - count
        return states, present

    def _resize(self, capacity: int) -> None:
        places = (self._tail + np.arange(self.num_pending)) % self._pending.shape[0]
        for name in ("_pending", "_present"):
            old = getattr(self, name).copy_to_host()
            new = np.zeros((capacity, *old.shape[1:]), dtype=old.dtype)
            new[: self.num_pending] = old[places]
            setattr(self, name, cuda.to_device(new))
        self._tail = 0


class Tree:
    """The batched pane aggregation tree of a key, with room for `m` panes."""

    def __init__(self, kernels: Kernels, fields: int, m: int) -> None:
        self._kernels, self._m = kernels, m
        self._leaves = 1 << max((m - 1).bit_length(), 0)
        self._tree = cuda.to_device(np.zeros((2 * self._leaves - 1, fields), dtype=np.int64))
        self._present = cuda.to_device(np.zeros(2 * self._leaves - 1, dtype=np.bool_))

    @property
    def _levels(self) -> list[tuple[Any, Any]]:
        levels, begin, size = [], 0, self._leaves
        while size:
            levels.append((self._tree[begin : begin + size], self._present[begin : begin + size]))
            begin, size = begin + size, size >> 1
        return levels

    def build(self, states: Array, present: Array) -> None:
        """The first `m` panes, and all nodes."""
        self._write(0, states, present)
        levels = self._levels
        for below, above in pairwise(levels):
            self._kernels.init_level[BLOCKS, THREADS](*below, *above)

    def update(self, offset: int, states: Array, present: Array) -> None:
        """Overwrite leaves from `offset` on, around the end, and recompute the nodes above them."""
        first = min(self._m - offset, len(states))
        for begin, part in ((offset, slice(0, first)), (0, slice(first, None))):
            self._write(begin, states[part], present[part])
            self._climb(begin, len(states[part]))

    def _climb(self, begin: int, count: int) -> None:
        levels, end = self._levels, begin + count
        for below, above in pairwise(levels):
            begin, end = begin >> 1, (end + 1) >> 1
            if count:
                self._kernels.update_tree[BLOCKS, THREADS](*below, *above, begin, end - begin)

    def _write(self, begin: int, states: Array, present: Array) -> None:
        if len(states):
            self._tree[begin : begin + len(states)].copy_to_device(np.ascontiguousarray(states))
            self._present[begin : begin + len(states)].copy_to_device(np.ascontiguousarray(present))

    def windows(self, offset: int, n: int, sp: int, count: int) -> tuple[Array, Array]:
        """The states of windows of `n` panes, the first at `offset`; and whether they have any pane."""
        results = cuda.to_device(np.zeros((count, self._tree.shape[1]), dtype=np.int64))
        there = cuda.to_device(np.zeros(count, dtype=np.bool_))
        self._kernels.compute[BLOCKS, THREADS](
            self._tree, self._present, results, there, offset, self._leaves, self._m, n, sp
        )
        return results.copy_to_host(), there.copy_to_host()
