"""Shed windows without an engine: their errors, and the drift of concepts between windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from time import perf_counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from muntin import aggregates as A
from muntin.arrays import Float64Array
from muntin.bench.core import ANSWER, Ran, plan_of, replay
from muntin.bench.data_sets import DataSet
from muntin.engine.map_stage import PaneStage
from muntin.features.shedding.policy import Method, Shedding
from muntin.holistic.applied import Applied

MEAN = A.mean("value")
CONFIDENCE = 0.95
RATES = (0.5, 0.75, 0.9, 0.98, 0.99)
AT = 0.98
"""The rate of most figures in Katsipoulakis et al. (2018), *CoD*."""
MUCH_MORE = 1.2
"""If concept-driven shedding keeps this many times the requested share, uniform also runs at the share it kept."""
ARROW_ROWS = 65_536


def shedding(rate: float, method: Method, seed: int = 0) -> Shedding:
    """As in the paper, aggregates see only the kept rows."""
    return Shedding.of(rate, None, method, seed, CONFIDENCE, incremental=False)


def run_of(data: DataSet, query: A.Aggregate | Applied, policy: Shedding | None = None) -> Ran:
    return replay(data, plan_of(data, query, shedding=policy))


Truth = dict[int, pd.Series]
"""The means of the groups of each window, by window end. Without groups, the only key is 0."""


def truth_of(data: DataSet) -> Truth:
    return {end: _means(data.within(end - data.size, end)) for end in data.ends.tolist()}


def _means(tuples: pa.Table) -> pd.Series:
    if "key" not in tuples.column_names:
        return pd.Series([float(np.mean(tuples["value"].to_numpy()))], index=[0])
    means = tuples.group_by("key", use_threads=False).aggregate([("value", "mean")])
    return pd.Series(means["value_mean"].to_numpy(), index=means["key"].to_pandas())


def errors_of(truth: Truth, ran: Ran) -> Float64Array:
    """The relative error of every window."""
    return np.array([window_error(truth[end], _estimates(result)) for end, result in ran.results.items()])


def _estimates(result: pa.Table) -> pd.Series:
    keys = result["key"].to_pandas() if "key" in result.column_names else np.zeros(len(result), dtype=np.int64)
    return pd.Series(result[ANSWER].to_numpy(), index=keys)


def window_error(truth: pd.Series, estimates: pd.Series) -> float:
    """The mean of |estimate - truth| / |truth| over all groups of the window.

    A missing group counts as 1, and errors above 1 count as 1: otherwise a single route with a mean delay near zero
    would outweigh thousands of others.
    """
    exact, estimate = truth.to_numpy(dtype=np.float64), estimates.reindex(truth.index).to_numpy(dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.abs(estimate - exact) / np.abs(exact)
    error = np.where(np.abs(estimate - exact) <= 1e-12 * np.abs(exact), 0.0, error)
    return float(np.mean(np.minimum(np.where(np.isnan(error), 1.0, error), 1.0)))


@dataclass(frozen=True)
class Drift:
    """Figure 2: the similarity of neighbouring windows."""

    overlap: Float64Array
    """The share of the groups of two windows that both have."""
    distance: Float64Array
    """The Bray-Curtis distance of the group frequencies: 0 if they are equal, 1 if no group is in both."""


def drift_of(data: DataSet) -> Drift:
    """The drift between each window and the next."""
    concepts = [concept(data.within(end - data.size, end)) for end in data.ends.tolist()]
    overlap, distance = np.array([drift(*pair) for pair in pairwise(concepts)]).reshape(-1, 2).T
    return Drift(overlap, distance)


def concept(tuples: pa.Table) -> pd.Series:
    """The frequency of each group."""
    counts = pc.value_counts(tuples["key"])
    return pd.Series(counts.field("counts").to_numpy(), index=counts.field("values").to_pandas())


def drift(first: pd.Series, second: pd.Series) -> tuple[float, float]:
    """Overlap and distance of two concepts."""
    both = first.index.intersection(second.index)
    overlap = len(both) / (len(first) + len(second) - len(both))
    shares = [counts / counts.sum() for counts in (first, second)]
    common = np.minimum(shares[0].reindex(both).to_numpy(), shares[1].reindex(both).to_numpy())
    return overlap, float(1 - np.sum(common))


@dataclass
class Shed:
    """Several runs of a query with different seeds, shed by one method at one rate, or not shed."""

    rate: float
    runs: list[Ran] = field(default_factory=list)
    errors: list[Float64Array] = field(default_factory=list)
    """The errors of the windows, per run."""

    def add(self, ran: Ran, errors: Float64Array | None = None) -> None:
        self.runs.append(replace(ran, results={}))
        if errors is not None:
            self.errors.append(errors)

    @property
    def windows(self) -> Float64Array:
        """The median seconds of each window over the runs, which ignores disturbed runs."""
        return np.asarray(np.median([ran.windows for ran in self.runs], axis=0))

    @property
    def seconds(self) -> float:
        return float(np.mean(self.windows))

    @property
    def p95(self) -> float:
        return float(np.percentile(self.windows, 95))

    @property
    def error(self) -> float:
        return float(np.mean(np.concatenate(self.errors)))

    @property
    def p95_error(self) -> float:
        return float(np.percentile(np.concatenate(self.errors), 95))

    @property
    def kept(self) -> float:
        """The share of tuples that were actually kept."""
        return float(np.mean([ran.kept for ran in self.runs]))


@dataclass
class Compared:
    """A query over a data set: without shedding, and with either method at several rates."""

    data: DataSet
    query: A.Aggregate | Applied
    rates: Sequence[float]
    normal: Shed = field(default_factory=lambda: Shed(0.0))
    uniform: dict[float, Shed] = field(default_factory=dict)
    concept: dict[float, Shed] = field(default_factory=dict)
    as_many: Shed | None = None
    """Uniform shedding with as many tuples as concept-driven keeps at `AT`, if that exceeds the request."""

    def run(self, rounds: int) -> None:
        """Run all variants in turn, `rounds` times."""
        truth = {} if isinstance(self.query, Applied) else truth_of(self.data)
        for seed in range(rounds):
            self.normal.add(run_of(self.data, self.query))
            for rate in self.rates:
                self._shed(self.uniform.setdefault(rate, Shed(rate)), "uniform", seed, truth)
                self._shed(self.concept.setdefault(rate, Shed(rate)), "concept", seed, truth)
            kept = self.concept[AT].kept
            if kept > MUCH_MORE * (1 - AT):
                self.as_many = self.as_many or Shed(1 - kept)
                self._shed(self.as_many, "uniform", seed, truth)

    def _shed(self, shed: Shed, method: Method, seed: int, truth: Truth) -> None:
        ran = run_of(self.data, self.query, shedding(shed.rate, method, seed))
        shed.add(ran, errors_of(truth, ran) if truth else None)


def pane_stage_seconds(data: DataSet, rounds: int) -> dict[str, float]:
    """Seconds of the pane stage for a data set, in batches as from Spark: the fastest of `rounds` rounds."""
    tuples = data.tuples.combine_chunks().to_batches(max_chunksize=ARROW_ROWS)
    policies = {"normal": None, "uniform": shedding(AT, "uniform"), "concept": shedding(AT, "concept")}
    plans = {name: plan_of(data, MEAN, shedding=policy) for name, policy in policies.items()}
    seconds: dict[str, list[float]] = {name: [] for name in plans}
    for _ in range(rounds):
        for name, plan in plans.items():
            begun = perf_counter()
            for _ in PaneStage(plan).run(tuples):
                pass
            seconds[name].append(perf_counter() - begun)
    return {name: min(seconds_of_plan) for name, seconds_of_plan in seconds.items()}
