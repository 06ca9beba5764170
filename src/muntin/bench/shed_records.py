"""The records of the shed benchmark: each figure with its baseline, and its target if it has one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.stats import gmean

from muntin.bench.data_sets import DataSet
from muntin.bench.report import Record, ms
from muntin.bench.shed_core import AT, Compared, Drift, Shed
from muntin.bench.shed_overload import Driven, Seen
from muntin.bench.steady import Measured
from muntin.durations import describe
from muntin.features.shedding.policy import Method

FAR_BETTER, SMALL = 0.1, 0.1
"""At `AT`, with many rare groups: the error relative to that of uniform shedding, and the error itself."""
AS_GOOD, AS_FAST, FASTER = 1.25, 1.1, 2.25
LATENCY = 1.5
"""The limit of batch durations under overload, relative to the target latency."""
FIRST = 10
"""Batches in which the rate settles."""


@dataclass(frozen=True)
class Goals:
    """The targets that are fair for a data set."""

    rare_groups: bool = False
    """Many groups are rare, so concept-driven shedding must be far better."""
    alike: bool = False
    """Both methods keep equally many tuples and groups, so they differ mostly by noise."""


def of_means(compared: Compared, goals: Goals) -> list[Record]:
    """Figures 8 to 10 for one data set."""
    records = []
    for rate in compared.rates:
        records += [_error(compared, rate, goals), _latency(compared, rate)]
    if goals.rare_groups:
        records.append(_small(compared))
    if not compared.data.keys:
        records.append(_as_good(compared))
    records.append(_as_fast(compared))
    if compared.as_many is not None:
        records += _as_many(compared, compared.as_many)
    return records


def _title(data: DataSet) -> str:
    return f"{data.title}, {'mean by group' if data.keys else 'mean'}"


def _error(compared: Compared, rate: float, goals: Goals) -> Record:
    target = FAR_BETTER if goals.rare_groups and rate == AT else None
    name = f"{_title(compared.data)}: error at {rate:.0%}, concept-driven by uniform"
    return _errors_beside(name, compared.concept[rate], compared.uniform[rate], target)


def _errors_beside(name: str, concept: Shed, uniform: Shed, target: float | None = None) -> Record:
    return Record(
        name=name,
        rows_per_s=None,
        baseline=uniform.error * 100,
        ratio=concept.error / uniform.error,
        target=target,
        better="lower",
        baseline_name="% uniform",
        note=f"{_errors('uniform', uniform)}; {_errors('concept-driven', concept)}",
    )


def _errors(name: str, shed: Shed) -> str:
    return f"{name}: {shed.error:.2%} on average, 95th percentile {shed.p95_error:.2%}, {shed.kept:.1%} kept"


def _latency(compared: Compared, rate: float) -> Record:
    """The window latencies of the three systems, which ran in turn."""
    name = f"{_title(compared.data)}: window latency at {rate:.0%}, concept-driven by uniform"
    return _latency_beside(name, compared.concept[rate], compared.uniform[rate], note=_latencies(compared, rate))


def _latency_beside(name: str, concept: Shed, uniform: Shed, target: float | None = None, note: str = "") -> Record:
    return Record(
        name=name,
        rows_per_s=None,
        baseline=uniform.seconds * 1e6,
        ratio=concept.seconds / uniform.seconds,
        target=target,
        better="lower",
        baseline_name="µs uniform",
        note=note,
    )


def _latencies(compared: Compared, rate: float) -> str:
    sheds = {"normal": compared.normal, "uniform": compared.uniform[rate], "concept-driven": compared.concept[rate]}
    latencies = [f"{name} {ms(shed.seconds)}, 95th percentile {ms(shed.p95)}" for name, shed in sheds.items()]
    kept = f"kept {compared.uniform[rate].kept:.1%} and {compared.concept[rate].kept:.1%}"
    return f"{'; '.join(latencies)}; {kept} of {compared.data.tuples_per_window:,.0f} tuples"


def _small(compared: Compared) -> Record:
    concept = compared.concept[AT]
    return Record(
        name=f"{_title(compared.data)}: concept-driven error at {AT:.0%}",
        rows_per_s=None,
        baseline=None,
        ratio=concept.error,
        target=SMALL,
        better="lower",
        note=_errors("concept-driven", concept),
    )


def _as_good(compared: Compared) -> Record:
    """Without groups, both methods draw from all tuples. The rates have equal weight, whatever their errors."""
    return _over_rates(
        compared,
        "error",
        AS_GOOD,
        [shed.error for shed in compared.concept.values()],
        [shed.error for shed in compared.uniform.values()],
    )


def _as_fast(compared: Compared) -> Record:
    """Over all rates. The records of single rates have no target (docs/shed.md)."""
    return _over_rates(
        compared,
        "window latency",
        AS_FAST,
        [shed.seconds for shed in compared.concept.values()],
        [shed.seconds for shed in compared.uniform.values()],
    )


def of_all_means(comparisons: Sequence[Compared]) -> Record:
    """Over all data sets: with rare groups (which uniform shedding partly loses), with few groups, and without."""
    ratios = [
        gmean([compared.concept[rate].seconds / compared.uniform[rate].seconds for rate in compared.rates])
        for compared in comparisons
    ]
    return _on_average(
        "means: window latency over all data sets and rates",
        ratios,
        [f"for {compared.data.title}" for compared in comparisons],
        None,
    )


def _over_rates(
    compared: Compared, what: str, target: float | None, concept: Sequence[float], uniform: Sequence[float]
) -> Record:
    ratios = [ours / theirs for ours, theirs in zip(concept, uniform, strict=True)]
    record = _on_average(f"{_title(compared.data)}: {what} over all rates", ratios, _at(compared.rates), target)
    seeds, windows = len(compared.normal.runs), len(compared.normal.windows)
    return replace(record, note=f"{record.note}; {seeds} seeds, {windows} windows each")


def _on_average(name: str, ratios: Sequence[float], labels: Sequence[str], target: float | None) -> Record:
    parts = (f"{ratio:.2f} {label}" for ratio, label in zip(ratios, labels, strict=True))
    return Record(
        name=f"{name}, concept-driven by uniform",
        rows_per_s=None,
        baseline=None,
        ratio=float(gmean(ratios)),
        target=target,
        better="lower",
        note=f"geometric mean of {', '.join(parts)}",
    )


def _at(rates: Iterable[float]) -> list[str]:
    return [f"at {rate:.0%}" for rate in rates]


def _as_many(compared: Compared, uniform: Shed) -> list[Record]:
    """Rare groups are kept completely, which exceeds the requested share. So uniform shedding gets the same share."""
    concept, title = compared.concept[AT], _title(compared.data)
    beside = f"concept-driven at {AT:.0%}, by uniform that keeps as much"
    answered = "as many tuples, of more groups, which all have an answer"
    return [
        _errors_beside(f"{title}: error, {beside}", concept, uniform),
        _latency_beside(f"{title}: window latency, {beside}", concept, uniform, AS_FAST, answered),
    ]


def of_fits(compared: Compared) -> list[Record]:
    """The benefit of shedding for an expensive window function."""
    normal, concept, uniform = compared.normal, compared.concept[AT], compared.uniform[AT]
    name = f"{compared.data.title}, {'a fit by group' if compared.data.keys else 'a fit'}: window latency at {AT:.0%}"
    return [
        Record(
            name=f"{name}, times less than normal",
            rows_per_s=None,
            baseline=normal.seconds * 1e6,
            ratio=normal.seconds / concept.seconds,
            target=FASTER,
            baseline_name="µs normal",
            note=_latencies(compared, AT),
        ),
        _latency_beside(f"{name}, concept-driven by uniform", concept, uniform, AS_FAST),
    ]


def of_pane_stage(data: DataSet, seconds: Mapping[str, float]) -> list[Record]:
    """The cost of the pane stage, which sees every tuple, kept or not."""
    rows = len(data.tuples)
    return [
        Record(
            name=f"{data.title}: pane stage at {AT:.0%}, {method} by normal",
            rows_per_s=rows / seconds[method],
            baseline=rows / seconds["normal"],
            ratio=seconds[method] / seconds["normal"],
            target=None,
            better="lower",
            baseline_name="normal",
            note=f"per million tuples {ms(seconds[method] / rows * 1e6)}, normal {ms(seconds['normal'] / rows * 1e6)}",
        )
        for method in ("uniform", "concept")
    ]


@dataclass
class OnSpark:
    """Batches of the same rides as a stream: without shedding, and with either method at several rates."""

    normal: Measured | None = None
    shed: dict[Method, dict[float, Measured]] = field(default_factory=lambda: {"uniform": {}, "concept": {}})

    def add_normal(self, measured: Measured) -> None:
        self.normal = measured if self.normal is None else self.normal + measured

    def add(self, method: Method, rate: float, measured: Measured) -> None:
        by_rate = self.shed[method]
        by_rate[rate] = by_rate[rate] + measured if rate in by_rate else measured


def on_spark(rows: int, measured_runs: OnSpark) -> list[Record]:
    """The end-to-end cost of a query, for kept and shed rows."""
    assert measured_runs.normal is not None, "all were run"
    uniform, concept = measured_runs.shed["uniform"], measured_runs.shed["concept"]
    name = "Spark, made rides, mean by group: time of a batch"
    by_uniform = {
        rate: _batches(f"{name} at {rate:.0%}, concept-driven by uniform", rows, measured, uniform[rate], "uniform")
        for rate, measured in concept.items()
    }
    ratios = {rate: record.ratio for rate, record in by_uniform.items() if record.ratio is not None}
    over_all = _on_average(f"{name} over all rates", list(ratios.values()), _at(ratios), AS_FAST)
    by_uniform[AT] = replace(by_uniform[AT], target=AS_FAST)
    by_normal = _batches(
        f"{name} at {AT:.0%}, concept-driven by normal", rows, concept[AT], measured_runs.normal, "normal"
    )
    return [*by_uniform.values(), over_all, by_normal]


def _batches(name: str, rows: int, ours: Measured, theirs: Measured, theirs_is: str) -> Record:
    """Compare the fastest batches, since the systems differ by little."""
    return Record(
        name=name,
        rows_per_s=ours.fastest,
        baseline=theirs.fastest,
        ratio=theirs.fastest / ours.fastest,
        target=None,
        better="lower",
        baseline_name=theirs_is,
        note=f"the fastest of {len(ours.rows)} and {len(theirs.rows)} batches of {rows:,} rows, in turn; by the median "
        f"batches {theirs.rows_per_s / ours.rows_per_s:.2f}",
    )


@dataclass
class Closing:
    """Batches of a data set on Spark, shed by either method at one rate. A window closes with each batch."""

    data: DataSet
    rate: float
    shed: dict[Method, Measured] = field(default_factory=dict)

    def add(self, method: Method, measured: Measured) -> None:
        self.shed[method] = self.shed[method] + measured if method in self.shed else measured

    def seconds(self, method: Method) -> float:
        """The mean of the faster half of the batches, since other load slows the slower half.

        The methods differ by a few milliseconds of hundreds. This mean varies less between runs of one method than the
        median does.
        """
        latencies = np.sort(self.shed[method].latencies)
        return float(np.mean(latencies[: -(-len(latencies) // 2)]))


def of_closing(closing: Closing) -> Record:
    """Figure 8, measured as in CoD: on the engine, from the watermark until the result is at the next operator."""
    uniform, concept = closing.seconds("uniform"), closing.seconds("concept")
    return Record(
        name=f"Spark, {_title(closing.data)}: window latency at {closing.rate:.0%}, concept-driven by uniform",
        rows_per_s=None,
        baseline=uniform * 1e3,
        ratio=concept / uniform,
        target=AS_FAST,
        better="lower",
        baseline_name="ms uniform",
        note=f"{_closed('uniform', closing)}; {_closed('concept', closing)}",
    )


def _closed(method: Method, closing: Closing) -> str:
    latencies = closing.shed[method].latencies
    times = f"{ms(closing.seconds(method))}, 95th percentile {ms(float(np.percentile(latencies, 95)))}"
    return f"{method}: {times}, {len(latencies)} batches"


def of_drift(data: DataSet, drift: Drift) -> Record:
    """Figure 2."""
    return Record(
        name=f"{data.title} by {describe(data.slide)}: concept overlap of neighbouring windows",
        rows_per_s=None,
        baseline=None,
        ratio=float(drift.overlap.mean()),
        target=None,
        note=f"from {drift.overlap.min():.2f} to {drift.overlap.max():.2f}; distance {drift.distance.mean():.2f} on "
        f"average, from {drift.distance.min():.2f} to {drift.distance.max():.2f}; {len(drift.overlap)} pairs of "
        f"windows of {data.tuples_per_window:,.0f} tuples",
    )


def of_overload(capacity: float, target: float, shed: Driven, plain: Driven) -> list[Record]:
    """Whether batches stay within the target latency, and what happens without shedding."""
    seconds = [batch.seconds for batch in shed.batches[FIRST:]]
    rates = [batch.rate for batch in shed.batches[FIRST:]]
    title = f"Spark, {shed.rows_per_s / capacity:.1f} times its capacity"
    summary = (
        f"capacity {capacity:,.0f} rows/s, input {shed.rows_per_s:,} rows/s for {shed.seconds:.0f} s; "
        f"{len(shed.batches)} batches, those after the first {FIRST} count"
    )
    if not seconds:
        return [Record(f"{title}: batch duration by the target latency", None, None, None, None, note=summary)]
    return [
        _duration(f"{title}: 95th percentile of batch durations", float(np.percentile(seconds, 95)), target, summary),
        _duration(
            f"{title}: longest batch",
            max(seconds),
            target,
            f"median {np.median(seconds):.2f} s; shed {np.median(rates):.1%} in the median batch, from "
            f"{min(rates):.1%} to {max(rates):.1%}",
        ),
        Record(
            name=f"{title}: backlog without shedding, times that with it",
            rows_per_s=None,
            baseline=shed.backlog,
            ratio=plain.backlog / shed.backlog,
            target=None,
            baseline_name="s of input with it",
            note=f"after {plain.seconds:.0f} s, {plain.backlog:.0f} s of input are not processed without shedding, and "
            f"{shed.backlog:.1f} s with it; batch durations without: {_durations(plain)}",
        ),
    ]


def _duration(name: str, seconds: float, target: float, note: str) -> Record:
    return Record(
        name=f"{name} by the target latency",
        rows_per_s=None,
        baseline=target,
        ratio=seconds / target,
        target=LATENCY,
        better="lower",
        baseline_name="s target",
        note=f"{seconds:.2f} s; {note}",
    )


def _durations(driven: Driven) -> str:
    return ", ".join(f"{batch.seconds:.1f}" for batch in _few(driven.batches)) + " s"


def _few(batches: Sequence[Seen]) -> Sequence[Seen]:
    return batches if len(batches) <= MOST_LISTED else batches[:: -(-len(batches) // MOST_LISTED)]


MOST_LISTED = 12
