"""The records of a run with some D, beside runs without compression."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from muntin.bench.compress_runs import Run
from muntin.bench.report import Record

THROUGHPUT = {"1 min": 0.95, "0": 0.75}
"""Targets by D: the share of the throughput without compression."""
SMALLER = {"1 min": 3.0, "0": 4.0}
"""Targets by D: the uncompressed state divided by the compressed one."""


@dataclass(frozen=True)
class Beside:
    """A run with some D, and the runs without compression before and after it."""

    run: Run
    before: Run
    after: Run

    @property
    def throughput(self) -> float:
        return self.run.rate_beside(self.before, self.after)

    @property
    def baseline(self) -> float:
        return fmean([self.before.measured.fastest, self.after.measured.fastest])

    @property
    def smaller(self) -> float:
        return self.after.chunk_bytes / self.run.chunk_bytes

    @property
    def latency(self) -> float:
        return self.run.latency / fmean([self.before.latency, self.after.latency])

    @property
    def memory(self) -> float:
        return self.run.memory / fmean([self.before.memory, self.after.memory])


def records_of(workload: str, aimed: bool, name: str, beside: Beside) -> list[Record]:
    run, plain, last = beside.run, beside.after, beside.run.last
    title = f"{workload}, D = {name}"
    return [
        Record(
            name=f"{title}: throughput against D = ∞",
            rows_per_s=run.measured.fastest,
            baseline=beside.baseline,
            ratio=beside.throughput,
            target=THROUGHPUT.get(name) if aimed else None,
            baseline_name="at ∞",
            note=f"{len(run.measured.rows)} batches of about {run.measured.rows[0]:,} rows and {last.batch_results:,} "
            f"results, over {last.chunk_tuples:,} tuples in the state; the fastest, beside those before and after",
        ),
        Record(
            name=f"{title}: state, times smaller",
            rows_per_s=None,
            baseline=plain.chunk_bytes,
            ratio=beside.smaller,
            target=SMALLER.get(name) if aimed else None,
            baseline_name="bytes at ∞",
            note=f"{run.chunk_bytes:,} bytes of chunks, {last.compressed_share:.0%} of them compressed; "
            f"{last.compressions:,} compressions, {last.decompressions:,} decompressions; with the panes "
            f"{last.state_bytes:,} bytes, {plain.last.state_bytes / last.state_bytes:.2f} times smaller",
        ),
        Record(
            name=f"{title}: latency",
            rows_per_s=None,
            baseline=None,
            ratio=beside.latency,
            target=None,
            better="lower",
            note=f"{run.latency:.2f} s a batch, {fmean([beside.before.latency, plain.latency]):.2f} s at ∞",
        ),
        Record(
            name=f"{title}: resident memory of the workers",
            rows_per_s=None,
            baseline=plain.memory,
            ratio=beside.memory,
            target=None,
            better="lower",
            baseline_name="bytes at ∞",
            note=f"{run.memory / 1e6:,.0f} MB in all Python workers at most, of which {last.resident_bytes / 1e6:,.1f} "
            f"MB are chunks and {last.hot_bytes / 1e6:,.1f} MB panes",
        ),
    ]
