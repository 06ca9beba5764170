"""Windows of which tuples are shed, without an engine: how far they are off, and how concepts drift between them."""

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
"""The rate of most of the paper's figures."""
MUCH_MORE = 1.2
"""Where rare groups make concept-driven shedding keep so much more than asked, uniform also runs at what it keeps."""
ARROW_ROWS = 65_536


def shedding(rate: float, method: Method, seed: int = 0) -> Shedding:
    return Shedding.of(rate, None, method, seed, CONFIDENCE)


def run_of(data: DataSet, query: A.Aggregate | Applied, policy: Shedding | None = None) -> Ran:
    return replay(data, plan_of(data, query, shedding=policy))


Truth = dict[int, pd.Series]
"""The means of a window's groups, by its end. Without groups there is one, of the key 0."""


def truth_of(data: DataSet) -> Truth:
    return {end: _means(data.within(end - data.size, end)) for end in data.ends.tolist()}


def _means(tuples: pa.Table) -> pd.Series:
    if "key" not in tuples.column_names:
        return pd.Series([float(np.mean(tuples["value"].to_numpy()))], index=[0])
    found = tuples.group_by("key", use_threads=False).aggregate([("value", "mean")])
    return pd.Series(found["value_mean"].to_numpy(), index=found["key"].to_pandas())


def errors_of(truth: Truth, ran: Ran) -> Float64Array:
    """The relative error of every window."""
    return np.array([window_error(truth[end], _told(result)) for end, result in ran.results.items()])


def _told(result: pa.Table) -> pd.Series:
    keys = result["key"].to_pandas() if "key" in result.column_names else np.zeros(len(result), dtype=np.int64)
    return pd.Series(result[ANSWER].to_numpy(), index=keys)


def window_error(truth: pd.Series, told: pd.Series) -> float:
    """The mean over all groups that the window truly has of |estimate - truth| / |truth|.

    A group that is missing counts as 1, and no other counts for more: a delay of half a minute on average would
    otherwise make up for thousands of routes.
    """
    exact, estimate = truth.to_numpy(dtype=np.float64), told.reindex(truth.index).to_numpy(dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.abs(estimate - exact) / np.abs(exact)
    error = np.where(np.abs(estimate - exact) <= 1e-12 * np.abs(exact), 0.0, error)
    return float(np.mean(np.minimum(np.where(np.isnan(error), 1.0, error), 1.0)))


@dataclass(frozen=True)
class Drift:
    """Figure 2: how alike neighbouring windows are."""

    overlap: Float64Array
    """Of the groups of the two, the share that both have."""
    distance: Float64Array
    """Of Bray and Curtis, between the frequencies of their groups: 0 if they are the same, 1 if none is in both."""


def drift_of(data: DataSet) -> Drift:
    """Between each window and the next."""
    concepts = [concept(data.within(end - data.size, end)) for end in data.ends.tolist()]
    overlap, distance = np.array([drift(*pair) for pair in pairwise(concepts)]).reshape(-1, 2).T
    return Drift(overlap, distance)


def concept(tuples: pa.Table) -> pd.Series:
    """How often each group occurs."""
    counts = pc.value_counts(tuples["key"])
    return pd.Series(counts.field("counts").to_numpy(), index=counts.field("values").to_pandas())


def drift(first: pd.Series, second: pd.Series) -> tuple[float, float]:
    """Overlap and distance of two concepts."""
    both = first.index.intersection(second.index)
    overlap = len(both) / (len(first) + len(second) - len(both))
    shares = [each / each.sum() for each in (first, second)]
    common = np.minimum(shares[0].reindex(both).to_numpy(), shares[1].reindex(both).to_numpy())
    return overlap, float(1 - np.sum(common))


@dataclass
class Shed:
    """Several runs of one query, shed by one method at one rate, or not at all; each with a seed of its own."""

    rate: float
    runs: list[Ran] = field(default_factory=list)
    errors: list[Float64Array] = field(default_factory=list)
    """Of the windows of each run."""

    def add(self, ran: Ran, errors: Float64Array | None = None) -> None:
        self.runs.append(replace(ran, results={}))
        if errors is not None:
            self.errors.append(errors)

    @property
    def windows(self) -> Float64Array:
        """The seconds of each window, in the median run: what other programs did to one run does not count."""
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
        """The share of tuples that was really kept."""
        return float(np.mean([ran.kept for ran in self.runs]))


@dataclass
class Compared:
    """A query over a data set: as it is, and shed by either method at several rates."""

    data: DataSet
    query: A.Aggregate | Applied
    rates: Sequence[float]
    normal: Shed = field(default_factory=lambda: Shed(0.0))
    uniform: dict[float, Shed] = field(default_factory=dict)
    concept: dict[float, Shed] = field(default_factory=dict)
    as_many: Shed | None = None
    """Uniform shedding that keeps as many tuples as concept-driven does at `AT`, where that is more than it should."""

    def run(self, rounds: int) -> None:
        """All of them in turn, several times over."""
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

    def _shed(self, into: Shed, method: Method, seed: int, truth: Truth) -> None:
        ran = run_of(self.data, self.query, shedding(into.rate, method, seed))
        into.add(ran, errors_of(truth, ran) if truth else None)


def pane_stage_seconds(data: DataSet, rounds: int) -> dict[str, float]:
    """What the pane stage takes for a data set, in batches as Spark has them: the fastest of some rounds, in turn."""
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
    return {name: min(found) for name, found in seconds.items()}
