"""The records of the approximate benchmark: each figure with its baseline, and its target if it has one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
from scipy.stats import binom

from muntin.arrays import BoolArray, Float64Array
from muntin.bench.approximate_plot import Budget, Pair
from muntin.bench.core import Ran
from muntin.bench.data_sets import DataSet
from muntin.bench.report import Record, ms

ERROR, CONFIDENCE = 0.1, 0.95
"""Those of all experiments of Katsipoulakis et al. (2020), *SPEAr*."""
CHANCE = 1e-3
"""The probability of a false verdict that too many windows exceed the error."""


@dataclass(frozen=True)
class Case:
    """A median over a data set, exact and from samples."""

    data: DataSet
    budget: int
    faster: float | None = None
    """Target: the speedup of windows."""
    smaller: float | None = None
    """Target: the memory of tuples divided by that of samples."""

    @property
    def title(self) -> str:
        return f"{self.data.title}: {'grouped ' * bool(self.data.keys)}median, budget {self.budget:,}"


@dataclass(frozen=True)
class Compared:
    """The runs of a case, and its errors."""

    case: Case
    exact: Ran
    approximate: Ran
    errors: Float64Array
    """The true errors of all windows."""
    accelerated: BoolArray

    def records(self) -> list[Record]:
        apart = self.case.data.apart
        judged = over_error(self.case.title, self.errors[apart][self.accelerated[apart]])
        return [self._time(), self._memory(), self._resident(), judged]

    def _time(self) -> Record:
        data, exact, approximate = self.case.data, self.exact, self.approximate
        return Record(
            name=f"{self.case.title}: window time, times less",
            rows_per_s=None,
            baseline=exact.mean * 1e6,
            ratio=exact.mean / approximate.mean,
            target=self.case.faster,
            baseline_name="µs exact",
            note=f"mean {ms(exact.mean)} exact, {ms(approximate.mean)} approximate; 95th percentile {ms(exact.p95)}, "
            f"{ms(approximate.p95)}; arrival of all tuples {exact.arrival:.2f} s, {approximate.arrival:.2f} s; closing "
            f"of all windows with the state {exact.closing:.2f} s, {approximate.closing:.2f} s; "
            f"{self.accelerated.mean():.0%} of {len(self.errors)} windows accelerated, of "
            f"{data.tuples_per_window:,.0f} tuples on average",
        )

    def _memory(self) -> Record:
        exact, sampled = self.exact.answered_from, self.approximate.answered_from
        return Record(
            name=f"{self.case.title}: memory that a window is answered from, times smaller",
            rows_per_s=None,
            baseline=exact,
            ratio=exact / sampled if sampled else None,
            target=self.case.smaller,
            baseline_name="bytes exact",
            note=f"{sampled:,.0f} bytes on average",
        )

    def _resident(self) -> Record:
        approximate = self.approximate
        return Record(
            name=f"{self.case.title}: memory between batches, for all open windows, times smaller",
            rows_per_s=None,
            baseline=self.exact.memory,
            ratio=self.exact.memory / approximate.sample_bytes if approximate.sample_bytes else None,
            target=None,
            baseline_name="bytes of packed chunks and panes exact",
            note=f"{approximate.sample_bytes:,} bytes of samples at most; {approximate.memory:,} with the panes, and "
            "with the chunks of tuples that windows had to be answered from",
        )

    def pair(self) -> Pair:
        """The comparison for the chart."""
        return Pair(
            title=self.case.data.title,
            exact=(self.exact.mean, self.exact.p95),
            approximate=(self.approximate.mean, self.approximate.p95),
            bytes_exact=self.exact.memory,
            bytes_sampled=self.approximate.sample_bytes,
            errors=self.errors[self.accelerated],
        )


def over_error(title: str, errors: Float64Array, allowed: float = ERROR) -> Record:
    """The share of sampled windows whose error exceeds the limit. The confidence allows a few."""
    name = f"{title}: share of accelerated windows off by more than {allowed:.0%}"
    count, over = len(errors), int(np.sum(errors > allowed))
    if not count:
        return Record(name, None, None, None, None, note="no window was accelerated")
    limit = int(binom.isf(CHANCE, count, 1 - CONFIDENCE))
    middle, p95, largest = np.quantile(errors, [0.5, 0.95, 1.0])
    return Record(
        name=name,
        rows_per_s=None,
        baseline=None,
        ratio=over / count,
        target=limit / count,
        better="lower",
        note=f"{over} of {count}, at most {limit} allowed; errors: median {middle:.3f}, 95th percentile {p95:.3f}, "
        f"largest {largest:.3f}",
    )


def of_budgets(budgets: Sequence[Budget]) -> list[Record]:
    """Figures 11 and 12: a larger budget accelerates more windows, and exceeds the error less often."""
    records = []
    for budget in budgets:
        record = over_error(f"mean from samples, budget {budget.budget:,}", budget.of_accelerated)
        share = f"{budget.share:.0%} of {len(budget.errors)} windows accelerated, {ms(budget.seconds)} a window"
        records.append(replace(record, note=f"{share}; {record.note}"))
    shares = [budget.share for budget in budgets]
    # Where few windows are accelerated, few can be wrong.
    wrong = [budget.over(ERROR) for budget in budgets if budget.share > 0.5]
    return [
        *records,
        _trend("windows accelerated", [f"{share:.0%}" for share in shares], int(np.sum(np.diff(shares) < 0))),
        _trend("windows over the error", [f"{count:,}" for count in wrong], int(np.sum(np.diff(wrong) > 0))),
    ]


def _trend(what: str, values: Sequence[str], against: int) -> Record:
    return Record(
        name=f"mean from samples, {what}: steps against the trend as the budget grows",
        rows_per_s=None,
        baseline=None,
        ratio=float(against),
        target=0.0,
        better="lower",
        note=", ".join(values),
    )


def of_count(count: int, rows: int, exact: float, approximate: float) -> Record:
    """Figure 9: windows of `count` tuples. `exact` and `approximate` are seconds of the whole query."""
    return Record(
        name=f"count windows of {count:,}: time in all, times less",
        rows_per_s=rows / approximate,
        baseline=rows / exact,
        ratio=exact / approximate,
        target=None,
        baseline_name="exact",
    )


def beside(data: DataSet, ran: Ran, what: str, seconds: Sequence[float] | None, target: float | None) -> Record:
    """Table 2: windows answered from panes, against another method for the same means; None if it is missing."""
    name = f"{data.title}: grouped mean, window time beside {what}, times less"
    if seconds is None:
        return Record(name, None, None, None, None, note="skipped; it needs a library: pip install datasketches")
    mean, p95 = fmean(seconds), float(np.percentile(seconds, 95))
    return Record(
        name=name,
        rows_per_s=None,
        baseline=mean * 1e6,
        ratio=mean / ran.mean,
        target=target,
        baseline_name=f"µs by {what}",
        note=f"mean {ms(ran.mean)}, {what} {ms(mean)}; 95th percentile {ms(ran.p95)}, {ms(p95)}; "
        f"{data.tuples_per_window:,.0f} tuples in a window",
    )


def of_fallback(what: str, rows: int, exact: Ran, tried: Ran, rounds: int, target: float) -> Record:
    """Figure 12, smallest budget: the cost of samples that answer nothing."""
    return Record(
        name=f"all windows fall back, {what}: time against the exact query",
        rows_per_s=rows / tried.total,
        baseline=rows / exact.total,
        ratio=tried.total / exact.total,
        target=target,
        better="lower",
        baseline_name="exact",
        note=f"arrival and windows, of each slide the fastest of {rounds} runs in step; arrival {exact.arrival:.2f} s "
        f"exact, {tried.arrival:.2f} s approximate; a window {ms(exact.mean)}, {ms(tried.mean)}",
    )
