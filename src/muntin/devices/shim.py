"""What the kernels need of an array library beyond the array API standard: everything that differs between libraries.

Each library has one class. Sums and minima are of groups whose elements are neighbours: element `i` belongs to group
`numbers[i]`, in order, and group `g` is the elements `[edges[g], edges[g + 1])`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.arrays import Array


class Arrays:
    """Any library of the standard; what is missing there goes through NumPy. For tests, and for NumPy itself."""

    def __init__(self, xp: Any, where: Any = None) -> None:
        self.xp = xp
        """The functions of the standard."""
        self.where = where
        """The device, as the library calls it."""

    def upload(self, array: Array) -> Any:
        """An array of NumPy as one of the device. The transfer may still be under way."""
        return self.xp.asarray(np.ascontiguousarray(array))

    def download(self, array: Any) -> Array:
        """An array of the device as one of NumPy."""
        return np.asarray(array)

    def sums(self, values: Any, numbers: Any, edges: Any) -> Any:
        """The sum of each group, of which none is empty. Integers are added modulo 2**64."""
        return self.upload(np.add.reduceat(self.download(values), self.download(edges)[:-1]))

    def least(self, values: Any, numbers: Any, edges: Any) -> Any:
        """The least integer of each group, of which none is empty."""
        return self.upload(np.minimum.reduceat(self.download(values), self.download(edges)[:-1]))

    def put(self, array: Any, positions: Any, values: Any) -> Any:
        """The array with other values at some positions; it may be the same array, changed."""
        changed = np.array(self.download(array))
        changed[self.download(positions)] = self.download(values)
        return self.upload(changed)

    def bits(self, floats: Any) -> Any:
        """The bits of numbers in double precision, as integers."""
        return self.upload(self.download(floats).view(np.int64))


class NumPyArrays(Arrays):
    def put(self, array: Any, positions: Any, values: Any) -> Any:
        array[positions] = values
        return array


class TorchArrays(Arrays):
    def upload(self, array: Array) -> Any:
        import torch

        if self.where.type == "cpu":  # PyTorch has no read-only arrays, such as those of Arrow
            return torch.from_numpy(array if array.flags.writeable else array.copy())
        kind = torch.from_numpy(np.zeros(0, dtype=array.dtype)).dtype
        pinned = torch.empty(array.shape, dtype=kind, pin_memory=True)
        pinned.numpy()[...] = array
        return pinned.to(self.where, non_blocking=True)  # the task reads on while its rows are copied

    def download(self, array: Any) -> Array:
        return np.asarray(array.cpu().numpy())

    def sums(self, values: Any, numbers: Any, edges: Any) -> Any:
        import torch

        if values.is_floating_point():  # without atomic additions: the result does not depend on the schedule
            return torch.segment_reduce(values, "sum", offsets=edges, unsafe=True)
        return torch.zeros(len(edges) - 1, dtype=values.dtype, device=values.device).index_add_(0, numbers, values)

    def least(self, values: Any, numbers: Any, edges: Any) -> Any:
        import torch

        largest = torch.iinfo(values.dtype).max
        best = torch.full((len(edges) - 1,), largest, dtype=values.dtype, device=values.device)
        return best.scatter_reduce_(0, numbers, values, "amin")

    def put(self, array: Any, positions: Any, values: Any) -> Any:
        array[positions] = values
        return array

    def bits(self, floats: Any) -> Any:
        return floats.view(self.xp.int64)


class CuPyArrays(Arrays):
    """CuPy adds and compares 64-bit integers at once only if they have no sign."""

    def download(self, array: Any) -> Array:
        return np.asarray(array.get())

    def sums(self, values: Any, numbers: Any, edges: Any) -> Any:
        import cupyx

        if values.dtype.kind == "f":  # with atomic additions: the last bits may depend on the schedule
            total = self.xp.zeros(len(edges) - 1, dtype=values.dtype)
            cupyx.scatter_add(total, numbers, values)
            return total
        total = self.xp.zeros(len(edges) - 1, dtype=self.xp.uint64)
        cupyx.scatter_add(total, numbers, values.view(self.xp.uint64))
        return total.view(self.xp.int64)

    def least(self, values: Any, numbers: Any, edges: Any) -> Any:
        import cupyx

        sign = self.xp.int64(np.iinfo(np.int64).min)
        best = self.xp.full(len(edges) - 1, np.iinfo(np.uint64).max, dtype=self.xp.uint64)
        cupyx.scatter_min(best, numbers, (values ^ sign).view(self.xp.uint64))
        return best.view(self.xp.int64) ^ sign

    def put(self, array: Any, positions: Any, values: Any) -> Any:
        array[positions] = values
        return array

    def bits(self, floats: Any) -> Any:
        return floats.view(self.xp.int64)
