"""The speedup of the function itself on two cores, without Spark and without Muntin.

Cores share memory and caches, and on virtual machines perhaps more. So two calls at once may each take longer than one
alone. Compare the gain of worker models with this.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from time import perf_counter

from muntin.bench.parallel_data import even
from muntin.bench.parallel_fit import Fit
from muntin.spark.memory import keep_freed_memory


def calls_per_second(fit: Fit, tuples: int, calls: int, processes: int) -> float:
    """Calls per second of `processes` processes together. Each makes `calls` calls over its own window."""
    with _one_thread_each(), ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        for count in (1, calls):  # the first round starts the processes and warms them up
            rates = [pool.submit(_call, fit, tuples, count) for _ in range(processes)]
            total = sum(rate.result() for rate in rates)
    return total


_THREADS = "OMP_NUM_THREADS"


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Limit processes started meanwhile to one thread, as Spark does for its Python workers."""
    before = os.environ.get(_THREADS)
    os.environ[_THREADS] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_THREADS]
        else:
            os.environ[_THREADS] = before


def _call(fit: Fit, tuples: int, calls: int) -> float:
    keep_freed_memory()
    (window,) = even(tuples, [1])
    fit(window)
    begun = perf_counter()
    for _ in range(calls):
        fit(window)
    return calls / (perf_counter() - begun)
