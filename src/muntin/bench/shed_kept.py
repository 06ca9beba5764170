"""What concept-driven shedding keeps of rare groups, and the error, by rate and `least=` (CoD, figure 10).

Means by route of taxi rides, without an engine and without timing. A group and pane keeps at least `least` tuples, so
with many rare groups more is kept than the rate asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from muntin.bench import data_sets
from muntin.bench.data_sets import DataSet
from muntin.bench.report import Record, show, write
from muntin.bench.shed_core import AT, CONFIDENCE, MEAN, RATES, Shed, errors_of, run_of, truth_of
from muntin.bench.shed_kept_plot import Curves, draw
from muntin.features.shedding.policy import Shedding

LEAST = (1, 2, 4)
SEEDS, QUICK_SEEDS = 3, 1
NAMES: dict[str, int | str] = {"uniform": "uniform", **{f"concept, least={least}": least for least in LEAST}}


def run(out: Path, quick: bool = False) -> int:
    """Measure, show, draw and write."""
    curves = {data.title: kept_of(data, QUICK_SEEDS if quick else SEEDS, RATES) for data in _data(quick)}
    records = [record for title, of_data in curves.items() for record in records_of(title, of_data)]
    show(records, "Kept rows and errors", Console())
    write(records, out / "shed_kept.json")
    draw(curves, out / "shed_kept.png")
    return 0


def _data(quick: bool) -> list[DataSet]:
    """All but the last are real if their files exist."""
    makes: Sequence[Callable[[int], DataSet]] = (
        partial(data_sets.rides, "DEBS", workers=1),
        partial(data_sets.rides, "NYC", workers=1),
        data_sets.zipf,
    )
    counts = (30_000, 30_000, 300_000) if quick else (100_000, 100_000, 1_000_000)
    return [make(count) for make, count in zip(makes, counts, strict=True)]


def kept_of(data: DataSet, seeds: int, rates: Sequence[float]) -> Curves:
    """Every method at every rate, several times."""
    truth, curves = truth_of(data), {}
    for name, least in NAMES.items():
        curves[name] = {rate: Shed(rate) for rate in rates}
        for rate, shed in curves[name].items():
            for seed in range(seeds):
                ran = run_of(data, MEAN, _policy(rate, least, seed))
                shed.add(ran, errors_of(truth, ran))
    return curves


def _policy(rate: float, least: int | str, seed: int) -> Shedding:
    """As in the paper, means see only the kept tuples."""
    if isinstance(least, str):
        return Shedding.of(rate, None, "uniform", seed, CONFIDENCE, incremental=False)
    return Shedding.of(rate, None, "concept", seed, CONFIDENCE, incremental=False, least=least)


def records_of(title: str, curves: Curves) -> list[Record]:
    """At `AT`: the share that is kept relative to that which was asked for, and the error."""
    return [
        Record(
            name=f"{title}, {name}: kept by what {AT:.0%} asks for",
            rows_per_s=None,
            baseline=None,
            ratio=by_rate[AT].kept / (1 - AT),
            target=None,
            better="lower",
            note=f"{by_rate[AT].kept:.1%} kept; error {by_rate[AT].error:.2%} on average, 95th percentile "
            f"{by_rate[AT].p95_error:.2%}",
        )
        for name, by_rate in curves.items()
    ]
