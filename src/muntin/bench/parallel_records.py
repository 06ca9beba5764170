"""The records of the parallel benchmark: each figure with its baseline, and its target if it has one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

from muntin.bench.parallel_runs import Run
from muntin.bench.report import Record, ms
from muntin.features.workers.policy import Model

TWO_BY_ONE, AGNOSTIC_BY_ACTIVE, UNDER_SKEW = 1.8, 0.95, 1.2
AUTOMATIC = 0
"""The chunk size that stands for Muntin's choice."""


def of_function(one: float, two: float) -> Record:
    """Calls per second in one process, and in two at once."""
    return Record(
        name="the function alone, without Spark: calls/s of two processes by one",
        rows_per_s=None,
        baseline=one,
        ratio=two / one,
        target=None,
        baseline_name="calls/s of one",
        note=f"{two:.1f} calls/s, one {one:.1f}; what two cores are worth to it",
    )


def of_models(title: str, runs: Mapping[tuple[Model, int], Run], wanted: float, aimed: bool) -> list[Record]:
    """Figure 11. `wanted` are the results per second of the stream.

    Median batches are compared. A batch takes most of a minute, so each is disturbed, and the fastest of a few is luck.
    """
    records = []
    for (model, workers), run in runs.items():
        if workers > 1:
            one = runs[model, 1]
            records.append(
                Record(
                    name=f"{title}, {model}: results/s of {workers} workers by one",
                    rows_per_s=None,
                    baseline=one.usual,
                    ratio=run.usual / one.usual,
                    target=TWO_BY_ONE if aimed and workers == 2 else None,
                    baseline_name="results/s of one",
                    note=f"{_rates(run)}; one: {_rates(one)}; the stream has {wanted:g} results/s; "
                    f"T_calc {ms(run.latency)}, one: {ms(one.latency)}; {run.told}",
                )
            )
    for workers in sorted({workers for _, workers in runs}):
        active, agnostic = runs["active", workers], runs["agnostic", workers]
        records.append(
            Record(
                name=f"{title}, {_workers(workers)}: results/s, agnostic by active",
                rows_per_s=None,
                baseline=active.usual,
                ratio=agnostic.usual / active.usual,
                target=AGNOSTIC_BY_ACTIVE if aimed and workers == 2 else None,
                baseline_name="results/s active",
                note=f"agnostic {_rates(agnostic)}; active {_rates(active)}",
            )
        )
        records.append(
            Record(
                name=f"{title}, {_workers(workers)}: window latency, agnostic by active",
                rows_per_s=None,
                baseline=active.latency * 1e3,
                ratio=agnostic.latency / active.latency,
                target=None,
                better="lower",
                baseline_name="ms active",
                note=f"T_calc {ms(agnostic.latency)} and {ms(active.latency)}",
            )
        )
    return records


def _workers(count: int) -> str:
    return f"{count} worker{'s' * (count > 1)}"


def _rates(run: Run) -> str:
    return f"{run.fastest:.1f} results/s in the fastest batch, {run.usual:.1f} in the median one"


def of_chunks(title: str, runs: Mapping[int, Run], automatic: int) -> list[Record]:
    """Figures 12 and 13. Muntin's own chunks have `automatic` tuples."""
    automatic_run = runs[AUTOMATIC]
    return [
        Record(
            name=f"{title}, agnostic: results/s with chunks of {tuples:,} tuples by automatic ones",
            rows_per_s=None,
            baseline=automatic_run.fastest,
            ratio=run.fastest / automatic_run.fastest,
            target=None,
            baseline_name="results/s automatic",
            note=f"{_rates(run)}, T_calc {ms(run.latency)}, the emitter {ms(run.emitter)} a window; automatic, of "
            f"{automatic:,} tuples: {_rates(automatic_run)}, {ms(automatic_run.latency)}, "
            f"{ms(automatic_run.emitter)}; {run.told}",
        )
        for tuples, run in runs.items()
        if tuples != AUTOMATIC
    ]


def of_rates(title: str, runs: Mapping[int, Run], wanted: float) -> list[Record]:
    """Figure 14."""
    return [_reached(f"{title}, agnostic, 2 workers at {rate:,} quotes/s", run, wanted) for rate, run in runs.items()]


def of_tuples(runs: Mapping[tuple[int, int], Run], rate: int) -> list[Record]:
    """Figures 15 and 16."""
    return [
        _reached(f"the last {size} s every {every:,} tuples, agnostic, 2 workers", run, rate / every)
        for (size, every), run in runs.items()
    ]


def _reached(title: str, run: Run, wanted: float) -> Record:
    return Record(
        name=f"{title}: results/s reached by those wanted",
        rows_per_s=None,
        baseline=wanted,
        ratio=run.usual / wanted,
        target=None,
        baseline_name="results/s wanted",
        note=f"{_rates(run)}, T_calc {ms(run.latency)}; {run.told}; for all results, the calls alone need "
        f"{_workers(ceil(wanted * run.latency))}",
    )


def of_skew(title: str, runs: Mapping[Model, Run], sizes: Sequence[Sequence[int]], aimed: bool) -> Record:
    """Over all batches, since no two have the same windows."""
    active, agnostic = runs["active"], runs["agnostic"]
    tuples = [size for sizes_of_batch in sizes for size in sizes_of_batch]
    busier = sum(max(sum(batch[0::2]), sum(batch[1::2])) for batch in sizes)
    best = sum(max(sum(batch) / 2, max(batch)) for batch in sizes)
    return Record(
        name=f"{title}, 2 workers: results/s, agnostic by active",
        rows_per_s=None,
        baseline=active.overall,
        ratio=agnostic.overall / active.overall,
        target=UNDER_SKEW if aimed else None,
        baseline_name="results/s active",
        note=f"agnostic {agnostic.overall:.2f} results/s, active {active.overall:.2f}; windows of {min(tuples):,} to "
        f"{max(tuples):,} quotes; the busier active worker has {busier / sum(tuples):.0%} of them, and "
        f"{best / sum(tuples):.0%} at best, so that at most {busier / best:.2f} times as many results are possible; "
        f"T_calc {ms(agnostic.latency)} and {ms(active.latency)}, {agnostic.told}",
    )


def of_bytes(title: str, runs: Mapping[str, Run]) -> list[Record]:
    first, *others = runs
    base = runs[first].bytes_per_window
    return [
        Record(
            name=f"{title}: bytes shuffled per window, {name} by {first}",
            rows_per_s=None,
            baseline=base,
            ratio=runs[name].bytes_per_window / base,
            target=None,
            better="lower",
            baseline_name=f"bytes {first}",
            note=f"{runs[name].bytes_per_window:,.0f} bytes, {base:,.0f} {first}",
        )
        for name in others
    ]


def of_hot_key(title: str, keyed: Run, spread: Run) -> Record:
    return Record(
        name=f"{title}: results/s, agnostic by keyed",
        rows_per_s=None,
        baseline=keyed.fastest,
        ratio=spread.fastest / keyed.fastest,
        target=None,
        baseline_name="results/s keyed",
        note=f"agnostic {_rates(spread)}, {spread.told}; keyed {_rates(keyed)}, {keyed.told}",
    )
