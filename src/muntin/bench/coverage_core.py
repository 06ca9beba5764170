"""How often intervals hold: windows of known contents, answered from some of their rows, without an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy.stats import binom, norm

from muntin import aggregates as A
from muntin import windows as W
from muntin.arrays import BoolArray, Float64Array, Int64Array
from muntin.bench.data_sets import TIME
from muntin.engine.emitted import Results
from muntin.engine.features import KeptAtSource, Option, Task
from muntin.engine.map_stage import PackedPanes, PaneStage
from muntin.engine.plan import Plan
from muntin.engine.shard import EVERYTHING, Shard
from muntin.engine.store import TableStore
from muntin.features.sampling.policy import Approximation
from muntin.features.shedding.drawn import drawn
from muntin.features.shedding.policy import Shedding
from muntin.statistics.student import deviates

Random: TypeAlias = np.random.Generator
Groups = Literal["none", "five", "zipf", "singletons"]
Counting = Literal["all", "half null", "filter of a tenth"]
Way = Literal["concept", "uniform", "source", "approximate", "approximate all", "pairs"]
"""How rows are left out; `pairs` are those of a join whose sides are both shed."""

CONFIDENCES = (0.8, 0.95, 0.99)
MADE: Mapping[str, Callable[[Random, tuple[int, int]], Float64Array]] = {
    "normal": lambda random, shape: random.normal(10, 2, shape),
    "lognormal 1": lambda random, shape: random.lognormal(0, 1, shape),
    "lognormal 2": lambda random, shape: random.lognormal(0, 2, shape),
    "Pareto 1.5": lambda random, shape: random.pareto(1.5, shape) + 1,
    "bimodal": lambda random, shape: random.choice([0.0, 100.0], shape) + random.normal(0, 1, shape),
    "99 % zeros": lambda random, shape: np.where(random.random(shape) < 0.99, 0.0, random.lognormal(0, 1, shape)),
    "constant": lambda random, shape: np.full(shape, 0.1),
    "duplicates": lambda random, shape: random.choice([1.0, 2.0, 1000.0], shape, p=[0.9, 0.09, 0.01]),
    "tied integers": lambda random, shape: random.poisson(3, shape).astype(np.float64),
    "signs": lambda random, shape: random.choice([-1.0, 1.0], shape),
    "outliers": lambda random, shape: np.where(random.random(shape) < 0.999, random.normal(0, 1, shape), 1e6),
    "t with 2 degrees": lambda random, shape: random.standard_t(2, shape),
    "exponential": lambda random, shape: random.exponential(1, shape),
    "Weibull 0.5": lambda random, shape: random.weibull(0.5, shape),
    "rare ones": lambda random, shape: (random.random(shape) < 0.01).astype(np.float64),
    "near constant": lambda random, shape: 1e6 + random.normal(0, 1e-3, shape),
}
"""The distributions."""
AGGREGATES: Mapping[str, A.Aggregate] = {
    "count": A.count("x"),
    "sum": A.sum("x"),
    "mean": A.mean("x"),
    "variance": A.var_samp("x"),
    "deviation": A.stddev_samp("x"),
    "min": A.min("x"),
    "max": A.max("x"),
    "median": A.median("x"),
    "p90": A.quantile("x", 0.9),
}
ROWS_TOGETHER = 4_000_000
"""Rows that are made and answered at once: this bounds the memory."""
PAIRS = "pairs that count"
PANE = 1_000_000
"""Microseconds. Windows have `Setting.panes` of them."""
TYPES = {"time": TIME, "key": pa.int64(), "x": pa.float64(), "counts": pa.bool_()}


@dataclass(frozen=True)
class Setting:
    """One cell of the grid."""

    made: str = "normal"
    size: int = 200
    rate: float = 0.9
    way: Way = "concept"
    panes: int = 1
    groups: Groups = "none"
    counting: Counting = "all"
    shuffled: bool = False

    @property
    def title(self) -> str:
        parts = [self.made, f"{self.size:,} rows", self.way, f"{self.rate:.1%}"]
        parts += [f"{self.panes} panes"] if self.panes > 1 else []
        parts += [f"groups: {self.groups}"] if self.groups != "none" else []
        parts += [self.counting] if self.counting != "all" else []
        return ", ".join([*parts, "shuffled"] if self.shuffled else parts)


@dataclass(frozen=True)
class Covered:
    """How often the intervals of an aggregate hold in a setting."""

    setting: Setting
    aggregate: str
    confidence: float
    windows: int
    """Windows and groups of which some rows were not used."""
    given: int
    """How many of these had an interval, of one side at least."""
    covered: int
    width: float
    """The median width of intervals with two sides, relative to the exact value; NaN if there are none."""
    student: float = np.nan
    """For means: the same of Student's t, which does not hold."""

    @property
    def share(self) -> float:
        return self.covered / self.given if self.given else np.nan

    @property
    def holds(self) -> bool:
        """Whether the share is at least the confidence, within three standard errors.

        The binomial distribution itself says so: with few intervals, a normal one in its place would be wrong.
        """
        return bool(binom.cdf(self.covered, self.given, self.confidence) >= norm.cdf(-3))


def measure(setting: Setting, windows: int, seed: int) -> list[Covered]:
    """Answer so many windows, at every confidence."""
    random = np.random.default_rng([seed, *setting.title.encode()])
    together = max(1, ROWS_TOGETHER // setting.size)
    estimated: dict[float, list[pd.DataFrame]] = {confidence: [] for confidence in CONFIDENCES}
    for begin in range(0, windows, together):
        data = _Data.of(setting, min(together, windows - begin), random)
        truth = data.truth().add_prefix("exact ")
        for confidence, answers in data.answers(seed + begin):
            estimated[confidence].append(answers[answers["estimated"]].join(truth))
    return [
        _covered(setting, name, confidence, pd.concat(frames))
        for confidence, frames in estimated.items()
        for name in AGGREGATES
    ]


@dataclass(frozen=True)
class _Data:
    setting: Setting
    window: Int64Array
    key: Int64Array
    x: Float64Array
    counts: BoolArray
    time: Int64Array

    @classmethod
    def of(cls, setting: Setting, windows: int, random: Random) -> _Data:
        shape = (windows, setting.size)
        window = np.repeat(np.arange(windows), setting.size)
        place = np.tile(np.arange(setting.size), windows)
        x = MADE[setting.made](random, shape).ravel()
        key = np.zeros(len(x), dtype=np.int64)
        if setting.groups == "five":
            key = random.integers(0, 5, len(x))
        elif setting.groups == "zipf":
            key = np.minimum(random.zipf(1.5, len(x)), 1000)
        elif setting.groups == "singletons":  # and one large group
            key = np.where(random.random(len(x)) < 0.5, 0, place + 1)
        share = {"all": 1.0, "half null": 0.5, "filter of a tenth": 0.1}[setting.counting]
        counts = random.random(len(x)) < share
        time = (window * setting.panes + place * setting.panes // setting.size) * PANE
        data = cls(setting, window, key, x, counts, time)
        return data.take(random.permutation(len(x))) if setting.shuffled else data

    def take(self, order: Int64Array) -> _Data:
        return replace(
            self,
            window=self.window[order],
            key=self.key[order],
            x=self.x[order],
            counts=self.counts[order],
            time=self.time[order],
        )

    def truth(self) -> pd.DataFrame:
        frame = pd.DataFrame({"window": self.window, "key": self.key, "x": np.where(self.counts, self.x, np.nan)})
        if self.setting.groups == "none" and not self.setting.shuffled:  # faster than by pandas
            return _by_window(frame["x"].to_numpy().reshape(-1, self.setting.size))
        grouped = frame.groupby(["window", "key"])["x"]
        truth = grouped.agg(["count", "sum", "mean", "var", "std", "min", "max", "median"])
        truth["p90"] = grouped.quantile(0.9)
        return truth.rename(columns={"var": "variance", "std": "deviation"})

    def answers(self, seed: int) -> Iterator[tuple[float, pd.DataFrame]]:
        """The answers at every confidence. What is kept does not depend on it, so the pane stage runs once."""
        sent: list[PackedPanes] = []
        for confidence in CONFIDENCES:
            plan = self._plan(confidence, seed)
            sent = sent or [each for each in PaneStage(plan).run(self._kept(seed)) if each.shard == 0]
            emitted = Shard(plan, TableStore(plan), 0).run(sent, EVERYTHING)
            frames = [_frame(each.rows, self.setting) for each in emitted if isinstance(each, Results)]
            yield confidence, pd.concat(frames).set_index(["window", "key"])

    def _kept(self, seed: int) -> Iterator[pa.RecordBatch]:
        """The rows that reach the pane stage."""
        batches = self._batches()
        if self.setting.way == "source":
            return drawn(batches, KeptAtSource(1 - self.setting.rate, seed), Task())
        return batches

    def _plan(self, confidence: float, seed: int) -> Plan:
        setting = self.setting
        where = "counts" if setting.counting == "filter of a tenth" else None
        whole = W.tumbling(timedelta(microseconds=setting.panes * PANE), name="whole")
        panes = [W.tumbling(timedelta(microseconds=PANE), name="pane")] if setting.panes > 1 else []
        return Plan.make(
            time="time",
            windows=[whole, *panes],
            types=TYPES,
            keys=() if setting.groups == "none" else ("key",),
            aggregates={name: each.bind(TYPES, where, TIME) for name, each in AGGREGATES.items()},
            shards=[0],
            options=[_option(setting, confidence, seed)],
        )

    def _batches(self, rows: int = 1 << 20) -> Iterator[pa.RecordBatch]:
        for begin in range(0, len(self.x), rows):
            part = slice(begin, begin + rows)
            x = pa.array(self.x[part], mask=~self.counts[part] if self.setting.counting == "half null" else None)
            columns = [pa.array(self.time[part]).cast(TIME), pa.array(self.key[part]), x, pa.array(self.counts[part])]
            yield pa.record_batch(columns, names=list(TYPES))


def _option(setting: Setting, confidence: float, seed: int) -> Option:
    if setting.way in ("concept", "uniform"):
        return Shedding.of(setting.rate, None, setting.way, seed, confidence, incremental=False)
    if setting.way == "source":
        return Shedding.of(setting.rate, None, "uniform", seed, confidence, at="source")
    # So that all windows with a known error are estimates: what is asked here is whether that is right.
    budget = max(2, round(setting.size * (1 - setting.rate)))
    incremental = setting.way == "approximate"
    return Approximation.of(budget, 0.999, confidence, None, "max", incremental, seed)


def _frame(rows: pa.RecordBatch, setting: Setting) -> pd.DataFrame:
    """The answers of the whole windows and their intervals."""
    if "window_name" in rows.schema.names:
        rows = rows.filter(pa.compute.equal(rows.column("window_name"), "whole"))
    quality = rows.column("quality")
    columns = {
        "window": np.asarray(rows.column("window").field("start").cast(pa.int64())) // (setting.panes * PANE),
        "key": np.asarray(rows.column("key")) if "key" in rows.schema.names else np.zeros(len(rows), dtype=np.int64),
        "estimated": np.asarray(pa.compute.equal(quality.field("mode"), "approximate").cast(pa.int8())) > 0,
        "sampled": np.asarray(quality.field("sampled")),
    }
    for name in AGGREGATES:
        columns[name] = np.asarray(rows.column(name).cast(pa.float64()).fill_null(np.nan))
        for side in ("low", "high"):
            columns[f"{name} {side}"] = np.asarray(quality.field(side).field(name).fill_null(np.nan))
    return pd.DataFrame(columns)


def _by_window(x: Float64Array) -> pd.DataFrame:
    with np.errstate(all="ignore"):
        parts = {
            "count": (~np.isnan(x)).sum(1),
            "sum": np.nansum(x, 1),
            "mean": np.nanmean(x, 1),
            "variance": np.nanvar(x, 1, ddof=1),
            "deviation": np.nanstd(x, 1, ddof=1),
            "min": np.nanmin(x, 1),
            "max": np.nanmax(x, 1),
            "median": np.nanmedian(x, 1),
            "p90": np.nanquantile(x, 0.9, axis=1),
        }
    index = pd.MultiIndex.from_arrays([np.arange(len(x)), np.zeros(len(x), dtype=np.int64)], names=["window", "key"])
    return pd.DataFrame(parts, index=index)


def _covered(setting: Setting, name: str, confidence: float, asked: pd.DataFrame) -> Covered:
    """How often the intervals of an aggregate hold in windows that were estimated."""
    exact = asked[f"exact {name}"].to_numpy(dtype=np.float64)
    low, high = (asked[f"{name} {side}"].to_numpy(dtype=np.float64) for side in ("low", "high"))
    given = (~np.isnan(low) | ~np.isnan(high)) & ~np.isnan(exact)
    slack = 1e-9 * np.maximum(np.abs(exact), 1)  # sums of floats depend on their order
    covered = ~(exact < low - slack) & ~(exact > high + slack) & given
    with np.errstate(all="ignore"):
        widths = (high - low) / np.abs(exact)
    widths = widths[np.isfinite(widths)]
    width = float(np.median(widths)) if len(widths) else np.nan
    found = Covered(setting, name, confidence, len(asked), int(given.sum()), int(covered.sum()), width)
    if name != "mean" or not len(widths) or setting.groups != "none":
        return found
    n = asked["sampled"].to_numpy(dtype=np.float64)
    variance = asked["exact variance"].to_numpy(dtype=np.float64)
    with np.errstate(all="ignore"):
        scatter = variance / n * (1 - n / setting.size)
        student = 2 * deviates(n - 1, confidence) * np.sqrt(scatter) / np.abs(exact)
    return replace(found, student=float(np.nanmedian(student)))


def worst(found: Sequence[Covered], aggregate: str, confidence: float) -> Covered | None:
    """The setting in which the intervals of an aggregate hold least often, compared to what they promise."""
    of = [each for each in found if each.aggregate == aggregate and each.confidence == confidence and each.given]
    return min(of, key=lambda each: (each.share - confidence) * np.sqrt(each.given), default=None)
